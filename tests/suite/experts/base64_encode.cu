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

// Four letters for the lower three bytes of `bits`, the first letter lowest: A comes of 0, a of 26, 0 of 52, + of 62 and
// / of 63. Each comparison is an addition that carries into a byte's highest bit.
__device__ __forceinline__ unsigned four_letters(unsigned bits) {
    const unsigned v = (bits >> 18 & 0x3f) | (bits >> 4 & 0x3f00) | (bits << 10 & 0x3f0000) | (bits << 24 & 0x3f000000);
    const unsigned ones = 0x01010101;
    const unsigned from26 = (v + (128 - 26) * ones) >> 7 & ones, from52 = (v + (128 - 52) * ones) >> 7 & ones;
    const unsigned from62 = (v + (128 - 62) * ones) >> 7 & ones, from63 = (v + (128 - 63) * ones) >> 7 & ones;
    return v + 'A' * ones + 6 * from26 - 75 * from52 - 15 * from62 + 3 * from63;
}

// A thread for twelve bytes: three words in, sixteen letters out in one store.
__global__ void __launch_bounds__(256)
    base64_encode(const unsigned char* __restrict__ in, char* __restrict__ out, int length) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long at = 12 * i;
    if (at >= length) return;
    if (at + 12 <= length) {
        const unsigned* words = (const unsigned*)(in + at);
        const unsigned a = words[0], b = words[1], c = words[2];
        uint4 letters16;
        letters16.x = four_letters(__byte_perm(a, b, 0x0012));
        letters16.y = four_letters(__byte_perm(a, b, 0x0345));
        letters16.z = four_letters(__byte_perm(b, c, 0x0234));
        letters16.w = four_letters(__byte_perm(c, c, 0x0123));
        __stcs((uint4*)(out + 16 * i), letters16);
        return;
    }
    for (int three = 0; at + 3 * three < length; three++) {
        const unsigned char* p = in + at + 3 * three;
        const int left = length - (int)at - 3 * three;
        unsigned word = four_letters(p[0] << 16 | (left > 1 ? p[1] << 8 : 0) | (left > 2 ? p[2] : 0));
        if (left < 3) word = (word & 0x00ffffff) | '=' << 24;
        if (left < 2) word = (word & 0xff00ffff) | '=' << 16;
        *(unsigned*)(out + 16 * i + 4 * three) = word;
    }
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

    base64_encode<<<((groups + 3) / 4 + 255) / 256, 256>>>(d_data, d_text, length);
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
