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

__global__ void lj_force(const float4* pos, float4* force, const int* nlist, const int* nneigh, int maxn, int n, float rc2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = pos[i];
  float fx = 0, fy = 0, fz = 0, pe = 0;
  int cnt = nneigh[i];
  for (int k = 0; k < cnt; k++) {
    int j = nlist[i * maxn + k];
    float4 q = pos[j];
    float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
    float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
    if (r2 < rc2) {
      float inv = 1.0f / r2;
      float i6 = inv * inv * inv;
      float f = 24.0f * inv * i6 * (2.0f * i6 - 1.0f);
      fx += f * dx; fy += f * dy; fz += f * dz;
      pe += 4.0f * i6 * (i6 - 1.0f);
    }
  }
  force[i] = make_float4(fx, fy, fz, pe);
}

int main(int argc, char** argv) {

  int n = A(1, 200000), maxn = A(2, 96);
  float *p = floats(4 * n), *f = zeros(4 * n); int *l = ints(n * maxn, n), *c = ints(n, maxn);
  lj_force<<<(n + 127) / 128, 128>>>((float4*)p, (float4*)f, l, c, maxn, n, 0.9f);
  show(f, 4 * n);

  cudaDeviceSynchronize();
  return 0;
}
