// SPDX-License-Identifier: Apache-2.0
// Dot product with an atomic a thread.
#include <cstdio>
#include <cstdlib>
#include <cmath>

__global__ void init(float *v, float step, int n) {
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  if (tid < n) v[tid] = cosf(step * (tid % 4096));
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

// The sum over a block of up to 1024 threads, in every thread.
__device__ __forceinline__ float block_sum(float v) {
  __shared__ float partial[32];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f;
  v = warp_sum(v);
  __syncthreads();
  return v;
}

__global__ void dot_product(const float *__restrict__ a, const float *__restrict__ b, float *result, int n) {
  const float4 *a4 = (const float4 *)a, *b4 = (const float4 *)b;
  int tid = threadIdx.x + blockIdx.x * blockDim.x, all = gridDim.x * blockDim.x;
  float sum = 0.0f;
#pragma unroll 4
  for (int i = tid; i < n / 4; i += all) {
    float4 p = a4[i], q = b4[i];
    sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  }
  if (tid < n % 4) sum += a[n / 4 * 4 + tid] * b[n / 4 * 4 + tid];
  sum = block_sum(sum);
  if (threadIdx.x == 0) atomicAdd(result, sum);
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
    dot_product<<<min(grid, 132 * 8), 256>>>(a, b, result, n);
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
