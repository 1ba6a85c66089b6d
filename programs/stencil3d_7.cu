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

#define IDX(x, y, z) ((z) * nx * ny + (y) * nx + (x))
__global__ void diffuse3d(const float* __restrict__ u, float* __restrict__ un, int nx, int ny, int nz, float c) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x > 0 && x < nx - 1 && y > 0 && y < ny - 1 && z > 0 && z < nz - 1) {
    un[IDX(x, y, z)] = u[IDX(x, y, z)] + c * (u[IDX(x - 1, y, z)] + u[IDX(x + 1, y, z)] + u[IDX(x, y - 1, z)] +
                       u[IDX(x, y + 1, z)] + u[IDX(x, y, z - 1)] + u[IDX(x, y, z + 1)] - 6.0f * u[IDX(x, y, z)]);
  }
}

int main(int argc, char** argv) {

  int nx = A(1, 256), ny = A(2, 256), nz = A(3, 256);
  float *u = floats(nx * ny * nz), *v = zeros(nx * ny * nz);
  dim3 block(8, 8, 8);
  dim3 grid((nx + 7) / 8, (ny + 7) / 8, (nz + 7) / 8);
  diffuse3d<<<grid, block>>>(u, v, nx, ny, nz, 0.1f);
  show(v, nx * ny * nz);

  cudaDeviceSynchronize();
  return 0;
}
