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

__global__ void ema(const float* price, float* out, int series, int len, float alpha) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= series) return;
  float e = price[s * len];
  out[s * len] = e;
  for (int t = 1; t < len; t++) {
    e = alpha * price[s * len + t] + (1.0f - alpha) * e;
    out[s * len + t] = e;
  }
}

int main(int argc, char** argv) {

  int s = A(1, 8192), n = A(2, 1000);
  float *x = floats(s * n), *o = zeros(s * n);
  ema<<<(s + 127) / 128, 128>>>(x, o, s, n, 0.1f);
  show(o, s * n);

  cudaDeviceSynchronize();
  return 0;
}
