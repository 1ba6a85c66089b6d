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
typedef unsigned long long Bits;

// Bytes i to i + 15 of a string, 0 behind its end.
__device__ __forceinline__ uint4 sixteen(const char* s, int i, int length) {
    if (length % 16 == 0) return *(const uint4*)(s + i);
    unsigned words[4];
#pragma unroll
    for (int q = 0; q < 4; q++) {
        words[q] = 0;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int at = i + 4 * q + e;
            if (at < length) words[q] |= (unsigned)(unsigned char)s[at] << (8 * e);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// An 8 by 8 matrix of bits, a row a byte, turned over its diagonal.
__device__ __forceinline__ Bits transposed(Bits v) {
    Bits t = (v ^ (v >> 7)) & 0x00aa00aa00aa00aaull;
    v ^= t ^ (t << 7);
    t = (v ^ (v >> 14)) & 0x0000cccc0000ccccull;
    v ^= t ^ (t << 14);
    t = (v ^ (v >> 28)) & 0x00000000f0f0f0f0ull;
    return v ^ t ^ (t << 28);
}

// Roof: the integer units, 64 operations a cycle and multiprocessor. A column of the table is two words of 64 bits, the
// differences +1 and -1 down it (Myers, Hyyro); where a letter stands in s comes from eight words, one for each bit of a
// letter. About 60 operations for the 64 cells of a column. The strings' bytes take a tenth of that time.
__global__ void __launch_bounds__(128) levenshtein(const char* __restrict__ a, const char* __restrict__ b,
                                                   int* __restrict__ distance, int pairs, int length) {
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pairs) return;
    const char* s = a + (size_t)p * length;
    const char* t = b + (size_t)p * length;

    Bits plane[8] = {};
#pragma unroll
    for (int i = 0; i < MAX_LENGTH; i += 16) {
        if (i >= length) break;
        const uint4 w = sixteen(s, i, length);
        const Bits low = transposed((Bits)w.y << 32 | w.x), high = transposed((Bits)w.w << 32 | w.z);
#pragma unroll
        for (int k = 0; k < 8; k++)
            plane[k] |= (low >> (8 * k) & 0xff) << i | (high >> (8 * k) & 0xff) << (i + 8);
    }

    Bits plus = ~0ull, minus = 0;
    for (int i = 0; i < length; i += 16) {
        const uint4 w = sixteen(t, i, length);
        const unsigned words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int e = 0; e < 16; e++) {
            if (i + e >= length) break;
            const unsigned word = words[e / 4];
            unsigned low = ~0u, high = ~0u;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                const unsigned bit = (unsigned)((int)(word << (31 - (e % 4 * 8 + k))) >> 31);  // in all places
                low &= ~((unsigned)plane[k] ^ bit);
                high &= ~((unsigned)(plane[k] >> 32) ^ bit);
            }
            const Bits equal = (Bits)high << 32 | low;
            const Bits diagonal = (((equal & plus) + plus) ^ plus) | equal | minus;
            const Bits right = (minus | ~(diagonal | plus)) << 1 | 1, less = (diagonal & plus) << 1;
            plus = less | ~(diagonal | right);
            minus = diagonal & right;
        }
    }
    const Bits mask = ~0ull >> (MAX_LENGTH - length);
    distance[p] = length + __popcll(plus & mask) - __popcll(minus & mask);
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
        levenshtein<<<(pairs + 127) / 128, 128>>>(d_a, d_b, d_distance, pairs, length);
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
