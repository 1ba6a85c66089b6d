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

#define MAXL 128
__global__ void dtw(const float* a, const float* b, float* out, int pairs, int len) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= pairs) return;
  float prev[MAXL + 1], cur[MAXL + 1];
  for (int j = 0; j <= len; j++) prev[j] = 1e30f;
  prev[0] = 0;
  for (int i = 1; i <= len; i++) {
    cur[0] = 1e30f;
    for (int j = 1; j <= len; j++) {
      float c = fabsf(a[p * len + i - 1] - b[p * len + j - 1]);
      cur[j] = c + fminf(prev[j], fminf(cur[j - 1], prev[j - 1]));
    }
    for (int j = 0; j <= len; j++) prev[j] = cur[j];
  }
  out[p] = prev[len];
}

int main(int argc, char** argv) {

  int pairs = A(1, 20000), len = A(2, 100);
  float *a = floats(pairs * len), *b = floats(pairs * len), *o = zeros(pairs);
  dtw<<<(pairs + 63) / 64, 64>>>(a, b, o, pairs, len);
  show(o, pairs);

  cudaDeviceSynchronize();
  return 0;
}
