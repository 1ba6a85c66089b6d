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

struct Sphere { float3 center; float radius; int material; };
__global__ void trace(const Sphere* spheres, int count, int* hitId, float* depth, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float dx = (x - w * 0.5f) / w, dy = (y - h * 0.5f) / h, dz = 1.0f;
  float inv = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz);
  dx *= inv; dy *= inv; dz *= inv;
  float nearest = 1e20f;
  int id = -1;
  for (int i = 0; i < count; i++) {
    Sphere s = spheres[i];
    float b = s.center.x * dx + s.center.y * dy + s.center.z * dz;
    float c = s.center.x * s.center.x + s.center.y * s.center.y + s.center.z * s.center.z - s.radius * s.radius;
    float disc = b * b - c;
    if (disc < 0) continue;
    float t = b - sqrtf(disc);
    if (t > 0 && t < nearest) { nearest = t; id = s.material; }
  }
  hitId[y * w + x] = id;
  depth[y * w + x] = nearest;
}

int main(int argc, char** argv) {

  int w = A(1, 1024), h = A(2, 768), n = A(3, 500);
  std::vector<Sphere> v(n); for (int i = 0; i < n; i++) v[i] = {{3 * rnd(), 3 * rnd(), 5 + rnd()}, 0.1f + 0.05f * rnd(), i};
  Sphere* s = upload(v); int* id = izeros(w * h); float* d = zeros(w * h);
  dim3 block(16, 16), grid((w + 15) / 16, (h + 15) / 16);
  trace<<<grid, block>>>(s, n, id, d, w, h);
  show(id, w * h); show(d, w * h);

  cudaDeviceSynchronize();
  return 0;
}
