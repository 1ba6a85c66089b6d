// SPDX-License-Identifier: Apache-2.0
// A dictionary-encoded column of fixed-width strings, written out in full: a thread a byte.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void check(cudaError_t err, const char* what) {
    if (err != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(err));
        exit(2);
    }
}

struct Column {
    unsigned short* codes;  // one per row
    char* dictionary;       // `entries` strings of `width` bytes
    int rows, width, entries;
};

constexpr int kEach = 4;  // stores of 16 bytes of a thread

// A block writes blockDim.x * 64 bytes, in words of 16 where the strings are made of them.
__global__ void decode_column(const unsigned short* __restrict__ codes, const char* __restrict__ dictionary,
                              char* __restrict__ out, int rows, int width) {
    if (width % 16 == 0) {
        const uint4* words = (const uint4*)dictionary;
        unsigned a_string = width / 16, total = (unsigned)rows * a_string;
        unsigned first = blockIdx.x * blockDim.x * kEach + threadIdx.x;
        unsigned from[kEach];
        uint4 word[kEach];
#pragma unroll
        for (int k = 0; k < kEach; k++) {
            unsigned i = first + k * blockDim.x;
            unsigned row = i / a_string;
            if (i < total) from[k] = codes[row] * a_string + (i - row * a_string);
        }
#pragma unroll
        for (int k = 0; k < kEach; k++)
            if (first + k * blockDim.x < total) word[k] = __ldg(&words[from[k]]);
#pragma unroll
        for (int k = 0; k < kEach; k++) {
            unsigned i = first + k * blockDim.x;
            if (i < total) __stcs((uint4*)out + i, word[k]);
        }
        return;
    }
    unsigned total = (unsigned)rows * width;
    unsigned i = blockIdx.x * blockDim.x * (16 * kEach) + threadIdx.x;
    for (int k = 0; k < 16 * kEach && i < total; k++, i += blockDim.x) {
        unsigned row = i / width;
        out[i] = dictionary[codes[row] * width + (i - row * width)];
    }
}

void decode(const Column& column, char* out, int block) {
    int bytes = column.rows * column.width;
    decode_column<<<bytes / (block * 64) + 1, block>>>(column.codes, column.dictionary, out, column.rows, column.width);
    check(cudaGetLastError(), "decode_column");
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 6000000;
    int width = argc > 2 ? atoi(argv[2]) : 32;
    int entries = argc > 3 ? atoi(argv[3]) : 2000;
    int block = argc > 4 ? atoi(argv[4]) : 256;
    if ((long long)rows * width > 0x7fffffffLL || entries > 65536) {
        fprintf(stderr, "too large\n");
        return 2;
    }

    std::vector<char> dictionary((size_t)entries * width, ' ');
    for (int e = 0; e < entries; e++) {
        char name[32];
        int length = snprintf(name, sizeof(name), "item %d/%d", e, (e * 7919) % 10007);
        memcpy(&dictionary[(size_t)e * width], name, length < width ? length : width);
    }
    std::vector<unsigned short> codes(rows);
    unsigned s = 3;
    for (auto& c : codes) c = ((s = s * 69069 + 1) >> 8) % entries;

    size_t bytes = (size_t)rows * width;
    Column column{nullptr, nullptr, rows, width, entries};
    char* d_out;
    check(cudaMalloc(&column.codes, rows * sizeof(unsigned short)), "malloc");
    check(cudaMalloc(&column.dictionary, dictionary.size()), "malloc");
    check(cudaMalloc(&d_out, bytes), "malloc");
    check(cudaMemcpy(column.codes, codes.data(), rows * sizeof(unsigned short), cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(column.dictionary, dictionary.data(), dictionary.size(), cudaMemcpyHostToDevice), "copy");

    for (int r = 0; r < 4; r++) decode(column, d_out, block);

    std::vector<char> out(bytes);
    check(cudaMemcpy(out.data(), d_out, bytes, cudaMemcpyDeviceToHost), "copy back");
    int wrong = 0;
    for (int row = 0; row < rows; row += row < 1000 ? 1 : 37)
        wrong += memcmp(&out[(size_t)row * width], &dictionary[(size_t)codes[row] * width], width) != 0;
    wrong += memcmp(&out[(size_t)(rows - 1) * width], &dictionary[(size_t)codes[rows - 1] * width], width) != 0;

    cudaFree(column.codes);
    cudaFree(column.dictionary);
    cudaFree(d_out);
    printf("%s\n", wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
