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

constexpr int kThreads = 256;
constexpr int kWords = 2048;  // of a block's strings, in shared memory, and one more

__device__ __forceinline__ unsigned add_byte(unsigned hash, unsigned byte) { return (hash ^ byte) * 16777619u; }

// String i is chars[offsets[i]] to chars[offsets[i + 1] - 1]. A block's strings come as whole lines, 16 bytes a thread, and
// are taken out of shared memory four characters at a time.
__global__ void __launch_bounds__(kThreads)
    hash_strings(const unsigned char* __restrict__ chars, const int* __restrict__ offsets, unsigned* __restrict__ hashes,
                 int count) {
    __shared__ __align__(16) unsigned words[kWords + 4];
    const int first = blockIdx.x * kThreads, last = min(first + kThreads, count), i = first + threadIdx.x;
    const int base = offsets[first] & ~15, end = offsets[last], total = offsets[count];
    const int from = i < count ? offsets[i] : end, to = i < count ? offsets[i + 1] : end;

    if (end - base > 4 * kWords) {  // does not fit
        if (i >= count) return;
        unsigned hash = 2166136261u;
        for (int k = from; k < to; k++) hash = add_byte(hash, chars[k]);
        hashes[i] = hash;
        return;
    }

#pragma unroll 2
    for (int at = base + 16 * threadIdx.x; at < end; at += 16 * kThreads) {
        if (at + 16 <= total)
            ((uint4*)words)[(at - base) / 16] = __ldcs((const uint4*)(chars + at));
        else {
            unsigned* word = &words[(at - base) / 4];
#pragma unroll 1
            for (int k = 0; at + k < total; k++) {
                const unsigned before = k % 4 ? word[k / 4] : 0;
                word[k / 4] = before | (unsigned)chars[at + k] << 8 * (k % 4);
            }
            break;
        }
    }
    __syncthreads();
    if (i >= count) return;

    const unsigned* word = words + (from - base) / 4;
    const int shift = 8 * ((from - base) % 4);
    unsigned hash = 2166136261u, now = *word++;
    int left = to - from;
    for (; left >= 4; left -= 4) {
        const unsigned next = *word++;
        const unsigned four = __funnelshift_r(now, next, shift);
        now = next;
        hash = add_byte(hash, four & 0xff);
        hash = add_byte(hash, four >> 8 & 0xff);
        hash = add_byte(hash, four >> 16 & 0xff);
        hash = add_byte(hash, four >> 24);
    }
    if (left > 0) {
        unsigned rest = __funnelshift_r(now, *word, shift);
        for (; left > 0; left--, rest >>= 8) hash = add_byte(hash, rest & 0xff);
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
    int blocks = (count + kThreads - 1) / kThreads;
    GPU(cudaEventRecord(start));
    for (int r = 0; r < repeats; r++) hash_strings<<<blocks, kThreads>>>(d_chars, d_offsets, d_hashes, count);
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
