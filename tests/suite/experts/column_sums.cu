// SPDX-License-Identifier: Apache-2.0
// Sums of the columns of a matrix stored by rows.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

constexpr int kRowsApart = 32, kBlocksDown = 32;

// Blocks of 32 columns by 32 rows walk down their part of the rows; parts are added up by atomics.
__global__ void colSums(const float *__restrict__ in, float *out, int nRows, int nCols)
{
    __shared__ float partial[kRowsApart][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    float s = 0.0f;
    if (c < nCols)
    {
#pragma unroll 8
        for (int r = blockIdx.y * kRowsApart + threadIdx.y; r < nRows; r += kRowsApart * kBlocksDown)
            s += __ldcs(&in[(size_t)r * nCols + c]);
    }
    partial[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    s = partial[threadIdx.x][threadIdx.y];
#pragma unroll
    for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffffu, s, o);
    int mine = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && mine < nCols) atomicAdd(&out[mine], s);
}

int main(int argc, char **argv)
{
    int nRows = 65536, nCols = 1024;
    if (argc > 2) { nRows = atoi(argv[1]); nCols = atoi(argv[2]); }
    size_t bytes = (size_t)nRows * nCols * sizeof(float);
    float *h = (float *)malloc(bytes), *sums = (float *)malloc(nCols * sizeof(float));
    for (size_t i = 0; i < (size_t)nRows * nCols; i++) h[i] = (float)((i * 7919) % 1000) * 0.001f;
    float *d_in, *d_out;
    cudaMalloc((void **)&d_in, bytes);
    cudaMalloc((void **)&d_out, nCols * sizeof(float));
    cudaMemcpy(d_in, h, bytes, cudaMemcpyHostToDevice);
    dim3 threadsPerBlock(32, kRowsApart);
    dim3 blocksPerGrid((nCols + 31) / 32, kBlocksDown);
    for (int it = 0; it < 5; it++)
    {
        cudaMemset(d_out, 0, nCols * sizeof(float));
        colSums<<<blocksPerGrid, threadsPerBlock>>>(d_in, d_out, nRows, nCols);
    }
    cudaMemcpy(sums, d_out, nCols * sizeof(float), cudaMemcpyDeviceToHost);
    int bad = 0;
    for (int c = 0; c < nCols; c += 31)
    {
        double want = 0;
        for (int r = 0; r < nRows; r++) want += h[(size_t)r * nCols + c];
        if (fabs(want - sums[c]) > 1e-3 * want) bad = 1;
    }
    puts(bad ? "Test FAILED" : "Test PASSED");
    free(h); free(sums); cudaFree(d_in); cudaFree(d_out);
    return bad;
}
