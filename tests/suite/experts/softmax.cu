// SPDX-License-Identifier: Apache-2.0
// Softmax of every row, one thread a row.
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
inline void cuda_check(cudaError_t error, const char* file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d: %s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
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
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
  return v;
}

__device__ __forceinline__ float block_max(float v) {
  __shared__ float partial[32];
  v = warp_max(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : -INFINITY;
  v = warp_max(v);
  __syncthreads();
  return v;
}

constexpr int kHeld = 16;

// A block a row, which is read once: each of its threads keeps up to kHeld elements in registers.
__global__ void softmax_forward_kernel(float* __restrict__ out, const float* __restrict__ inp, int N, int C) {
    const float* row = inp + (size_t)blockIdx.x * C;
    float* to = out + (size_t)blockIdx.x * C;
    float held[kHeld], maxval = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
        int j = threadIdx.x + k * blockDim.x;
        held[k] = j < C ? __ldcs(&row[j]) : -INFINITY;
        maxval = fmaxf(maxval, held[k]);
    }
    for (int j = threadIdx.x + kHeld * blockDim.x; j < C; j += blockDim.x) maxval = fmaxf(maxval, row[j]);
    maxval = block_max(maxval);
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
        held[k] = __expf(held[k] - maxval);
        sum += held[k];
    }
    for (int j = threadIdx.x + kHeld * blockDim.x; j < C; j += blockDim.x) sum += __expf(row[j] - maxval);
    float scale = 1.0f / block_sum(sum);
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
        int j = threadIdx.x + k * blockDim.x;
        if (j < C) __stcs(&to[j], held[k] * scale);
    }
    for (int j = threadIdx.x + kHeld * blockDim.x; j < C; j += blockDim.x) to[j] = __expf(row[j] - maxval) * scale;
}

void softmax_forward(float* out, const float* inp, int N, int C, const int block_size) {
    const int grid_size = N;
    softmax_forward_kernel<<<grid_size, block_size>>>(out, inp, N, C);
    cudaCheck(cudaGetLastError());
}

int main(int argc, char** argv) {
    int N = argc > 1 ? atoi(argv[1]) : 8192;
    int C = argc > 2 ? atoi(argv[2]) : 4096;
    float* inp = (float*)malloc((size_t)N * C * sizeof(float));
    float* out = (float*)malloc((size_t)N * C * sizeof(float));
    srand(0);
    for (int i = 0; i < N * C; i++) inp[i] = 4.0f * rand() / RAND_MAX;
    float *d_out, *d_inp;
    cudaCheck(cudaMalloc(&d_out, (size_t)N * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_inp, (size_t)N * C * sizeof(float)));
    cudaCheck(cudaMemcpy(d_inp, inp, (size_t)N * C * sizeof(float), cudaMemcpyHostToDevice));
    for (int r = 0; r < 3; r++) softmax_forward(d_out, d_inp, N, C, 256);
    cudaCheck(cudaMemcpy(out, d_out, (size_t)N * C * sizeof(float), cudaMemcpyDeviceToHost));

    for (int i = 0; i < N; i += 61) {
        double maxval = -1e30, sum = 0;
        for (int j = 0; j < C; j++) maxval = fmax(maxval, inp[(size_t)i * C + j]);
        for (int j = 0; j < C; j++) sum += exp(inp[(size_t)i * C + j] - maxval);
        for (int j = 0; j < C; j++) {
            double want = exp(inp[(size_t)i * C + j] - maxval) / sum;
            if (fabs(want - out[(size_t)i * C + j]) > 1e-5 * want + 1e-8) {
                printf("Mismatch at %d, %d\n", i, j);
                return 1;
            }
        }
    }
    printf("Results match\n");
    free(inp);
    free(out);
    cudaCheck(cudaFree(d_out));
    cudaCheck(cudaFree(d_inp));
    return 0;
}
