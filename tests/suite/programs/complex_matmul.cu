// SPDX-License-Identifier: Apache-2.0
// Product of two complex matrices in single precision, C = A * B, row-major.
#include <cuda_runtime.h>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ float2 cmul(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__global__ void cgemm(const float2* A, const float2* B, float2* C, int M, int N, int K) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  float2 sum = make_float2(0.0f, 0.0f);
  for (int k = 0; k < K; k++) {
    float2 p = cmul(A[row * K + k], B[k * N + col]);
    sum.x += p.x;
    sum.y += p.y;
  }
  C[row * N + col] = sum;
}

static void check(cudaError_t e) {
  if (e != cudaSuccess) {
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
    exit(2);
  }
}

int main(int argc, char** argv) {
  int M = argc > 1 ? atoi(argv[1]) : 2048;
  int N = argc > 2 ? atoi(argv[2]) : 2048;
  int K = argc > 3 ? atoi(argv[3]) : 512;
  const int tile = 16;

  std::vector<float2> A((size_t)M * K), B((size_t)K * N), C((size_t)M * N);
  unsigned s = 99;
  for (auto* m : {&A, &B})
    for (float2& v : *m) {
      s = s * 1664525u + 1013904223u;
      v.x = (float)(s >> 20) / 2048.0f - 1.0f;
      v.y = (float)(s >> 8 & 4095) / 2048.0f - 1.0f;
    }

  float2 *dA, *dB, *dC;
  check(cudaMalloc(&dA, A.size() * sizeof(float2)));
  check(cudaMalloc(&dB, B.size() * sizeof(float2)));
  check(cudaMalloc(&dC, C.size() * sizeof(float2)));
  check(cudaMemcpy(dA, A.data(), A.size() * sizeof(float2), cudaMemcpyHostToDevice));
  check(cudaMemcpy(dB, B.data(), B.size() * sizeof(float2), cudaMemcpyHostToDevice));

  dim3 threads(tile, tile);
  dim3 blocks((N + tile - 1) / tile, (M + tile - 1) / tile);
  for (int r = 0; r < 3; r++) cgemm<<<blocks, threads>>>(dA, dB, dC, M, N, K);
  check(cudaGetLastError());
  check(cudaMemcpy(C.data(), dC, C.size() * sizeof(float2), cudaMemcpyDeviceToHost));

  double worst = 0;
  for (int i = 0; i < M; i += 1 + M / 100)
    for (int j = i % 5; j < N; j += 1 + N / 100) {
      std::complex<double> want = 0;
      for (int k = 0; k < K; k++) {
        float2 a = A[(size_t)i * K + k], b = B[(size_t)k * N + j];
        want += std::complex<double>(a.x, a.y) * std::complex<double>(b.x, b.y);
      }
      float2 got = C[(size_t)i * N + j];
      worst = std::fmax(worst, std::abs(want - std::complex<double>(got.x, got.y)));
    }
  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  bool ok = worst < 1e-3;
  printf("%s\n", ok ? "ok" : "wrong");
  return ok ? 0 : 1;
}
