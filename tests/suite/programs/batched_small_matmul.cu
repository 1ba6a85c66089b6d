// SPDX-License-Identifier: Apache-2.0
// Many products of small square matrices, one block a matrix.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int DIM = 32;

__global__ void batched_gemm(const double* a, const double* b, double* c, int batch) {
  int m = blockIdx.x;
  if (m >= batch) return;
  int i = threadIdx.y, j = threadIdx.x;
  a += (size_t)m * DIM * DIM;
  b += (size_t)m * DIM * DIM;
  c += (size_t)m * DIM * DIM;
  double s = 0;
  for (int k = 0; k < DIM; k++) s += a[i * DIM + k] * b[j * DIM + k];
  c[i * DIM + j] = s;
}

int main(int argc, char** argv) {
  int batch = argc > 1 ? atoi(argv[1]) : 20000;
  size_t n = (size_t)batch * DIM * DIM;
  std::vector<double> a(n), b(n), c(n);
  for (size_t i = 0; i < n; i++) {
    a[i] = (i * 31 % 101) * 0.01;
    b[i] = (i * 17 % 103) * 0.01;
  }
  double *da, *db, *dc;
  cudaMalloc(&da, n * 8);
  cudaMalloc(&db, n * 8);
  cudaMalloc(&dc, n * 8);
  cudaMemcpy(da, a.data(), n * 8, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), n * 8, cudaMemcpyHostToDevice);
  for (int t = 0; t < 5; t++) batched_gemm<<<batch, dim3(DIM, DIM)>>>(da, db, dc, batch);
  cudaMemcpy(c.data(), dc, n * 8, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int m = 0; m < batch; m += 97)
    for (int i = 0; i < DIM; i++)
      for (int j = 0; j < DIM; j++) {
        double s = 0;
        for (int k = 0; k < DIM; k++) s += a[(size_t)m * DIM * DIM + i * DIM + k] * b[(size_t)m * DIM * DIM + j * DIM + k];
        wrong += std::fabs(s - c[(size_t)m * DIM * DIM + i * DIM + j]) > 1e-9;
      }
  printf("wrong: %d\n", wrong);
  return wrong > 0;
}
