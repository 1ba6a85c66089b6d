// SPDX-License-Identifier: Apache-2.0
// Cross entropy of every row's logits against its label; losses summed into one number.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

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

// A block a row, maximum and sum in one pass.
__global__ void cross_entropy_loss(const float* __restrict__ logits, const int* __restrict__ labels, float* losses,
                                   int batch, int classes) {
    const float* row = logits + (size_t)blockIdx.x * classes;
    float m = -INFINITY, s = 0;
#pragma unroll 4
    for (int c = threadIdx.x; c < classes; c += blockDim.x) {
        float v = __ldcs(&row[c]), larger = fmaxf(m, v);
        s = s * __expf(m - larger) + __expf(v - larger);
        m = larger;
    }
    float all = block_max(m);
    s = block_sum(m == -INFINITY ? 0.0f : s * __expf(m - all));
    if (threadIdx.x == 0) losses[blockIdx.x] = all + logf(s) - row[labels[blockIdx.x]];
}

__global__ void mean_loss(const float* losses, float* mean, int batch) {
    float s = 0;
    for (int i = 0; i < batch; i++) s += losses[i];
    *mean = s / batch;
}

int main(int argc, char** argv) {
    int batch = argc > 1 ? atoi(argv[1]) : 4096, classes = argc > 2 ? atoi(argv[2]) : 10000;
    std::vector<float> logits((size_t)batch * classes);
    std::vector<int> labels(batch);
    for (size_t i = 0; i < logits.size(); i++) logits[i] = sinf(i * 0.37f) * 3;
    for (int b = 0; b < batch; b++) labels[b] = (b * 131) % classes;
    float *d_logits, *d_losses, *d_mean, mean;
    int* d_labels;
    cudaMalloc(&d_logits, logits.size() * sizeof(float));
    cudaMalloc(&d_losses, batch * sizeof(float));
    cudaMalloc(&d_mean, sizeof(float));
    cudaMalloc(&d_labels, batch * sizeof(int));
    cudaMemcpy(d_logits, logits.data(), logits.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_labels, labels.data(), batch * sizeof(int), cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) {
        cross_entropy_loss<<<batch, 256>>>(d_logits, d_labels, d_losses, batch, classes);
        mean_loss<<<1, 1>>>(d_losses, d_mean, batch);
    }
    cudaMemcpy(&mean, d_mean, sizeof(float), cudaMemcpyDeviceToHost);
    double want = 0;
    for (int b = 0; b < batch; b++) {
        double m = -1e30, s = 0;
        for (int c = 0; c < classes; c++) m = fmax(m, logits[(size_t)b * classes + c]);
        for (int c = 0; c < classes; c++) s += exp(logits[(size_t)b * classes + c] - m);
        want += (m + log(s) - logits[(size_t)b * classes + labels[b]]) / batch;
    }
    printf("loss %.3f expected %.3f\n", mean, want);
    return fabs(mean - want) < 1e-3 * fabs(want) ? 0 : 1;
}
