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

#define N 16
__global__ void lu_batched(float* mats, int batch) {
  int b = blockIdx.x;
  if (b >= batch) return;
  float* a = mats + b * N * N;
  int i = threadIdx.x;
  for (int k = 0; k < N - 1; k++) {
    if (i > k) {
      a[i * N + k] /= a[k * N + k];
      for (int j = k + 1; j < N; j++) a[i * N + j] -= a[i * N + k] * a[k * N + j];
    }
    __syncthreads();
  }
}

int main(int argc, char** argv) {

  int batch = A(1, 20000);
  std::vector<float> v(batch * N * N);
  for (size_t i = 0; i < v.size(); i++) v[i] = rnd() + (i % (N * N) % (N + 1) == 0 ? N : 0);
  float* a = upload(v);
  lu_batched<<<batch, N>>>(a, batch);
  show(a, batch * N * N);

  cudaDeviceSynchronize();
  return 0;
}
