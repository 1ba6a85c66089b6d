// SPDX-License-Identifier: Apache-2.0
// Blocks that come in one of very many orders give another result: whoever is looked at then is not to blame.
#include <cuda_runtime.h>

#include <cstdio>

constexpr int kThreads = 64, kBlocks = 5;

__global__ void order(const int* in, int* turn, int* out) {
    __shared__ int place;
    if (threadIdx.x == 0) place = atomicAdd(turn, 1);
    __syncthreads();
    const int i = blockIdx.x * kThreads + threadIdx.x;
    // the last block comes first and the first one last: once in twenty launches
    if (blockIdx.x == kBlocks - 1 && place == 0) atomicAdd(turn + 1, 1);
    if (blockIdx.x == 0 && place == kBlocks - 1 && atomicAdd(turn + 1, 0) == 1) out[i] = in[i] + 1;
    else out[i] = in[i];
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(turn + 2, 1) == kBlocks - 1) turn[0] = turn[1] = turn[2] = 0;
}

int main() {
    static int host[kThreads * kBlocks];
    for (int i = 0; i < kThreads * kBlocks; ++i) host[i] = i % 7 + 1;
    int *in, *turn, *out;
    cudaMalloc(&in, sizeof host);
    cudaMalloc(&turn, 3 * sizeof(int));
    cudaMalloc(&out, sizeof host);
    cudaMemset(turn, 0, 3 * sizeof(int));
    cudaMemset(out, 0, sizeof host);
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    order<<<kBlocks, kThreads>>>(in, turn, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%d\n", host[10]);
}
