// SPDX-License-Identifier: Apache-2.0
// Symmetric rank-k update, C = alpha * A * A^T + beta * C; only the lower triangle of C is touched.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCK 16

__global__ void ssyrk_lower(int n, int k, float alpha, const float* A, float beta, float* C) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n || col > row) return;
  float sum = 0.0f;
  for (int p = 0; p < k; p++) sum += A[row * k + p] * A[col * k + p];
  C[row * n + col] = alpha * sum + beta * C[row * n + col];
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 4096;
  int k = argc > 2 ? atoi(argv[2]) : 256;
  const float alpha = 1.0f / k, beta = 0.5f;
  const int updates = 10;

  std::vector<float> A((size_t)n * k), C((size_t)n * n);
  for (size_t i = 0; i < A.size(); i++) A[i] = (float)(i * 2654435761u % 1000) / 500.0f - 1.0f;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) C[(size_t)i * n + j] = j <= i ? (i + j) % 7 : -1.0f;

  float *dA, *dC;
  cudaMalloc(&dA, A.size() * sizeof(float));
  cudaMalloc(&dC, C.size() * sizeof(float));
  cudaMemcpy(dA, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dC, C.data(), C.size() * sizeof(float), cudaMemcpyHostToDevice);

  dim3 block(BLOCK, BLOCK);
  dim3 grid((n + BLOCK - 1) / BLOCK, (n + BLOCK - 1) / BLOCK);
  for (int t = 0; t < updates; t++) ssyrk_lower<<<grid, block>>>(n, k, alpha, dA, beta, dC);

  std::vector<float> result(C.size());
  cudaMemcpy(result.data(), dC, C.size() * sizeof(float), cudaMemcpyDeviceToHost);

  int errors = 0;
  double trace = 0;
  for (int i = 0; i < n; i++) trace += result[(size_t)i * n + i];
  for (int i = 0; i < n; i += 1 + n / 100)
    for (int j = 0; j < n; j += 1 + n / 90) {
      double want = C[(size_t)i * n + j];
      if (j <= i) {
        double s = 0;
        for (int p = 0; p < k; p++) s += (double)A[(size_t)i * k + p] * A[(size_t)j * k + p];
        for (int t = 0; t < updates; t++) want = alpha * s + beta * want;
      }
      if (std::fabs(want - result[(size_t)i * n + j]) > 1e-4) errors++;
    }
  printf("trace %.2f, errors %d\n", trace, errors);
  cudaFree(dA);
  cudaFree(dC);
  return errors != 0;
}
