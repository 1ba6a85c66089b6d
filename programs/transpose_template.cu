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

template <int TILE, int ROWS>
__global__ void transposeTile(float* odata, const float* idata, int width, int height) {
  __shared__ float tile[TILE][TILE];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main(int argc, char** argv) {

  int w = A(1, 4096), h = A(2, 4096);
  float *a = floats(w * h), *b = zeros(w * h);
  dim3 grid((w + 31) / 32, (h + 31) / 32), block(32, 8);
  transposeTile<32, 8><<<grid, block>>>(b, a, w, h);
  show(b, w * h);

  cudaDeviceSynchronize();
  return 0;
}
