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

__global__ void gauss_rows(const float* in, float* out, int w, int h, int radius, float sigma) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float sum = 0, norm = 0;
  for (int d = -radius; d <= radius; d++) {
    int xx = x + d;
    if (xx < 0) xx = 0;
    if (xx > w - 1) xx = w - 1;
    float g = expf(-(d * d) / (2.0f * sigma * sigma));
    sum += g * in[y * w + xx];
    norm += g;
  }
  out[y * w + x] = sum / norm;
}

int main(int argc, char** argv) {

  int w = A(1, 2048), h = A(2, 2048), r = A(3, 8);
  float *a = floats(w * h), *b = zeros(w * h);
  dim3 block(16, 16), grid((w + 15) / 16, (h + 15) / 16);
  gauss_rows<<<grid, block>>>(a, b, w, h, r, 3.0f);
  show(b, w * h);

  cudaDeviceSynchronize();
  return 0;
}
