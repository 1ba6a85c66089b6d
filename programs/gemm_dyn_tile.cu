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

__global__ void matMulDyn(const float* A_, const float* B_, float* C, int n, int ts) {
  extern __shared__ float smem[];
  float* sA = smem;
  float* sB = smem + ts * ts;
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * ts + ty;
  int col = blockIdx.x * ts + tx;
  float sum = 0.0f;
  for (int t = 0; t < (n + ts - 1) / ts; ++t) {
    if (row < n && t * ts + tx < n) sA[ty * ts + tx] = A_[row * n + t * ts + tx];
    else sA[ty * ts + tx] = 0.0f;
    if (col < n && t * ts + ty < n) sB[ty * ts + tx] = B_[(t * ts + ty) * n + col];
    else sB[ty * ts + tx] = 0.0f;
    __syncthreads();
    for (int k = 0; k < ts; ++k) sum += sA[ty * ts + k] * sB[k * ts + tx];
    __syncthreads();
  }
  if (row < n && col < n) C[row * n + col] = sum;
}

int main(int argc, char** argv) {

  int n = A(1, 1024), ts = A(2, 16);
  float *a = floats(n * n), *b = floats(n * n), *c = zeros(n * n);
  dim3 block(ts, ts), grid((n + ts - 1) / ts, (n + ts - 1) / ts);
  matMulDyn<<<grid, block, 2 * ts * ts * sizeof(float)>>>(a, b, c, n, ts);
  show(c, n * n);

  cudaDeviceSynchronize();
  return 0;
}
