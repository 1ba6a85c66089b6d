// SPDX-License-Identifier: Apache-2.0
// A column of strings, end to end with offsets: the FNV-1a hash of each, and how many fall into each partition of a join.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void gpu_assert(cudaError_t code, const char* file, int line) {
    if (code != cudaSuccess) {
        fprintf(stderr, "GPU assert: %s %s %d\n", cudaGetErrorString(code), file, line);
        exit(code);
    }
}
#define GPU(x) gpu_assert((x), __FILE__, __LINE__)

#define PARTITIONS 1024

// String i is chars[offsets[i]] to chars[offsets[i + 1] - 1].
__global__ void hash_strings(const unsigned char* chars, const int* offsets, unsigned* hashes, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned hash = 2166136261u;
    for (int k = offsets[i]; k < offsets[i + 1]; k++) {
        hash ^= chars[k];
        hash *= 16777619u;
    }
    hashes[i] = hash;
}

__global__ void count_partitions(const unsigned* hashes, int* counts, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(&counts[hashes[i] % PARTITIONS], 1);
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 6000000;
    int repeats = argc > 2 ? atoi(argv[2]) : 20;
    int block = argc > 3 ? atoi(argv[3]) : 256;

    std::vector<int> offsets(count + 1);
    unsigned s = 31;
    for (int i = 0; i < count; i++) offsets[i + 1] = offsets[i] + 8 + (int)(((s = s * 1664525u + 1013904223u) >> 16) % 24);
    std::vector<unsigned char> chars(offsets[count]);
    for (auto& c : chars) c = 'a' + ((s = s * 1664525u + 1013904223u) >> 16) % 26;

    unsigned char* d_chars;
    int *d_offsets, *d_counts;
    unsigned* d_hashes;
    GPU(cudaMalloc(&d_chars, chars.size()));
    GPU(cudaMalloc(&d_offsets, offsets.size() * sizeof(int)));
    GPU(cudaMalloc(&d_hashes, count * sizeof(unsigned)));
    GPU(cudaMalloc(&d_counts, PARTITIONS * sizeof(int)));
    GPU(cudaMemcpy(d_chars, chars.data(), chars.size(), cudaMemcpyHostToDevice));
    GPU(cudaMemcpy(d_offsets, offsets.data(), offsets.size() * sizeof(int), cudaMemcpyHostToDevice));
    GPU(cudaMemset(d_counts, 0, PARTITIONS * sizeof(int)));

    cudaEvent_t start, stop;
    GPU(cudaEventCreate(&start));
    GPU(cudaEventCreate(&stop));
    int blocks = (count + block - 1) / block;
    GPU(cudaEventRecord(start));
    for (int r = 0; r < repeats; r++) hash_strings<<<blocks, block>>>(d_chars, d_offsets, d_hashes, count);
    GPU(cudaEventRecord(stop));
    GPU(cudaGetLastError());
    count_partitions<<<(count + 255) / 256, 256>>>(d_hashes, d_counts, count);
    GPU(cudaGetLastError());

    std::vector<unsigned> hashes(count);
    std::vector<int> counts(PARTITIONS);
    GPU(cudaMemcpy(hashes.data(), d_hashes, count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    GPU(cudaMemcpy(counts.data(), d_counts, PARTITIONS * sizeof(int), cudaMemcpyDeviceToHost));
    float ms = 0;
    GPU(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.1f million strings a second\n", count * 1e-3 * repeats / ms);

    int wrong = 0, largest = 0, all = 0;
    for (int c : counts) {
        all += c;
        if (c > largest) largest = c;
    }
    wrong += all != count;
    for (int i = 0; i < count; i += i < 1000 ? 1 : 1 + count / 1000) {
        unsigned hash = 2166136261u;
        for (int k = offsets[i]; k < offsets[i + 1]; k++) hash = (hash ^ chars[k]) * 16777619u;
        wrong += hash != hashes[i];
    }
    GPU(cudaFree(d_chars));
    GPU(cudaFree(d_offsets));
    GPU(cudaFree(d_hashes));
    GPU(cudaFree(d_counts));
    printf("largest partition %d, last hash %u\n%s\n", largest, hashes[count - 1], wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
