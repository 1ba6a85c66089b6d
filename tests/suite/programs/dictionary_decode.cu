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

__global__ void decode_column(const unsigned short* codes, const char* dictionary, char* out, int rows, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * width) return;
    int row = i / width;
    int at = i % width;
    out[i] = dictionary[codes[row] * width + at];
}

void decode(const Column& column, char* out, int block) {
    int bytes = column.rows * column.width;
    decode_column<<<(bytes + block - 1) / block, block>>>(column.codes, column.dictionary, out, column.rows, column.width);
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
