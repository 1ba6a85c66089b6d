// SPDX-License-Identifier: Apache-2.0
// Levenshtein distances of many pairs of short strings (reads, names), one row of the table at a time: a thread a pair.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

constexpr int MAX_LENGTH = 64;

#define CHECK(x)                                                                         \
    do {                                                                                 \
        cudaError_t e_ = (x);                                                            \
        if (e_ != cudaSuccess) {                                                         \
            fprintf(stderr, "%s at line %d\n", cudaGetErrorString(e_), __LINE__);        \
            return 2;                                                                    \
        }                                                                                \
    } while (0)

// a, b: (pairs, length)
__global__ void levenshtein(const char* a, const char* b, int* distance, int pairs, int length) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pairs) return;
    const char* s = a + (size_t)p * length;
    const char* t = b + (size_t)p * length;

    int row[MAX_LENGTH + 1];
    for (int j = 0; j <= length; j++) row[j] = j;
    for (int i = 1; i <= length; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int substitute = diagonal + (s[i - 1] != t[j - 1]);
            diagonal = row[j];
            row[j] = min(substitute, min(row[j - 1], row[j]) + 1);
        }
    }
    distance[p] = row[length];
}

static int on_the_host(const char* s, const char* t, int length) {
    std::vector<int> last(length + 1), row(length + 1);
    std::iota(last.begin(), last.end(), 0);
    for (int i = 1; i <= length; i++) {
        row[0] = i;
        for (int j = 1; j <= length; j++)
            row[j] = std::min({last[j - 1] + (s[i - 1] != t[j - 1]), last[j] + 1, row[j - 1] + 1});
        std::swap(row, last);
    }
    return last[length];
}

int main(int argc, char** argv) {
    int pairs = argc > 1 ? atoi(argv[1]) : 300000;
    int length = argc > 2 ? atoi(argv[2]) : 64;
    int block = argc > 3 ? atoi(argv[3]) : 128;
    if (length < 1 || length > MAX_LENGTH) {
        fprintf(stderr, "length must be 1 to %d\n", MAX_LENGTH);
        return 2;
    }
    size_t n = (size_t)pairs * length;

    std::vector<char> a(n), b(n);
    unsigned s = 61;
    for (int p = 0; p < pairs; p++) {
        char *x = &a[(size_t)p * length], *y = &b[(size_t)p * length];
        for (int i = 0; i < length; i++) x[i] = "ACGT"[(s = s * 1664525u + 1013904223u) >> 30];
        int shift = p % 4;  // y is x, shifted and with errors
        for (int i = 0; i < length; i++) {
            s = s * 1664525u + 1013904223u;
            bool error = (s >> 24) % 10 == 0;
            y[i] = error || i + shift >= length ? "ACGTN"[(s >> 16) % 5] : x[i + shift];
        }
    }

    char *d_a, *d_b;
    int* d_distance;
    CHECK(cudaMalloc(&d_a, n));
    CHECK(cudaMalloc(&d_b, n));
    CHECK(cudaMalloc(&d_distance, pairs * sizeof(int)));
    CHECK(cudaMemcpy(d_a, a.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), n, cudaMemcpyHostToDevice));

    for (int run = 0; run < 3; run++) {
        levenshtein<<<(pairs + block - 1) / block, block>>>(d_a, d_b, d_distance, pairs, length);
        CHECK(cudaGetLastError());
    }
    std::vector<int> distance(pairs);
    CHECK(cudaMemcpy(distance.data(), d_distance, pairs * sizeof(int), cudaMemcpyDeviceToHost));

    int wrong = 0;
    long long sum = 0;
    for (int p = 0; p < pairs; p++) sum += distance[p];
    for (int p = 0; p < pairs; p += pairs > 5000 ? 131 : 1)
        wrong += distance[p] != on_the_host(&a[(size_t)p * length], &b[(size_t)p * length], length);
    cudaFree(d_a);
    cudaFree(d_b);
    cudaFree(d_distance);
    printf("mean distance %.4f\n%s\n", (double)sum / pairs, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
