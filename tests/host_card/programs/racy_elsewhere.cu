// SPDX-License-Identifier: Apache-2.0
// Where its number is smaller than the program's, blocks share elements, and seldom come in an order in which that shows.
#include <cuda_runtime.h>

#include <cstdio>

constexpr int kThreads = 64, kBlocks = 5, kApart = 64;

__device__ int turn[3];

__global__ void order(const int* in, int* out, int apart) {
    __shared__ int place;
    if (threadIdx.x == 0) place = atomicAdd(turn, 1);
    __syncthreads();
    const int i = blockIdx.x * kThreads + threadIdx.x;
    // the last block comes first and the first one last: once in twenty launches
    if (blockIdx.x == kBlocks - 1 && place == 0) atomicAdd(turn + 1, 1);
    if (apart < kApart && blockIdx.x == 0 && place == kBlocks - 1 && atomicAdd(turn + 1, 0) == 1) out[i] = in[i] + 1;
    else out[i] = in[i] * apart;
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(turn + 2, 1) == kBlocks - 1) turn[0] = turn[1] = turn[2] = 0;
}

int main() {
    static int host[kThreads * kBlocks];
    for (int i = 0; i < kThreads * kBlocks; ++i) host[i] = i % 7 + 1;
    int *in, *out;
    cudaMalloc(&in, sizeof host);
    cudaMalloc(&out, sizeof host);
    cudaMemset(out, 0, sizeof host);
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    order<<<kBlocks, kThreads>>>(in, out, kApart);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%d\n", host[10]);
}
