// SPDX-License-Identifier: Apache-2.0
// Histogram of bytes with global atomics.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_BINS 256

// A histogram a warp in shared memory, sixteen bytes a load.
__global__ void __launch_bounds__(256) histogram_kernel(const unsigned char* __restrict__ data, unsigned int* bins,
                                                        unsigned int length) {
    __shared__ unsigned int mine[8][NUM_BINS];
    for (int i = threadIdx.x; i < 8 * NUM_BINS; i += blockDim.x) (&mine[0][0])[i] = 0;
    __syncthreads();
    unsigned int* own = mine[threadIdx.x / 32];
    unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned int g = tid; g < length / 16; g += gridDim.x * blockDim.x) {
        uint4 v = __ldcs((const uint4*)data + g);
        unsigned int words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int b = 0; b < 32; b += 8) atomicAdd(&own[words[k] >> b & 0xff], 1u);
    }
    if (tid < length % 16) atomicAdd(&own[data[length / 16 * 16 + tid]], 1u);
    __syncthreads();
    unsigned int sum = 0;
    for (int k = 0; k < 8; k++) sum += mine[k][threadIdx.x];
    atomicAdd(&bins[threadIdx.x], sum);
}

int main(int argc, char** argv) {
    unsigned int length = argc > 1 ? (unsigned int)atoi(argv[1]) : 1u << 27;
    unsigned char* data = (unsigned char*)malloc(length);
    unsigned int expected[NUM_BINS], bins[NUM_BINS];
    memset(expected, 0, sizeof(expected));
    unsigned int x = 123456789;
    for (unsigned int i = 0; i < length; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        data[i] = (unsigned char)((x & 0xff) * (x >> 8 & 0xff) >> 8);
        expected[data[i]]++;
    }
    unsigned char* d_data;
    unsigned int* d_bins;
    cudaMalloc((void**)&d_data, length);
    cudaMalloc((void**)&d_bins, NUM_BINS * sizeof(unsigned int));
    cudaMemcpy(d_data, data, length, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) {
        cudaMemset(d_bins, 0, NUM_BINS * sizeof(unsigned int));
        histogram_kernel<<<132 * 8, 256>>>(d_data, d_bins, length);
    }
    cudaMemcpy(bins, d_bins, sizeof(bins), cudaMemcpyDeviceToHost);
    int same = memcmp(bins, expected, sizeof(bins)) == 0;
    printf("histogram %s\n", same ? "correct" : "WRONG");
    free(data);
    cudaFree(d_data);
    cudaFree(d_bins);
    return !same;
}
