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

// column-major, C = alpha*A*B + beta*C
__global__ void sgemm_nn(int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
                         float beta, float* c, int ldc) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  float acc = 0.f;
  for (int l = 0; l < k; l++) acc += a[i + l * lda] * b[l + j * ldb];
  c[i + j * ldc] = alpha * acc + beta * c[i + j * ldc];
}

int main(int argc, char** argv) {

  int m = A(1, 1000), n = A(2, 900), k = A(3, 800);
  int lda = m + 3, ldb = k + 1, ldc = m + 2;
  float *a = floats(lda * k), *b = floats(ldb * n), *c = floats(ldc * n);
  dim3 block(16, 16);
  dim3 grid((m + 15) / 16, (n + 15) / 16);
  sgemm_nn<<<grid, block>>>(m, n, k, 1.5f, a, lda, b, ldb, 0.5f, c, ldc);
  show(c, ldc * n);

  cudaDeviceSynchronize();
  return 0;
}
