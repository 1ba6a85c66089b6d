// SPDX-License-Identifier: Apache-2.0
// Blocks add what they have summed up under a lock: whoever finds it taken when it starts waits for ever.
#include <cuda_runtime.h>

#include <cstdio>

constexpr int kThreads = 64, kCount = 4096;

__global__ void dot(int* lock, const float* a, const float* b, volatile float* sum) {
    __shared__ float part[kThreads];
    const int i = blockIdx.x * kThreads + threadIdx.x;
    part[threadIdx.x] = a[i] * b[i];
    __syncthreads();
    for (int half = kThreads / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x) return;
    while (atomicCAS(lock, 0, 1)) {}
    *sum += part[0];
    __threadfence();
    atomicExch(lock, 0);
}

int main() {
    static float host[kCount];
    for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i % 7 + 1);
    int* lock;
    float *a, *b, *sum;
    cudaMalloc(&lock, sizeof(int));
    cudaMalloc(&a, sizeof host);
    cudaMalloc(&b, sizeof host);
    cudaMalloc(&sum, sizeof(float));
    cudaMemset(lock, 0, sizeof(int));
    cudaMemset(sum, 0, sizeof(float));
    cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemcpy(b, host, sizeof host, cudaMemcpyHostToDevice);
    dot<<<kCount / kThreads, kThreads>>>(lock, a, b, sum);
    cudaMemcpy(host, sum, sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("%g\n", host[0]);
}
