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

// two rows a thread
__global__ void matvec2(const float* a, const float* x, float* y, int rows, int cols) {
  int r = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float s0 = 0, s1 = 0;
  for (int c = 0; c < cols; c++) {
    s0 += a[r * cols + c] * x[c];
    if (r + 1 < rows) s1 += a[(r + 1) * cols + c] * x[c];
  }
  y[r] = s0;
  if (r + 1 < rows) y[r + 1] = s1;
}

int main(int argc, char** argv) {

  int rows = A(1, 20000), cols = A(2, 2000);
  float *a = floats(rows * cols), *x = floats(cols), *y = zeros(rows);
  matvec2<<<(rows / 2 + 128) / 128, 128>>>(a, x, y, rows, cols);
  show(y, rows);

  cudaDeviceSynchronize();
  return 0;
}
