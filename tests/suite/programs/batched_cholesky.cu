// SPDX-License-Identifier: Apache-2.0
// Cholesky factors of many small symmetric positive definite matrices, e.g. the covariances of a bank of filters.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr int N = 8;

// One thread factors one matrix: A = L * L^T, row-major.
__global__ void cholesky_batched(const double* A, double* L, int batch) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= batch) return;
  const double* a = A + (size_t)b * N * N;
  double* l = L + (size_t)b * N * N;

  for (int j = 0; j < N; j++) {
    double d = a[j * N + j];
    for (int k = 0; k < j; k++) d -= l[j * N + k] * l[j * N + k];
    l[j * N + j] = sqrt(d);
    for (int i = 0; i < j; i++) l[i * N + j] = 0.0;
    for (int i = j + 1; i < N; i++) {
      double s = a[i * N + j];
      for (int k = 0; k < j; k++) s -= l[i * N + k] * l[j * N + k];
      l[i * N + j] = s / l[j * N + j];
    }
  }
}

int main(int argc, char** argv) {
  int batch = argc > 1 ? std::stoi(argv[1]) : 400000;
  int threads = argc > 2 ? std::stoi(argv[2]) : 128;
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
    cholesky_batched<<<(batch + threads - 1) / threads, threads>>>(dA, dL, batch);
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
