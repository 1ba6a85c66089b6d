// SPDX-License-Identifier: Apache-2.0
// Dot product with an atomic a thread.
#include <cstdio>
#include <cstdlib>
#include <cmath>

__global__ void init(float *v, float step, int n) {
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  if (tid < n) v[tid] = cosf(step * (tid % 4096));
}

__global__ void dot_product(const float *a, const float *b, float *result, int n) {
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  if (tid < n)
    atomicAdd(result, a[tid] * b[tid]);
}

int main(int argc, char **argv) {
  int n = (argc > 1) ? atoi(argv[1]) : 1 << 24;
  int block = (argc > 2) ? atoi(argv[2]) : 256;
  int grid = (n + block - 1) / block;
  float *a, *b, *result;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  cudaMalloc(&result, sizeof(float));
  init<<<grid, block>>>(a, 0.001f, n);
  init<<<grid, block>>>(b, 0.001f, n);
  float host = 0;
  for (int i = 0; i < 5; i++) {
    cudaMemset(result, 0, sizeof(float));
    dot_product<<<grid, block>>>(a, b, result, n);
    cudaMemcpy(&host, result, sizeof(float), cudaMemcpyDeviceToHost);
  }
  double want = 0;
  for (int i = 0; i < n; i++) {
    float v = cosf(0.001f * (i % 4096));
    want += (double)v * v;
  }
  bool ok = fabs(host - want) < 2e-2 * want;
  printf("%s\n", ok ? "PASS" : "FAIL");
  cudaFree(a); cudaFree(b); cudaFree(result);
  return ok ? 0 : 1;
}
