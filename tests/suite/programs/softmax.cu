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

__global__ void softmax_forward_kernel(float* out, const float* inp, int N, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        const float* inp_row = inp + i * C;
        float* out_row = out + i * C;

        float maxval = -INFINITY;
        for (int j = 0; j < C; j++) {
            if (inp_row[j] > maxval) {
                maxval = inp_row[j];
            }
        }
        float sum = 0.0f;
        for (int j = 0; j < C; j++) {
            out_row[j] = expf(inp_row[j] - maxval);
            sum += out_row[j];
        }
        for (int j = 0; j < C; j++) {
            out_row[j] /= sum;
        }
    }
}

void softmax_forward(float* out, const float* inp, int N, int C, const int block_size) {
    const int grid_size = (N + block_size - 1) / block_size;
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
