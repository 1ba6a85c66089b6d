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

__global__ void accelerations(const double* x, const double* y, const double* z, const double* m, double* ax, double* ay,
                              double* az, int n, double eps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sx = 0, sy = 0, sz = 0;
  for (int j = 0; j < n; j++) {
    double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
    double r = sqrt(dx * dx + dy * dy + dz * dz + eps);
    double f = m[j] / (r * r * r);
    sx += f * dx; sy += f * dy; sz += f * dz;
  }
  ax[i] = sx; ay[i] = sy; az[i] = sz;
}

int main(int argc, char** argv) {

  int n = A(1, 20000);
  auto d = [&](double f) { std::vector<double> v(n); for (auto& e : v) e = f * rnd(); return upload(v); };
  double *x = d(1), *y = d(1), *z = d(1), *m = d(1), *ax = d(0), *ay = d(0), *az = d(0);
  accelerations<<<(n + 255) / 256, 256>>>(x, y, z, m, ax, ay, az, n, 0.01);
  show(ax, n); show(ay, n); show(az, n);

  cudaDeviceSynchronize();
  return 0;
}
