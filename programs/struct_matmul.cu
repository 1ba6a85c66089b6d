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

typedef struct { int width; int height; int stride; float* elements; } Matrix;
__device__ float GetElement(const Matrix A, int row, int col) { return A.elements[row * A.stride + col]; }
__device__ void SetElement(Matrix A, int row, int col, float value) { A.elements[row * A.stride + col] = value; }
__global__ void MatMulKernel(const Matrix A_, const Matrix B_, Matrix C) {
  float Cvalue = 0;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= A_.height || col >= B_.width) return;
  for (int e = 0; e < A_.width; ++e) Cvalue += GetElement(A_, row, e) * GetElement(B_, e, col);
  SetElement(C, row, col, Cvalue);
}

int main(int argc, char** argv) {

  int m = A(1, 1000), n = A(2, 900), k = A(3, 800);
  Matrix a = {k, m, k, floats(m * k)}, b = {n, k, n, floats(k * n)}, c = {n, m, n, zeros(m * n)};
  dim3 block(16, 16);
  dim3 grid((b.width + block.x - 1) / block.x, (a.height + block.y - 1) / block.y);
  MatMulKernel<<<grid, block>>>(a, b, c);
  show(c.elements, m * n);

  cudaDeviceSynchronize();
  return 0;
}
