// SPDX-License-Identifier: Apache-2.0
// Vector quantisation: each vector gets the index of the nearest entry of a codebook, and entries are counted.
#include <cuda_runtime.h>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}

// vectors: (count, dim), codebook: (codes, dim)
__global__ void nearest_code(const float* vectors, const float* codebook, int* nearest, float* error, int count,
                             int codes, int dim) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;

    float best = FLT_MAX;
    int code = 0;
    for (int c = 0; c < codes; c++) {
        float distance = 0.0f;
        for (int d = 0; d < dim; d++) {
            float diff = vectors[i * dim + d] - codebook[c * dim + d];
            distance += diff * diff;
        }
        if (distance < best) {
            best = distance;
            code = c;
        }
    }
    nearest[i] = code;
    error[i] = best;
}

__global__ void count_codes(const int* nearest, int* used, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(&used[nearest[i]], 1);
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 50000;
    int codes = argc > 2 ? atoi(argv[2]) : 256;
    int dim = argc > 3 ? atoi(argv[3]) : 32;
    int block = argc > 4 ? atoi(argv[4]) : 128;

    std::vector<float> codebook((size_t)codes * dim), vectors((size_t)count * dim);
    unsigned s = 17;
    for (float& v : codebook) v = ((s = s * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f;
    for (int i = 0; i < count; i++) {  // an entry and noise
        const float* entry = &codebook[(size_t)((i * 2654435761u >> 8) % codes) * dim];
        float* v = &vectors[(size_t)i * dim];
        for (int d = 0; d < dim; d++) v[d] = entry[d] + ((s = s * 1664525u + 1013904223u) >> 8) * (1.0f / (1 << 24)) - 0.5f;
    }

    float *d_vectors, *d_codebook, *d_error;
    int *d_nearest, *d_used;
    check(cudaMalloc(&d_vectors, vectors.size() * sizeof(float)), "vectors");
    check(cudaMalloc(&d_codebook, codebook.size() * sizeof(float)), "codebook");
    check(cudaMalloc(&d_error, count * sizeof(float)), "error");
    check(cudaMalloc(&d_nearest, count * sizeof(int)), "nearest");
    check(cudaMalloc(&d_used, codes * sizeof(int)), "used");
    check(cudaMemcpy(d_vectors, vectors.data(), vectors.size() * sizeof(float), cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(d_codebook, codebook.data(), codebook.size() * sizeof(float), cudaMemcpyHostToDevice), "copy");
    check(cudaMemset(d_used, 0, codes * sizeof(int)), "memset");

    int blocks = (count + block - 1) / block;
    nearest_code<<<blocks, block>>>(d_vectors, d_codebook, d_nearest, d_error, count, codes, dim);
    check(cudaGetLastError(), "nearest_code");
    count_codes<<<(count + 255) / 256, 256>>>(d_nearest, d_used, count);
    check(cudaGetLastError(), "count_codes");

    std::vector<int> nearest(count), used(codes);
    std::vector<float> error(count);
    check(cudaMemcpy(nearest.data(), d_nearest, count * sizeof(int), cudaMemcpyDeviceToHost), "nearest");
    check(cudaMemcpy(error.data(), d_error, count * sizeof(float), cudaMemcpyDeviceToHost), "error");
    check(cudaMemcpy(used.data(), d_used, codes * sizeof(int), cudaMemcpyDeviceToHost), "used");

    int most = 0, all = 0, wrong = 0;
    for (int u : used) {
        all += u;
        most = u > most ? u : most;
    }
    double sum = 0;
    for (float e : error) sum += e;
    for (int i = 0; i < count; i += 1 + count / 100) {
        double best = 1e30, given = 0;
        for (int c = 0; c < codes; c++) {
            double distance = 0;
            for (int d = 0; d < dim; d++) {
                double diff = (double)vectors[(size_t)i * dim + d] - codebook[(size_t)c * dim + d];
                distance += diff * diff;
            }
            best = std::fmin(best, distance);
            if (c == nearest[i]) given = distance;
        }
        // the nearest, but for rounding
        wrong += !(given <= best * (1 + 1e-5) && std::fabs(given - error[i]) <= 1e-4 * given + 1e-6);
    }
    wrong += all != count;
    cudaFree(d_vectors);
    cudaFree(d_codebook);
    cudaFree(d_error);
    cudaFree(d_nearest);
    cudaFree(d_used);
    printf("mean error %.5f, most used %d times\n%s\n", sum / count, most, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
