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

__global__ void transform_vertices(const float3* in, float3* out, const float* m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float3 v = in[i];
  float w = m[12] * v.x + m[13] * v.y + m[14] * v.z + m[15];
  float3 r;
  r.x = (m[0] * v.x + m[1] * v.y + m[2] * v.z + m[3]) / w;
  r.y = (m[4] * v.x + m[5] * v.y + m[6] * v.z + m[7]) / w;
  r.z = (m[8] * v.x + m[9] * v.y + m[10] * v.z + m[11]) / w;
  out[i] = r;
}

int main(int argc, char** argv) {

  int n = A(1, 5000000);
  float *a = floats(n * 3), *b = zeros(n * 3); std::vector<float> m(16); for (auto& x : m) x = rnd() + 1;
  float* dm = upload(m);
  transform_vertices<<<(n + 255) / 256, 256>>>((const float3*)a, (float3*)b, dm, n);
  show(b, n * 3);

  cudaDeviceSynchronize();
  return 0;
}
