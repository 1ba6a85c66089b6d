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

#define R 4
__constant__ float coef[R + 1];
__global__ void wave_z(const float* p, const float* prev, float* next, const float* vel, int nx, int ny, int nz) {
  int ix = blockIdx.x * blockDim.x + threadIdx.x;
  int iy = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < R || iy < R || ix >= nx - R || iy >= ny - R) return;
  for (int iz = R; iz < nz - R; iz++) {
    int i = (iz * ny + iy) * nx + ix;
    float lap = 3.0f * coef[0] * p[i];
    for (int r = 1; r <= R; r++)
      lap += coef[r] * (p[i + r] + p[i - r] + p[i + r * nx] + p[i - r * nx] + p[i + r * nx * ny] + p[i - r * nx * ny]);
    next[i] = 2.0f * p[i] - prev[i] + vel[i] * lap;
  }
}

int main(int argc, char** argv) {

  int nx = A(1, 384), ny = A(2, 384), nz = A(3, 200);
  int n = nx * ny * nz;
  float h[R + 1] = {-2.8f, 1.6f, -0.2f, 0.025f, -0.0018f};
  cudaMemcpyToSymbol(coef, h, sizeof(h));
  float *p = floats(n), *q = floats(n), *o = zeros(n), *v = floats(n);
  dim3 block(32, 8);
  dim3 grid((nx + 31) / 32, (ny + 7) / 8);
  wave_z<<<grid, block>>>(p, q, o, v, nx, ny, nz);
  show(o, n);

  cudaDeviceSynchronize();
  return 0;
}
