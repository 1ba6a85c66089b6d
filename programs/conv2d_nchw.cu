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

__global__ void conv2d_forward(const float* in, const float* w, const float* bias, float* out, int N, int C, int H, int W,
                               int K, int R, int pad, int stride, int OH, int OW) {
  int ow = blockIdx.x * blockDim.x + threadIdx.x;
  int oh = blockIdx.y * blockDim.y + threadIdx.y;
  int nk = blockIdx.z;
  if (ow >= OW || oh >= OH) return;
  int n = nk / K, k = nk % K;
  float acc = bias[k];
  for (int c = 0; c < C; c++)
    for (int r = 0; r < R; r++)
      for (int s = 0; s < R; s++) {
        int ih = oh * stride - pad + r;
        int iw = ow * stride - pad + s;
        if (ih >= 0 && ih < H && iw >= 0 && iw < W)
          acc += in[((n * C + c) * H + ih) * W + iw] * w[((k * C + c) * R + r) * R + s];
      }
  out[((n * K + k) * OH + oh) * OW + ow] = acc;
}

int main(int argc, char** argv) {

  int N = A(1, 8), C = A(2, 32), H = A(3, 56), K = A(4, 64), R = 3, pad = 1, stride = 1;
  int W = H, OH = (H + 2 * pad - R) / stride + 1, OW = OH;
  float *x = floats(N * C * H * W), *w = floats(K * C * R * R), *b = floats(K), *o = zeros(N * K * OH * OW);
  dim3 block(16, 16), grid((OW + 15) / 16, (OH + 15) / 16, N * K);
  conv2d_forward<<<grid, block>>>(x, w, b, o, N, C, H, W, K, R, pad, stride, OH, OW);
  show(o, N * K * OH * OW);

  cudaDeviceSynchronize();
  return 0;
}
