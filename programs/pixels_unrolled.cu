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

__global__ void gray4(const unsigned char* rgb, unsigned char* gray, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 3 >= n) return;
  gray[i] = 0.299f * rgb[3 * i] + 0.587f * rgb[3 * i + 1] + 0.114f * rgb[3 * i + 2];
  gray[i + 1] = 0.299f * rgb[3 * i + 3] + 0.587f * rgb[3 * i + 4] + 0.114f * rgb[3 * i + 5];
  gray[i + 2] = 0.299f * rgb[3 * i + 6] + 0.587f * rgb[3 * i + 7] + 0.114f * rgb[3 * i + 8];
  gray[i + 3] = 0.299f * rgb[3 * i + 9] + 0.587f * rgb[3 * i + 10] + 0.114f * rgb[3 * i + 11];
}

int main(int argc, char** argv) {

  int n = A(1, 8000000);
  std::vector<unsigned char> v(3 * n), z(n, 0); for (auto& x : v) { rnd(); x = seed >> 24; }
  unsigned char *a = upload(v), *b = upload(z);
  gray4<<<(n / 4 + 255) / 256, 256>>>(a, b, n);
  show(b, n);

  cudaDeviceSynchronize();
  return 0;
}
