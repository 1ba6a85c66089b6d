// SPDX-License-Identifier: Apache-2.0
// Non-local means: each pixel becomes a mean of the pixels around it, weighted by how alike their surroundings are.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define SEARCH 5               // pixels are looked for so far away
#define PATCH 2                // and compared with this much around them
#define PAD (SEARCH + PATCH)   // border around the image, so that nothing has to be checked

static void ok(cudaError_t e, int line) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA error in line %d: %s\n", line, cudaGetErrorString(e));
        exit(2);
    }
}
#define OK(x) ok(x, __LINE__)

constexpr int kWarps = 4;
constexpr int kRows = 8;                             // of pixels, for each thread
constexpr int kHeight = kWarps * kRows;              // of a block
constexpr int kWidth = 64 - 2 * PATCH;               // of a block: two columns a thread, less those only summed over
constexpr int kTileWidth = 64 + 2 * SEARCH;
constexpr int kTileHeight = kHeight + 2 * PAD;
constexpr int kPitch = kTileWidth + 2;
static_assert(PATCH == 2, "the sums over columns are of five");
static_assert(kPitch % 2 == 0, "pairs are aligned");

// 2^x for x up to 0; what is below the smallest normal number is nothing
__device__ __forceinline__ float power_of_two(float x) {
#ifdef __NVCC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// A thread has two columns of eight pixels. For each place in the search it makes their squared differences once, sums
// them down the column in registers, and across columns with its neighbours in the warp. The tile is there twice, shifted
// by one, so that pairs from odd columns are aligned as well.
__global__ void __launch_bounds__(32 * kWarps, 4)
    nonlocal_means(const float* __restrict__ padded, float* __restrict__ out, int width, int height, float inv_h2) {
    __shared__ __align__(16) float tile[2][kTileHeight][kPitch];
    const int x0 = blockIdx.x * kWidth, y0 = blockIdx.y * kHeight;
    const int pitch = width + 2 * PAD, lines = height + 2 * PAD;
    for (int i = threadIdx.x; i < kTileHeight * kTileWidth; i += 32 * kWarps) {
        const int row = i / kTileWidth, col = i % kTileWidth;
        const float p = padded[(size_t)min(y0 + row, lines - 1) * pitch + min(x0 + col, pitch - 1)];
        tile[0][row][col] = p;
        if (col > 0) tile[1][row][col - 1] = p;
    }
    __syncthreads();

    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * kRows;
    const float scale = -1.4426950408889634f * inv_h2;
    float2 center[kRows + 2 * PATCH];
#pragma unroll
    for (int j = 0; j < kRows + 2 * PATCH; j++) {
        center[j].x = tile[0][first + SEARCH + j][2 * lane + SEARCH];
        center[j].y = tile[0][first + SEARCH + j][2 * lane + SEARCH + 1];
    }
    float2 sum[kRows], weights[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) sum[r] = weights[r] = make_float2(0, 0);

    for (int dy = 0; dy <= 2 * SEARCH; dy++) {
        for (int dx = 0; dx <= 2 * SEARCH; dx++) {
            const float* other = &tile[dx % 2][first + dy][2 * lane + dx - dx % 2];
            float2 value[kRows + 2 * PATCH], square[kRows + 2 * PATCH];
#pragma unroll
            for (int j = 0; j < kRows + 2 * PATCH; j++) {
                value[j] = *(const float2*)(other + j * kPitch);
                const float x = center[j].x - value[j].x, y = center[j].y - value[j].y;
                square[j] = make_float2(x * x, y * y);
            }
            float2 pair[kRows + 2 * PATCH - 1];
#pragma unroll
            for (int j = 0; j < kRows + 2 * PATCH - 1; j++)
                pair[j] = make_float2(square[j].x + square[j + 1].x, square[j].y + square[j + 1].y);
#pragma unroll
            for (int r = 0; r < kRows; r++) {
                const float down_x = pair[r].x + pair[r + 2].x + square[r + 4].x;
                const float down_y = pair[r].y + pair[r + 2].y + square[r + 4].y;
                const float both = down_x + down_y;
                const float left_y = __shfl_up_sync(0xffffffffu, down_y, 1);
                const float left = __shfl_up_sync(0xffffffffu, both, 1);
                const float right_x = __shfl_down_sync(0xffffffffu, down_x, 1);
                const float right = __shfl_down_sync(0xffffffffu, both, 1);
                const float wx = power_of_two((left + both + right_x) * scale);
                const float wy = power_of_two((left_y + both + right) * scale);
                sum[r].x += wx * value[r + PATCH].x;
                sum[r].y += wy * value[r + PATCH].y;
                weights[r].x += wx;
                weights[r].y += wy;
            }
        }
    }

    if (lane == 0 || lane == 31) return;
    const int x = x0 + 2 * lane - PATCH;
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        const int y = y0 + first + r;
        if (y >= height) break;
        if (x < width) out[(size_t)y * width + x] = sum[r].x / weights[r].x;
        if (x + 1 < width) out[(size_t)y * width + x + 1] = sum[r].y / weights[r].y;
    }
}

// squared differences of neighbours, as a measure of noise
__global__ void roughness(const float* image, float* total, int width, int height) {
    __shared__ float row_sum[128];
    int y = blockIdx.x;
    float mine = 0.0f;
    for (int x = threadIdx.x; x + 1 < width; x += 128) {
        float d = image[y * width + x + 1] - image[y * width + x];
        mine += d * d;
    }
    row_sum[threadIdx.x] = mine;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (threadIdx.x < s) row_sum[threadIdx.x] += row_sum[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) total[y] = row_sum[0];
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 1600;
    int height = argc > 2 ? atoi(argv[2]) : 1200;
    int frames = argc > 3 ? atoi(argv[3]) : 10;
    float inv_h2 = 1.0f / (25 * 0.15f * 0.15f);

    int pitch = width + 2 * PAD;
    std::vector<float> image((size_t)width * height), padded((size_t)pitch * (height + 2 * PAD)), out(image.size());
    unsigned seed = 99;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            seed = seed * 1664525u + 1013904223u;
            float noise = (seed >> 8) * (0.3f / 16777216.0f) - 0.15f;
            float clean = (x / 23 + y / 17) % 2 ? 0.7f : 0.3f;
            image[(size_t)y * width + x] = clean + 0.1f * x / width + noise;
        }
    }
    auto mirror = [](int i, int n) {
        while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;
        return i;
    };
    for (int y = 0; y < height + 2 * PAD; y++)
        for (int x = 0; x < pitch; x++)
            padded[(size_t)y * pitch + x] = image[(size_t)mirror(y - PAD, height) * width + mirror(x - PAD, width)];

    float *d_padded, *d_out, *d_rough;
    OK(cudaMalloc(&d_padded, padded.size() * sizeof(float)));
    OK(cudaMalloc(&d_out, out.size() * sizeof(float)));
    OK(cudaMalloc(&d_rough, height * sizeof(float)));
    OK(cudaMemcpy(d_padded, padded.data(), padded.size() * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t a, b;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    dim3 grid((width + kWidth - 1) / kWidth, (height + kHeight - 1) / kHeight);
    OK(cudaEventRecord(a));
    for (int frame = 0; frame < frames; frame++) {
        nonlocal_means<<<grid, 32 * kWarps>>>(d_padded, d_out, width, height, inv_h2);
        OK(cudaGetLastError());
    }
    OK(cudaEventRecord(b));
    roughness<<<height, 128>>>(d_out, d_rough, width, height);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    float ms = 0;
    OK(cudaEventElapsedTime(&ms, a, b));
    fprintf(stderr, "%.3f ms a frame\n", ms / frames);

    std::vector<float> rough(height);
    OK(cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(rough.data(), d_rough, height * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaFree(d_padded));
    OK(cudaFree(d_out));
    OK(cudaFree(d_rough));

    double worst = 0, left = 0;
    for (int y = 0; y < height; y++) left += rough[y];
    int step = 1 + width * height / 800;
    for (int i = 0; i < width * height; i += step) {
        const float* center = &padded[(size_t)(i / width + PAD) * pitch + i % width + PAD];
        double sum = 0, weights = 0;
        for (int dy = -SEARCH; dy <= SEARCH; dy++)
            for (int dx = -SEARCH; dx <= SEARCH; dx++) {
                double distance = 0;
                for (int j = -PATCH; j <= PATCH; j++)
                    for (int k = -PATCH; k <= PATCH; k++) {
                        double d = (double)center[j * pitch + k] - center[(dy + j) * pitch + dx + k];
                        distance += d * d;
                    }
                double w = std::exp(-distance * inv_h2);
                sum += w * center[dy * pitch + dx];
                weights += w;
            }
        worst = std::fmax(worst, std::fabs(out[i] - sum / weights));
    }
    printf("roughness %.4f\n", left / ((double)width * height) * 1e4);
    printf("%s\n", worst < 1e-4 ? "right" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
