// SPDX-License-Identifier: Apache-2.0
// Sobel's edges of a gray image, |gx| + |gy| cut off at 255, a thread a pixel; the border repeats the outermost pixels.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_OK(call)                                                                             \
    do {                                                                                          \
        cudaError_t status_ = (call);                                                             \
        if (status_ != cudaSuccess) {                                                             \
            fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(status_));               \
            exit(2);                                                                              \
        }                                                                                         \
    } while (0)

struct Image {
    int width, height;
    std::vector<unsigned char> pixels;
    Image(int w, int h) : width(w), height(h), pixels((size_t)w * h) {}
    int at(int x, int y) const {
        x = std::min(std::max(x, 0), width - 1);
        y = std::min(std::max(y, 0), height - 1);
        return pixels[(size_t)y * width + x];
    }
};

constexpr int kRows = 16;  // of a warp

__device__ __forceinline__ half2 as_half2(unsigned u) { return *(half2*)&u; }
__device__ __forceinline__ unsigned as_word(half2 h) { return *(unsigned*)&h; }

// Two bytes as halves: a half whose bits are those of a whole number below 2048 is that many times 2^-24.
__device__ __forceinline__ half2 widened(unsigned word, unsigned which) {
    return as_half2(__byte_perm(word, 0, which));
}

__device__ __forceinline__ half2 absolute(half2 h) { return as_half2(as_word(h) & 0x7fff7fffu); }

constexpr int kAhead = 3;  // rows that are on their way

// Sixteen pixels as they are in memory, and, in a warp's first and last lane, the one beside them.
struct Raw {
    unsigned words[4], beside;
};

__device__ __forceinline__ Raw raw_of(const unsigned char* __restrict__ line, int x, int width) {
    const uint4 word = __ldg((const uint4*)(line + x));
    Raw raw{{word.x, word.y, word.z, word.w}, 0};
    const int lane = threadIdx.x;
    if (lane == 0 || lane == 31) raw.beside = line[lane == 0 ? max(x - 1, 0) : min(x + 16, width - 1)];
    return raw;
}

// Sixteen pixels of a row as pairs, and after them the one before and the one behind.
struct Row {
    half2 pair[9];
};

__device__ __forceinline__ Row row_of(const Raw& raw, bool rightmost) {
    const int lane = threadIdx.x;
    unsigned before = __shfl_up_sync(0xffffffffu, raw.words[3], 1) >> 24;
    unsigned behind = __shfl_down_sync(0xffffffffu, raw.words[0], 1) & 0xff;
    if (lane == 0) before = raw.beside;
    if (lane == 31) behind = raw.beside;
    if (rightmost) behind = raw.words[3] >> 24;
    Row row;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        row.pair[2 * i] = widened(raw.words[i], 0x4140);
        row.pair[2 * i + 1] = widened(raw.words[i], 0x4342);
    }
    row.pair[8] = widened(before | behind << 8, 0x4140);
    return row;
}

// The pairs that lie between those of sixteen pixels.
__device__ __forceinline__ void between(const half2 (&p)[9], half2 (&odd)[9]) {
    odd[0] = as_half2(__byte_perm(as_word(p[8]), as_word(p[0]), 0x5410));
#pragma unroll
    for (int i = 1; i < 8; i++) odd[i] = as_half2(__byte_perm(as_word(p[i - 1]), as_word(p[i]), 0x5432));
    odd[8] = as_half2(__byte_perm(as_word(p[7]), as_word(p[8]), 0x7632));
}

// Sixteen pixels a thread and sixteen rows a warp, two pixels an operation: all values are whole multiples of 2^-24
// below 2^-13, which halves hold exactly.
__global__ void __launch_bounds__(128) sobel(const unsigned char* __restrict__ in, unsigned char* __restrict__ out,
                                             int width, int height) {
    const int x = blockIdx.x * 512 + threadIdx.x * 16;
    const int y0 = (blockIdx.y * blockDim.y + threadIdx.y) * kRows;
    if (y0 >= height) return;
    if (width % 16) {
        for (int y = y0; y < min(y0 + kRows, height); y++)
            for (int c = x; c < min(x + 16, width); c++) {
                int left = max(c - 1, 0), right = min(c + 1, width - 1);
                const unsigned char* above = in + (size_t)max(y - 1, 0) * width;
                const unsigned char* here = in + (size_t)y * width;
                const unsigned char* below = in + (size_t)min(y + 1, height - 1) * width;
                int gx = above[right] + 2 * here[right] + below[right] - above[left] - 2 * here[left] - below[left];
                int gy = below[left] + 2 * below[c] + below[right] - above[left] - 2 * above[c] - above[right];
                out[(size_t)y * width + c] = min(abs(gx) + abs(gy), 255);
            }
        return;
    }

    const int from = min(x, width - 16);
    const bool rightmost = x + 16 == width;
    const half2 two = __float2half2_rn(2.0f), most = as_half2(0x00ff00ffu);
    auto fetched = [&](int y) {
        return raw_of(in + (size_t)min(max(y, 0), height - 1) * width, from, width);
    };
    Raw first = fetched(y0 - 1), second = fetched(y0), coming[kAhead];
#pragma unroll
    for (int r = 0; r < kAhead; r++) coming[r] = fetched(y0 + 1 + r);
    Row a = row_of(first, rightmost), b = row_of(second, rightmost);
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        const int y = y0 + r;
        Row c = row_of(coming[r % kAhead], rightmost);
        if (r + kAhead < kRows) coming[r % kAhead] = fetched(y + 1 + kAhead);
        half2 smooth[9], slope[9], smooth_odd[9], slope_odd[9], edge[8];
#pragma unroll
        for (int i = 0; i < 9; i++) {
            smooth[i] = __hadd2(__hfma2(two, b.pair[i], a.pair[i]), c.pair[i]);
            slope[i] = __hsub2(c.pair[i], a.pair[i]);
        }
        between(smooth, smooth_odd);
        between(slope, slope_odd);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            half2 gx = __hsub2(smooth_odd[i + 1], smooth_odd[i]);
            half2 gy = __hfma2(two, slope[i], __hadd2(slope_odd[i], slope_odd[i + 1]));
            edge[i] = __hmin2(__hadd2(absolute(gx), absolute(gy)), most);
        }
        if (y < height && x < width) {
            unsigned bytes[4];
#pragma unroll
            for (int i = 0; i < 4; i++) bytes[i] = __byte_perm(as_word(edge[2 * i]), as_word(edge[2 * i + 1]), 0x6420);
            __stcs((uint4*)(out + (size_t)y * width + x), make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]));
        }
        a = b;
        b = c;
    }
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 10240;
    int height = argc > 2 ? atoi(argv[2]) : 8192;
    int block_x = argc > 3 ? atoi(argv[3]) : 32;
    int block_y = argc > 4 ? atoi(argv[4]) : 8;

    Image image(width, height), edges(width, height);
    unsigned s = 5;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            s = s * 1664525u + 1013904223u;
            image.pixels[(size_t)y * width + x] = ((x / 40 + y / 24) % 2 ? 180 : 60) + (s >> 27);
        }

    size_t bytes = image.pixels.size();
    unsigned char *d_in, *d_out;
    CUDA_OK(cudaMalloc(&d_in, bytes));
    CUDA_OK(cudaMalloc(&d_out, bytes));
    CUDA_OK(cudaMemcpy(d_in, image.pixels.data(), bytes, cudaMemcpyHostToDevice));

    dim3 block(block_x, block_y);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    for (int frame = 0; frame < 5; frame++) {
        sobel<<<dim3((width + 511) / 512, (height + 63) / 64), dim3(32, 4)>>>(d_in, d_out, width, height);
        CUDA_OK(cudaGetLastError());
    }
    CUDA_OK(cudaMemcpy(edges.pixels.data(), d_out, bytes, cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int y = 0; y < height; y += (y < 3 || y > height - 4) ? 1 : 1 + height / 200)
        for (int x = 0; x < width; x += (x < 70 || x > width - 70) ? 1 : 7) {
            int gx = image.at(x + 1, y - 1) + 2 * image.at(x + 1, y) + image.at(x + 1, y + 1) - image.at(x - 1, y - 1) -
                     2 * image.at(x - 1, y) - image.at(x - 1, y + 1);
            int gy = image.at(x - 1, y + 1) + 2 * image.at(x, y + 1) + image.at(x + 1, y + 1) - image.at(x - 1, y - 1) -
                     2 * image.at(x, y - 1) - image.at(x + 1, y - 1);
            wrong += edges.at(x, y) != std::min(std::abs(gx) + std::abs(gy), 255);
        }
    CUDA_OK(cudaFree(d_in));
    CUDA_OK(cudaFree(d_out));
    printf("%s\n", wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
