// SPDX-License-Identifier: Apache-2.0
// Evaluation of a classifier: the rank of the right class among the logits of each image, and accuracy at one and at five.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CALL(x)                                                                   \
    do {                                                                               \
        cudaError_t status_ = (x);                                                     \
        if (status_ != cudaSuccess) {                                                  \
            printf("CUDA error %s at line %d\n", cudaGetErrorString(status_), __LINE__); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

// logits: (rows, classes). How many classes come before the row's label: of equal ones, the lower index comes first.
__global__ void label_ranks(const float* logits, const int* labels, int* ranks, int rows, int classes) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* x = logits + (size_t)row * classes;
    int label = labels[row];
    float target = x[label];
    int rank = 0;
    for (int c = 0; c < classes; c++) {
        if (x[c] > target || (x[c] == target && c < label)) rank++;
    }
    ranks[row] = rank;
}

__global__ void count_hits(const int* ranks, int* hits, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    if (ranks[i] < 1) atomicAdd(&hits[0], 1);
    if (ranks[i] < 5) atomicAdd(&hits[1], 1);
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 65536;
    int classes = argc > 2 ? atoi(argv[2]) : 1000;
    int batches = argc > 3 ? atoi(argv[3]) : 16;
    int block = argc > 4 ? atoi(argv[4]) : 128;

    std::vector<float> logits((size_t)rows * classes);
    std::vector<int> labels(rows);
    unsigned s = 5;
    for (float& v : logits) v = (int)((s = s * 1664525u + 1013904223u) >> 16) * (8.0f / 65536) - 4.0f;
    for (int r = 0; r < rows; r++) {
        s = s * 1664525u + 1013904223u;
        labels[r] = (s >> 8) % classes;
        logits[(size_t)r * classes + labels[r]] = 3.0f + (s >> 24) * (1.0f / 256);  // it has learnt something
    }

    float* d_logits;
    int *d_labels, *d_ranks, *d_hits;
    CUDA_CALL(cudaMalloc(&d_logits, logits.size() * sizeof(float)));
    CUDA_CALL(cudaMalloc(&d_labels, rows * sizeof(int)));
    CUDA_CALL(cudaMalloc(&d_ranks, rows * sizeof(int)));
    CUDA_CALL(cudaMalloc(&d_hits, 2 * sizeof(int)));
    CUDA_CALL(cudaMemcpy(d_logits, logits.data(), logits.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMemcpy(d_labels, labels.data(), rows * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMemset(d_hits, 0, 2 * sizeof(int)));

    cudaEvent_t start, stop;
    CUDA_CALL(cudaEventCreate(&start));
    CUDA_CALL(cudaEventCreate(&stop));
    CUDA_CALL(cudaEventRecord(start));
    int blocks = (rows + block - 1) / block;
    for (int b = 0; b < batches; b++) {
        label_ranks<<<blocks, block>>>(d_logits, d_labels, d_ranks, rows, classes);
        CUDA_CALL(cudaGetLastError());
        count_hits<<<(rows + 255) / 256, 256>>>(d_ranks, d_hits, rows);
        CUDA_CALL(cudaGetLastError());
    }
    CUDA_CALL(cudaEventRecord(stop));
    CUDA_CALL(cudaEventSynchronize(stop));
    float ms;
    CUDA_CALL(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.3f ms a batch\n", ms / batches);
    std::vector<int> ranks(rows);
    int hits[2];
    CUDA_CALL(cudaMemcpy(ranks.data(), d_ranks, rows * sizeof(int), cudaMemcpyDeviceToHost));
    CUDA_CALL(cudaMemcpy(hits, d_hits, 2 * sizeof(int), cudaMemcpyDeviceToHost));

    int bad = 0, want_hits[2] = {0, 0};
    for (int r = 0; r < rows; r++) {
        want_hits[0] += batches * (ranks[r] < 1);
        want_hits[1] += batches * (ranks[r] < 5);
        if (r % (1 + rows / 1000)) continue;
        const float* x = &logits[(size_t)r * classes];
        int rank = 0;
        for (int c = 0; c < classes; c++) rank += x[c] > x[labels[r]] || (x[c] == x[labels[r]] && c < labels[r]);
        bad += rank != ranks[r];
    }
    bad += hits[0] != want_hits[0] || hits[1] != want_hits[1];
    CUDA_CALL(cudaFree(d_logits));
    CUDA_CALL(cudaFree(d_labels));
    CUDA_CALL(cudaFree(d_ranks));
    CUDA_CALL(cudaFree(d_hits));
    double all = (double)rows * batches;
    printf("top-1 %.4f, top-5 %.4f\n%s\n", hits[0] / all, hits[1] / all, bad ? "wrong" : "ok");
    return bad ? 1 : 0;
}
