// SPDX-License-Identifier: Apache-2.0
// Many products of small square matrices, one block a matrix.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int DIM = 32;

// Both matrices in shared memory; each of 256 threads makes four elements of a column.
__global__ void __launch_bounds__(256) batched_gemm(const double* __restrict__ a, const double* __restrict__ b,
                                                    double* __restrict__ c, int batch) {
  __shared__ double sa[DIM][DIM], sb[DIM][DIM + 1];
  int j = threadIdx.x, i0 = threadIdx.y;
  size_t m = (size_t)blockIdx.x * DIM * DIM;
#pragma unroll
  for (int i = i0; i < DIM; i += 8) {
    sa[i][j] = __ldcs(&a[m + i * DIM + j]);
    sb[i][j] = __ldcs(&b[m + i * DIM + j]);
  }
  __syncthreads();
  double s[4] = {};
#pragma unroll
  for (int k = 0; k < DIM; k++)
#pragma unroll
    for (int q = 0; q < 4; q++) s[q] += sa[i0 + 8 * q][k] * sb[j][k];
#pragma unroll
  for (int q = 0; q < 4; q++) __stcs(&c[m + (i0 + 8 * q) * DIM + j], s[q]);
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
  for (int t = 0; t < 5; t++) batched_gemm<<<batch, dim3(DIM, 8)>>>(da, db, dc, batch);
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
