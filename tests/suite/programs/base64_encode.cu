// SPDX-License-Identifier: Apache-2.0
// Base64: each three bytes become four letters of an alphabet of 64, a thread for each three.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t status = (call);                                             \
        if (status != cudaSuccess) {                                             \
            fprintf(stderr, "CUDA error: %s\n", cudaGetErrorString(status));     \
            exit(EXIT_FAILURE);                                                  \
        }                                                                        \
    } while (0)

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

__constant__ char alphabet[64];

__global__ void base64_encode(const unsigned char* in, char* out, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int at = 3 * i;
    if (at >= length) return;

    int a = in[at];
    int b = at + 1 < length ? in[at + 1] : 0;
    int c = at + 2 < length ? in[at + 2] : 0;

    out[4 * i] = alphabet[a >> 2];
    out[4 * i + 1] = alphabet[(a & 3) << 4 | b >> 4];
    out[4 * i + 2] = at + 1 < length ? alphabet[(b & 15) << 2 | c >> 6] : '=';
    out[4 * i + 3] = at + 2 < length ? alphabet[c & 63] : '=';
}

static std::string on_the_host(const unsigned char* in, int length) {
    std::string out;
    for (int at = 0; at < length; at += 3) {
        unsigned bits = in[at] << 16;
        if (at + 1 < length) bits |= in[at + 1] << 8;
        if (at + 2 < length) bits |= in[at + 2];
        out += letters[bits >> 18];
        out += letters[bits >> 12 & 63];
        out += at + 1 < length ? letters[bits >> 6 & 63] : '=';
        out += at + 2 < length ? letters[bits & 63] : '=';
    }
    return out;
}

int main(int argc, char** argv) {
    int length = argc > 1 ? atoi(argv[1]) : 64000001;
    int block = argc > 2 ? atoi(argv[2]) : 256;
    int groups = (length + 2) / 3;

    unsigned char* data = (unsigned char*)malloc(length + 8);
    char* text = (char*)malloc((size_t)groups * 4);
    unsigned long long s = 12345;
    for (int i = 0; i < length; i += 8) {
        s = s * 6364136223846793005ull + 1442695040888963407ull;
        unsigned long long mixed = s ^ s >> 29;
        memcpy(data + i, &mixed, 8);
    }

    unsigned char* d_data;
    char* d_text;
    CHECK(cudaMalloc(&d_data, length));
    CHECK(cudaMalloc(&d_text, (size_t)groups * 4));
    CHECK(cudaMemcpy(d_data, data, length, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(alphabet, letters, 64));

    base64_encode<<<(groups + block - 1) / block, block>>>(d_data, d_text, length);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(text, d_text, (size_t)groups * 4, cudaMemcpyDeviceToHost));

    // pieces of 3000 bytes, and the end
    bool ok = true;
    int stride = length > 1000000 ? length / 90 / 3 * 3 : 3000;
    for (int at = 0; at < length; at += stride) {
        std::string want = on_the_host(data + at, length - at < 3000 ? length - at : 3000);
        ok = ok && memcmp(want.data(), text + at / 3 * 4, want.size()) == 0;
    }
    int last = (groups - 1) * 3;
    ok = ok && memcmp(on_the_host(data + last, length - last).data(), text + (size_t)(groups - 1) * 4, 4) == 0;
    printf("%.16s... %d letters\n%s\n", text, groups * 4, ok ? "ok" : "wrong");
    free(data);
    free(text);
    CHECK(cudaFree(d_data));
    CHECK(cudaFree(d_text));
    return ok ? 0 : 1;
}
