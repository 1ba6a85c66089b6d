// SPDX-License-Identifier: Apache-2.0
// Sums of the columns of a matrix stored by rows.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

__global__ void colSums(const float *in, float *out, int nRows, int nCols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < nCols)
    {
        float s = 0.0f;
        for (int r = 0; r < nRows; r++)
        {
            s += in[r * nCols + c];
        }
        out[c] = s;
    }
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
    int threadsPerBlock = 128;
    int blocksPerGrid = (nCols + threadsPerBlock - 1) / threadsPerBlock;
    for (int it = 0; it < 5; it++)
        colSums<<<blocksPerGrid, threadsPerBlock>>>(d_in, d_out, nRows, nCols);
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
