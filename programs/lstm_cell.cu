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

__device__ float sigm(float x) { return 1.0f / (1.0f + expf(-x)); }
__global__ void lstm_gates(const float* x, const float* h, const float* wx, const float* wh, const float* b, float* c,
                           float* hout, int batch, int in, int hid) {
  int u = blockIdx.x * blockDim.x + threadIdx.x;
  int n = blockIdx.y;
  if (u >= hid || n >= batch) return;
  float g[4];
  for (int k = 0; k < 4; k++) {
    float a = b[k * hid + u];
    for (int i = 0; i < in; i++) a += wx[(k * hid + u) * in + i] * x[n * in + i];
    for (int i = 0; i < hid; i++) a += wh[(k * hid + u) * hid + i] * h[n * hid + i];
    g[k] = a;
  }
  float cn = sigm(g[1]) * c[n * hid + u] + sigm(g[0]) * tanhf(g[2]);
  c[n * hid + u] = cn;
  hout[n * hid + u] = sigm(g[3]) * tanhf(cn);
}

int main(int argc, char** argv) {

  int batch = A(1, 64), in = A(2, 256), hid = A(3, 512);
  float *x = floats(batch * in), *h = floats(batch * hid), *wx = floats(4 * hid * in), *wh = floats(4 * hid * hid);
  float *b = floats(4 * hid), *c = floats(batch * hid), *o = zeros(batch * hid);
  lstm_gates<<<dim3((hid + 127) / 128, batch), 128>>>(x, h, wx, wh, b, c, o, batch, in, hid);
  show(c, batch * hid); show(o, batch * hid);

  cudaDeviceSynchronize();
  return 0;
}
