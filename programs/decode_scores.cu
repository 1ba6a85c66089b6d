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

// one query a head; a thread per key
__global__ void decode_attention(const float* q, const float* kcache, float* scores, int heads, int seq, int dim, float scale) {
  int h = blockIdx.y;
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= seq) return;
  float s = 0;
  for (int d = 0; d < dim; d++) s += q[h * dim + d] * kcache[(t * heads + h) * dim + d];
  scores[h * seq + t] = s * scale;
}

int main(int argc, char** argv) {

  int heads = A(1, 32), seq = A(2, 8192), dim = A(3, 128);
  float *q = floats(heads * dim), *kc = floats(seq * heads * dim), *s = zeros(heads * seq);
  decode_attention<<<dim3((seq + 255) / 256, heads), 256>>>(q, kc, s, heads, seq, dim, 0.088f);
  show(s, heads * seq);

  cudaDeviceSynchronize();
  return 0;
}
