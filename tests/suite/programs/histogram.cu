// SPDX-License-Identifier: Apache-2.0
// Histogram of bytes with global atomics.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_BINS 256

__global__ void histogram_kernel(const unsigned char* data, unsigned int* bins, unsigned int length) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length) {
        atomicAdd(&bins[data[i]], 1u);
    }
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
        histogram_kernel<<<(length + 255) / 256, 256>>>(d_data, d_bins, length);
    }
    cudaMemcpy(bins, d_bins, sizeof(bins), cudaMemcpyDeviceToHost);
    int same = memcmp(bins, expected, sizeof(bins)) == 0;
    printf("histogram %s\n", same ? "correct" : "WRONG");
    free(data);
    cudaFree(d_data);
    cudaFree(d_bins);
    return !same;
}
