// SPDX-License-Identifier: Apache-2.0
// The quadratic form x'Ax of many vectors with one matrix, as for the energy of sampled states, and the lowest of all.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void cuda_ok(cudaError_t status) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}

// matrix: (dim, dim), vectors: (dim, count), one component of all vectors after the other
__global__ void quadratic_form(const float* matrix, const float* vectors, float* energy, int dim, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0.0f;
    for (int r = 0; r < dim; r++) {
        float row = 0.0f;
        for (int c = 0; c < dim; c++) row += matrix[r * dim + c] * vectors[(size_t)c * count + i];
        sum += row * vectors[(size_t)r * count + i];
    }
    energy[i] = sum;
}

__global__ void block_minimum(const float* energy, float* lowest, int count) {
    __shared__ float values[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    values[threadIdx.x] = i < count ? energy[i] : INFINITY;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (threadIdx.x < s) values[threadIdx.x] = fminf(values[threadIdx.x], values[threadIdx.x + s]);
        __syncthreads();
    }
    if (threadIdx.x == 0) lowest[blockIdx.x] = values[0];
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 500000;
    int dim = argc > 2 ? atoi(argv[2]) : 64;
    int threads = argc > 3 ? atoi(argv[3]) : 256;
    int repeats = 10;

    std::vector<float> matrix(dim * dim), vectors((size_t)dim * count), energy(count);
    unsigned s = 1234567;
    for (float& v : matrix) v = (s = s * 1664525u + 1013904223u) * (2.0f / 4294967296.0f) - 1.0f;
    for (int r = 0; r < dim; r++) matrix[r * dim + r] += sqrtf((float)dim);
    for (float& v : vectors) v = (s = s * 1664525u + 1013904223u) * (2.0f / 4294967296.0f) - 1.0f;

    float *d_matrix, *d_vectors, *d_energy, *d_lowest;
    int blocks = (count + threads - 1) / threads, parts = (count + 255) / 256;
    cuda_ok(cudaMalloc(&d_matrix, matrix.size() * sizeof(float)));
    cuda_ok(cudaMalloc(&d_vectors, vectors.size() * sizeof(float)));
    cuda_ok(cudaMalloc(&d_energy, count * sizeof(float)));
    cuda_ok(cudaMalloc(&d_lowest, parts * sizeof(float)));
    cuda_ok(cudaMemcpy(d_matrix, matrix.data(), matrix.size() * sizeof(float), cudaMemcpyHostToDevice));
    cuda_ok(cudaMemcpy(d_vectors, vectors.data(), vectors.size() * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t begin, end;
    cuda_ok(cudaEventCreate(&begin));
    cuda_ok(cudaEventCreate(&end));
    cuda_ok(cudaEventRecord(begin));
    for (int k = 0; k < repeats; k++)
        quadratic_form<<<blocks, threads>>>(d_matrix, d_vectors, d_energy, dim, count);
    cuda_ok(cudaEventRecord(end));
    cuda_ok(cudaGetLastError());
    block_minimum<<<parts, 256>>>(d_energy, d_lowest, count);
    cuda_ok(cudaGetLastError());

    std::vector<float> lowest(parts);
    cuda_ok(cudaMemcpy(energy.data(), d_energy, count * sizeof(float), cudaMemcpyDeviceToHost));
    cuda_ok(cudaMemcpy(lowest.data(), d_lowest, parts * sizeof(float), cudaMemcpyDeviceToHost));
    float ms = 0;
    cuda_ok(cudaEventElapsedTime(&ms, begin, end));
    fprintf(stderr, "%.3f ms, %.1f GFLOP/s\n", ms / repeats, 2e-6 * dim * (dim + 1) * count * repeats / ms);

    double least = INFINITY, worst = 0;
    for (float v : lowest) least = std::fmin(least, v);
    for (int i = 0; i < count; i += 1 + count / 300) {
        double want = 0;
        for (int r = 0; r < dim; r++)
            for (int c = 0; c < dim; c++)
                want += (double)matrix[r * dim + c] * vectors[(size_t)c * count + i] * vectors[(size_t)r * count + i];
        worst = std::fmax(worst, std::fabs(energy[i] - want) / (1 + std::fabs(want)));
    }
    cuda_ok(cudaFree(d_matrix));
    cuda_ok(cudaFree(d_vectors));
    cuda_ok(cudaFree(d_energy));
    cuda_ok(cudaFree(d_lowest));
    printf("lowest %.3f\n%s\n", least, worst < 1e-4 ? "ok" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
