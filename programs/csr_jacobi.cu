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

__global__ void jacobi_csr(int n, const int* rowptr, const int* colidx, const float* vals, const float* b,
                           const float* x, float* xnew) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sigma = 0.0f;
  float diag = 1.0f;
  for (int j = rowptr[row]; j < rowptr[row + 1]; j++) {
    if (colidx[j] == row) diag = 2.0f + vals[j];
    else sigma += vals[j] * x[colidx[j]];
  }
  xnew[row] = (b[row] - sigma) / diag;
}

int main(int argc, char** argv) {

  int rows = A(1, 200000), deg = A(2, 80);

  std::vector<int> off(1, 0), idx;
  for (int r = 0; r < rows; r++) { rnd(); int len = (seed >> 8) % deg; for (int e = 0; e < len; e++) { rnd(); idx.push_back((seed >> 8) % rows); } off.push_back(idx.size()); }
  if (idx.empty()) idx.push_back(0);
  int *ptr = upload(off), *col = upload(idx); float* val = floats(idx.size());

  float *b = floats(rows), *x = floats(rows), *y = zeros(rows);
  jacobi_csr<<<(rows + 255) / 256, 256>>>(rows, ptr, col, val, b, x, y);
  show(y, rows);

  cudaDeviceSynchronize();
  return 0;
}
