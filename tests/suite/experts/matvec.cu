// SPDX-License-Identifier: Apache-2.0
// y = A x, one thread a row.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_SIZE 256

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

// A warp a row, sixteen bytes a lane where rows are aligned.
__global__ void mat_vec_kernel(float* __restrict__ y, const float* __restrict__ A, const float* __restrict__ x,
                               int rows, int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* a = A + (size_t)row * cols;
  float acc = 0.f;
  if (cols % 4 == 0) {
    const float4 *a4 = (const float4*)a, *x4 = (const float4*)x;
#pragma unroll 4
    for (int j = lane; j < cols / 4; j += 32) {
      float4 p = __ldcs(&a4[j]), q = x4[j];
      acc += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
  } else {
#pragma unroll 4
    for (int j = lane; j < cols; j += 32) acc += a[j] * x[j];
  }
  acc = warp_sum(acc);
  if (lane == 0) y[row] = acc;
}

void mat_vec(float* y, const float* A, const float* x, int rows, int cols) {
  int blocks = (rows + BLOCK_SIZE / 32 - 1) / (BLOCK_SIZE / 32);
  mat_vec_kernel<<<blocks, BLOCK_SIZE>>>(y, A, x, rows, cols);
}

int main(int argc, char* argv[]) {
  int rows = 16384, cols = 8192;
  if (argc == 3) {
    rows = atoi(argv[1]);
    cols = atoi(argv[2]);
  }
  size_t n = (size_t)rows * cols;
  float* A = (float*)malloc(n * sizeof(float));
  float* x = (float*)malloc(cols * sizeof(float));
  float* y = (float*)malloc(rows * sizeof(float));
  unsigned state = 7;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    A[i] = (state >> 9) * (1.0f / 8388608.0f) - 0.5f;
  }
  for (int j = 0; j < cols; j++) x[j] = sinf(0.01f * j);

  float *dA, *dx, *dy;
  cudaMalloc((void**)&dA, n * sizeof(float));
  cudaMalloc((void**)&dx, cols * sizeof(float));
  cudaMalloc((void**)&dy, rows * sizeof(float));
  cudaMemcpy(dA, A, n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dx, x, cols * sizeof(float), cudaMemcpyHostToDevice);
  for (int i = 0; i < 5; i++) mat_vec(dy, dA, dx, rows, cols);
  cudaDeviceSynchronize();
  cudaMemcpy(y, dy, rows * sizeof(float), cudaMemcpyDeviceToHost);

  int bad = 0;
  double norm = 0;
  for (int i = 0; i < rows; i++) {
    norm += (double)y[i] * y[i];
    if (i % 97) continue;
    double want = 0;
    for (int j = 0; j < cols; j++) want += (double)A[(size_t)i * cols + j] * x[j];
    if (fabs(want - y[i]) > 1e-3) bad++;
  }
  printf("%s norm %.5f\n", bad ? "WRONG" : "ok", sqrt(norm));
  cudaFree(dA), cudaFree(dx), cudaFree(dy);
  free(A), free(x), free(y);
  return bad != 0;
}
