// SPDX-License-Identifier: Apache-2.0
// Tables in shared memory that a loop counts into at places of the data's choice, and one that each lane has for itself.
#include <cuda_runtime.h>

__global__ void counted(const uint4 *__restrict__ keys, int *__restrict__ counts, int n)
{
    __shared__ int table[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) table[b] = 0;
    __syncthreads();
    unsigned char own[16];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        *reinterpret_cast<uint4 *>(own) = keys[i];
        for (int k = 0; k < 16; ++k) atomicAdd(&table[own[k]], 1);  // expect: shared-atomic-contention
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&counts[b], table[b]);
}

__global__ void counted_by_lane(const uint4 *__restrict__ keys, int *__restrict__ counts, int n)
{
    __shared__ int table[32];
    if (threadIdx.x < 32) table[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint4 four = keys[i];
        atomicAdd(&table[threadIdx.x % 32], __popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w));
    }
    __syncthreads();
    if (threadIdx.x < 32) atomicAdd(&counts[threadIdx.x], table[threadIdx.x]);
}
