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

__global__ void rmsnorm_half(const half* x, const half* w, half* y, int rows, int dim, float eps) {
  int row = blockIdx.x;
  __shared__ float red[256];
  float ss = 0.f;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    float v = __half2float(x[row * dim + i]);
    ss += v * v;
  }
  red[threadIdx.x] = ss;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) red[threadIdx.x] += red[threadIdx.x + s];
    __syncthreads();
  }
  float inv = rsqrtf(red[0] / dim + eps);
  for (int i = threadIdx.x; i < dim; i += blockDim.x)
    y[row * dim + i] = __float2half(__half2float(x[row * dim + i]) * inv * __half2float(w[i]));
}

int main(int argc, char** argv) {

  int rows = A(1, 8192), dim = A(2, 4096);
  std::vector<half> hx(rows * dim), hw(dim), z(rows * dim, __float2half(0.f));
  for (auto& v : hx) v = __float2half(rnd()); for (auto& v : hw) v = __float2half(rnd());
  half *x = upload(hx), *w = upload(hw), *y = upload(z);
  rmsnorm_half<<<rows, 256>>>(x, w, y, rows, dim, 1e-5f);
  std::vector<half> o(rows * dim); cudaMemcpy(o.data(), y, o.size() * sizeof(half), cudaMemcpyDeviceToHost);
  std::vector<float> f; for (auto& v : o) f.push_back(__half2float(v)); show(upload(f), f.size());

  cudaDeviceSynchronize();
  return 0;
}
