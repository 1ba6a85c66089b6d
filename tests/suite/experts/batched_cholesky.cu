// SPDX-License-Identifier: Apache-2.0
// Cholesky factors of many small symmetric positive definite matrices, e.g. the covariances of a bank of filters.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr int N = 8;

constexpr int kPerBlock = 64;
constexpr int kStride = N * N + 1;  // odd, so that threads that walk their own matrices meet different banks

// One thread factors one matrix in registers; the block brings its matrices in and out through shared memory.
__global__ void __launch_bounds__(kPerBlock) cholesky_batched(const double* __restrict__ A, double* __restrict__ L,
                                                              int batch) {
  __shared__ double tile[kPerBlock * kStride];
  int first = blockIdx.x * kPerBlock;
  int pairs = min(kPerBlock, batch - first) * (N * N / 2);
  const double2* from = reinterpret_cast<const double2*>(A + (size_t)first * N * N);
  double2* to = reinterpret_cast<double2*>(L + (size_t)first * N * N);

#pragma unroll 16
  for (int i = 0; i < N * N / 2; i++) {
    int p = threadIdx.x + i * kPerBlock;
    if (p < pairs) {
      double2 v = __ldcs(&from[p]);
      double* s = &tile[p / (N * N / 2) * kStride + p % (N * N / 2) * 2];
      s[0] = v.x;
      s[1] = v.y;
    }
  }
  __syncthreads();

  if (first + (int)threadIdx.x < batch) {
    double* a = &tile[threadIdx.x * kStride];
    double l[N][N];
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
      for (int j = 0; j <= i; j++) l[i][j] = a[i * N + j];
#pragma unroll
    for (int j = 0; j < N; j++) {
      double d = l[j][j];
#pragma unroll
      for (int k = 0; k < j; k++) d -= l[j][k] * l[j][k];
      l[j][j] = sqrt(d);
      double r = 1.0 / l[j][j];
#pragma unroll
      for (int i = j + 1; i < N; i++) {
        double s = l[i][j];
#pragma unroll
        for (int k = 0; k < j; k++) s -= l[i][k] * l[j][k];
        l[i][j] = s * r;
      }
    }
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
      for (int j = 0; j < N; j++) a[i * N + j] = j <= i ? l[i][j] : 0.0;
  }
  __syncthreads();

#pragma unroll 8
  for (int i = 0; i < N * N / 2; i++) {
    int p = threadIdx.x + i * kPerBlock;
    if (p < pairs) {
      const double* s = &tile[p / (N * N / 2) * kStride + p % (N * N / 2) * 2];
      __stcs(&to[p], make_double2(s[0], s[1]));
    }
  }
}

int main(int argc, char** argv) {
  int batch = argc > 1 ? std::stoi(argv[1]) : 400000;
  size_t count = (size_t)batch * N * N;
  std::vector<double> A(count), L(count);
  for (int b = 0; b < batch; b++) {
    double* a = &A[(size_t)b * N * N];
    for (int i = 0; i < N; i++)
      for (int j = 0; j <= i; j++) {
        double v = ((b * 31u + i * 7u + j * 13u) % 101u) / 101.0 - 0.5;
        a[i * N + j] = a[j * N + i] = i == j ? N + v : v;
      }
  }

  double *dA, *dL;
  cudaMalloc(&dA, count * sizeof(double));
  cudaMalloc(&dL, count * sizeof(double));
  cudaMemcpy(dA, A.data(), count * sizeof(double), cudaMemcpyHostToDevice);
  for (int run = 0; run < 20; run++) {
    cholesky_batched<<<(batch + kPerBlock - 1) / kPerBlock, kPerBlock>>>(dA, dL, batch);
  }
  cudaError_t err = cudaDeviceSynchronize();
  if (err != cudaSuccess) {
    fprintf(stderr, "CUDA error: %s\n", cudaGetErrorString(err));
    return 1;
  }
  cudaMemcpy(L.data(), dL, count * sizeof(double), cudaMemcpyDeviceToHost);

  // L * L^T against A, and nothing above the diagonal
  double worst = 0, log_det = 0;
  for (int b = 0; b < batch; b += 17) {
    const double *a = &A[(size_t)b * N * N], *l = &L[(size_t)b * N * N];
    for (int i = 0; i < N; i++) {
      log_det += 2 * std::log(l[i * N + i]);
      for (int j = 0; j < N; j++) {
        double s = 0;
        for (int k = 0; k < N; k++) s += l[i * N + k] * l[j * N + k];
        worst = std::fmax(worst, std::fabs(s - a[i * N + j]));
        if (j > i && l[i * N + j] != 0.0) worst = 1;
      }
    }
  }
  printf("sum of log determinants %.6f\n", log_det);
  printf("%s\n", worst < 1e-10 ? "PASSED" : "FAILED");
  cudaFree(dA);
  cudaFree(dL);
  return worst < 1e-10 ? 0 : 1;
}
