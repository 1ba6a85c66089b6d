// SPDX-License-Identifier: Apache-2.0
// Where a pattern occurs in a text, a position a thread; occurrences counted.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

constexpr int kPositions = 8;

// Text and pattern staged in shared memory; one atomic a warp.
__global__ void find_pattern(const char* __restrict__ text, int n, const char* __restrict__ pattern, int m,
                             int* __restrict__ matches, int* count) {
    __shared__ char wanted[64], window[128 * kPositions + 64];
    int first = blockIdx.x * 128 * kPositions;
    for (int i = threadIdx.x; i < m; i += 128) wanted[i] = pattern[i];
    for (int i = threadIdx.x; i < 128 * kPositions + m; i += 128) window[i] = first + i < n ? text[first + i] : 0;
    __syncthreads();
    int hits = 0;
    for (int at = threadIdx.x; at < 128 * kPositions; at += 128) {
        if (first + at > n - m) break;
        int j = 0;
        while (j < m && window[at + j] == wanted[j]) j++;
        matches[first + at] = j == m;
        hits += j == m;
    }
    hits = __reduce_add_sync(0xffffffffu, hits);
    if (threadIdx.x % 32 == 0 && hits) atomicAdd(count, hits);
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 26;
    const char* pattern = "abacab";
    int m = (int)strlen(pattern);
    char* text = (char*)malloc(n);
    int* matches = (int*)calloc(n, sizeof(int));
    unsigned s = 17;
    for (int i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        text[i] = "aabc"[s >> 30];
    }
    char *d_text, *d_pattern;
    int *d_matches, *d_count, count = 0;
    cudaMalloc(&d_text, n);
    cudaMalloc(&d_pattern, m);
    cudaMalloc(&d_matches, n * sizeof(int));
    cudaMalloc(&d_count, sizeof(int));
    cudaMemcpy(d_text, text, n, cudaMemcpyHostToDevice);
    cudaMemcpy(d_pattern, pattern, m, cudaMemcpyHostToDevice);
    cudaMemset(d_matches, 0, n * sizeof(int));
    for (int i = 0; i < 3; i++) {
        cudaMemset(d_count, 0, sizeof(int));
        find_pattern<<<(n + 128 * kPositions - 1) / (128 * kPositions), 128>>>(d_text, n, d_pattern, m, d_matches, d_count);
    }
    cudaMemcpy(&count, d_count, sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(matches, d_matches, n * sizeof(int), cudaMemcpyDeviceToHost);
    int want = 0, bad = 0;
    for (int i = 0; i + m <= n; i++) {
        int hit = memcmp(text + i, pattern, m) == 0;
        want += hit;
        bad += hit != matches[i];
    }
    printf("%d occurrences, %s\n", count, count == want && !bad ? "right" : "wrong");
    return count != want || bad;
}
