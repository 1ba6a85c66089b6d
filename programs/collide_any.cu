#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

static unsigned seed = 12345;
static float rnd() { seed = seed * 1664525u + 1013904223u; return (seed >> 8) * (1.0f / 16777216.0f) - 0.3f; }
template <typename T> T* upload(const std::vector<T>& v) {
  T* d; cudaMalloc(&d, v.size() * sizeof(T));
  cudaMemcpy(d, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice); return d;
}
static float* floats(size_t n) { std::vector<float> v(n); for (auto& x : v) x = rnd(); return upload(v); }
static int* ints(size_t n, int below) { std::vector<int> v(n); for (auto& x : v) { rnd(); x = (seed >> 8) % below; } return upload(v); }
static float* zeros(size_t n) { return upload(std::vector<float>(n, 0.0f)); }
static int* izeros(size_t n) { return upload(std::vector<int>(n, 0)); }
template <typename T> void show(const T* d, size_t n) {
  std::vector<T> v(n); cudaMemcpy(v.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
  double s = 0, w = 0; for (size_t i = 0; i < n; i++) { s += (double)v[i]; w += (double)v[i] * (i % 97); }
  printf("%.6g %.6g\n", s, w); for (size_t i = 0; i < n; i += 1 + n / 40) printf("%.6g ", (double)v[i]); printf("\n");
}
#define A(i, d) (argc > i ? atoi(argv[i]) : d)

struct Circle { float x, y, r; };
__global__ void any_collision(const Circle* c, int n, int* hit) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Circle me = c[i];
  int found = 0;
  for (int j = 0; j < n; j++) {
    if (j == i) continue;
    float dx = c[j].x - me.x, dy = c[j].y - me.y, rr = c[j].r + me.r;
    if (dx * dx + dy * dy < rr * rr) { found = 1; break; }
  }
  hit[i] = found;
}

int main(int argc, char** argv) {

  int n = A(1, 30000);
  std::vector<Circle> v(n);
  for (auto& c : v) c = {100 * rnd(), 100 * rnd(), 0.1f};
  Circle* c = upload(v);
  int* h = izeros(n);
  any_collision<<<(n + 127) / 128, 128>>>(c, n, h);
  show(h, n);

  cudaDeviceSynchronize();
  return 0;
}
