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

__global__ void scatter_forces(const int* ea, const int* eb, const float* px, const float* py, float* fx, float* fy, int edges, float k, float rest) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= edges) return;
  int a = ea[e], b = eb[e];
  float dx = px[b] - px[a], dy = py[b] - py[a];
  float len = sqrtf(dx * dx + dy * dy) + 1e-6f;
  float f = k * (len - rest) / len;
  atomicAdd(&fx[a], f * dx); atomicAdd(&fy[a], f * dy);
  atomicAdd(&fx[b], -f * dx); atomicAdd(&fy[b], -f * dy);
}

int main(int argc, char** argv) {

  int edges = A(1, 2000000), n = A(2, 100000);
  int *a = ints(edges, n), *b = ints(edges, n); float *x = floats(n), *y = floats(n), *fx = zeros(n), *fy = zeros(n);
  scatter_forces<<<(edges + 255) / 256, 256>>>(a, b, x, y, fx, fy, edges, 1.0f, 0.1f);
  show(fx, n); show(fy, n);

  cudaDeviceSynchronize();
  return 0;
}
