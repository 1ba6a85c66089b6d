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

__global__ void maxpool2d(const float* x, float* y, int* arg, int nc, int h, int w, int oh, int ow, int k, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= nc * oh * ow) return;
  int px = i % ow, py = i / ow % oh, c = i / (ow * oh);
  float best = -1e30f; int at = -1;
  for (int a = 0; a < k; a++)
    for (int b = 0; b < k; b++) {
      int yy = py * stride + a, xx = px * stride + b;
      if (yy < h && xx < w) {
        float v = x[(c * h + yy) * w + xx];
        if (v > best) { best = v; at = yy * w + xx; }
      }
    }
  y[i] = best; arg[i] = at;
}

int main(int argc, char** argv) {

  int nc = A(1, 512), h = A(2, 112), k = 3, stride = 2;
  int w = h, oh = (h - k) / stride + 1, ow = oh;
  float *x = floats(nc * h * w), *y = zeros(nc * oh * ow); int* a = izeros(nc * oh * ow);
  maxpool2d<<<(nc * oh * ow + 255) / 256, 256>>>(x, y, a, nc, h, w, oh, ow, k, stride);
  show(y, nc * oh * ow); show(a, nc * oh * ow);

  cudaDeviceSynchronize();
  return 0;
}
