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

#define NB 32
// A22 -= L21 * U12 of a blocked LU; panel columns [k0, k0+NB)
__global__ void trailing_update(float* a, int n, int lda, int k0) {
  int i = k0 + NB + blockIdx.y * blockDim.y + threadIdx.y;
  int j = k0 + NB + blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || j >= n) return;
  float s = a[i * lda + j];
  for (int k = k0; k < k0 + NB; k++) s -= a[i * lda + k] * a[k * lda + j];
  a[i * lda + j] = s;
}

int main(int argc, char** argv) {

  int n = A(1, 4096);
  float *a = floats(n * n);
  dim3 block(16, 16);
  int rest = n - NB;
  dim3 grid((rest + 15) / 16, (rest + 15) / 16);
  trailing_update<<<grid, block>>>(a, n, n, 0);
  show(a, n * n);

  cudaDeviceSynchronize();
  return 0;
}
