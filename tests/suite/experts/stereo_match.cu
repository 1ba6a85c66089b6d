// SPDX-License-Identifier: Apache-2.0
// Depth from two cameras: for each pixel the shift at which a 9 by 9 window of the left image fits the right one best.
#include <cuda_runtime.h>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x)                                                                         \
    do {                                                                                 \
        cudaError_t e_ = (x);                                                            \
        if (e_ != cudaSuccess) {                                                         \
            fprintf(stderr, "%s at line %d\n", cudaGetErrorString(e_), __LINE__);        \
            return 2;                                                                    \
        }                                                                                \
    } while (0)

constexpr int RADIUS = 4;
constexpr int DISPARITIES = 64;

constexpr int kPairs = DISPARITIES / 2;
constexpr int kWarps = 4;
constexpr int kStrip = 16;                  // rows of a warp
constexpr int kAcross = 32 - 2 * RADIUS;    // pixels of a row that a warp decides
constexpr int kLead = 128;                  // bytes before the right image, and behind it, that may be read
static_assert(RADIUS == 4, "nine columns are summed in four shuffles");
static_assert(DISPARITIES == 64, "read as sixteen words");

// Adds to each disparity's column sum, or takes from it, the absolute difference in one row. Even disparities stand in a
// word's low half, the next odd ones in its high half. `right` is the pixel that is DISPARITIES - 1 to the left.
template <bool Add>
__device__ __forceinline__ void row_of_differences(unsigned (&columns)[kPairs], int left, const unsigned char* right) {
    const unsigned off = (unsigned)((size_t)right & 3);
    const unsigned* words = (const unsigned*)(right - off);
    unsigned low = words[0];
#pragma unroll
    for (int k = 0; k < DISPARITIES / 4; k++) {
        const unsigned high = words[k + 1];
        const unsigned four = __funnelshift_r(low, high, 8 * off);
        low = high;
        // disparities 63 - 4 k, 62 - 4 k, 61 - 4 k, 60 - 4 k
        const unsigned upper = __sad(left, four >> 8 & 0xff, __sad(left, four & 0xff, 0) << 16);
        const unsigned lower = __sad(left, four >> 24, __sad(left, four >> 16 & 0xff, 0) << 16);
        columns[kPairs - 1 - 2 * k] += Add ? upper : 0 - upper;
        columns[kPairs - 2 - 2 * k] += Add ? lower : 0 - lower;
    }
}

// The best disparity of at most `most`; cost and disparity in one word, so that of equal costs the first wins.
template <bool Edge>
__device__ __forceinline__ unsigned best_of(const unsigned (&columns)[kPairs], int most) {
    unsigned best = ~0u;
#pragma unroll
    for (int p = 0; p < kPairs; p++) {
        unsigned sum = columns[p] + __shfl_down_sync(~0u, columns[p], 1);
        sum += __shfl_down_sync(~0u, sum, 2);
        sum += __shfl_down_sync(~0u, sum, 4);
        sum += __shfl_down_sync(~0u, columns[p], 8);
        const unsigned even = sum << 16 | 2 * p, odd = (sum & 0xffff0000u) | (2 * p + 1);
        if (!Edge || 2 * p <= most) best = min(best, even);
        if (!Edge || 2 * p + 1 <= most) best = min(best, odd);
    }
    return best & 0xffff;
}

// Sums of absolute differences; a border of RADIUS pixels is left as it is. A warp goes down a strip: a lane keeps, for each
// disparity, the sum over nine rows of its column, and nine lanes' sums are a window's.
__global__ void __launch_bounds__(32 * kWarps)
    block_match(const unsigned char* __restrict__ left, const unsigned char* __restrict__ right,
                unsigned char* __restrict__ disparity, int width, int height) {
    const int lane = threadIdx.x % 32;
    const int x0 = (blockIdx.x * kWarps + threadIdx.x / 32) * kAcross;
    const int first = RADIUS + blockIdx.y * kStrip, end = min(first + kStrip, height - RADIUS);
    if (x0 >= width - 2 * RADIUS || first >= end) return;

    const int x = min(x0 + lane, width - 1);
    const int most = x0 + lane;  // the window's left column
    const int out = x0 + lane + RADIUS;
    const bool decides = lane < kAcross && out < width - RADIUS;
    const unsigned char* shifted = right + x - (DISPARITIES - 1);

    unsigned columns[kPairs] = {};
    for (int y = first - RADIUS; y < first + RADIUS; y++)
        row_of_differences<true>(columns, left[y * width + x], shifted + y * width);
    for (int y = first; y < end; y++) {
        const int next = (y + RADIUS) * width, last = (y - RADIUS) * width;
        row_of_differences<true>(columns, left[next + x], shifted + next);
        const unsigned best = x0 < DISPARITIES ? best_of<true>(columns, most) : best_of<false>(columns, most);
        if (decides) disparity[y * width + out] = best;
        row_of_differences<false>(columns, left[last + x], shifted + last);
    }
}

__global__ void to_depth(const unsigned char* disparity, float* depth, int n, float focal_times_baseline) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) depth[i] = disparity[i] ? focal_times_baseline / disparity[i] : 0.0f;
}

static int on_the_host(const unsigned char* left, const unsigned char* right, int width, int x, int y) {
    int best = INT_MAX, best_d = 0;
    for (int d = 0; d < DISPARITIES && x - d - RADIUS >= 0; d++) {
        int cost = 0;
        for (int v = y - RADIUS; v <= y + RADIUS; v++)
            for (int u = x - RADIUS; u <= x + RADIUS; u++) cost += abs(left[v * width + u] - right[v * width + u - d]);
        if (cost < best) best = cost, best_d = d;
    }
    return best_d;
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 1024;
    int height = argc > 2 ? atoi(argv[2]) : 640;
    int n = width * height;

    // a textured scene; objects of 100 pixels at several distances, and noise in the right image
    std::vector<unsigned char> left(n), right(n), disparity(n);
    unsigned s = 7;
    for (unsigned char& p : left) p = (s = s * 1664525u + 1013904223u) >> 24;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            s = s * 1664525u + 1013904223u;
            int d = 3 + (x / 100 * 7 + y / 100 * 13) % 56;
            int p = x + d < width ? left[y * width + x + d] : s >> 24;
            right[y * width + x] = (p * 15 + (s >> 20 & 0xff)) / 16;
        }

    unsigned char *d_left, *d_padded, *d_right, *d_disparity;
    float* d_depth;
    CHECK(cudaMalloc(&d_left, n));
    CHECK(cudaMalloc(&d_padded, n + 2 * kLead));
    CHECK(cudaMemset(d_padded, 0, n + 2 * kLead));
    d_right = d_padded + kLead;
    CHECK(cudaMalloc(&d_disparity, n));
    CHECK(cudaMalloc(&d_depth, n * sizeof(float)));
    CHECK(cudaMemcpy(d_left, left.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_right, right.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_disparity, 0, n));

    dim3 block(32 * kWarps);
    dim3 grid((width + kAcross * kWarps - 1) / (kAcross * kWarps), (height + kStrip - 1) / kStrip);
    for (int frame = 0; frame < 2; frame++) {
        block_match<<<grid, block>>>(d_left, d_right, d_disparity, width, height);
        CHECK(cudaGetLastError());
        to_depth<<<(n + 255) / 256, 256>>>(d_disparity, d_depth, n, 1200.0f);
        CHECK(cudaGetLastError());
    }
    std::vector<float> depth(n);
    CHECK(cudaMemcpy(disparity.data(), d_disparity, n, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(depth.data(), d_depth, n * sizeof(float), cudaMemcpyDeviceToHost));

    int wrong = 0;
    long long sum = 0;
    for (int i = 0; i < n; i++) sum += disparity[i] * (i % 1009);
    int step = n > 100000 ? 997 : 7;
    for (int i = 0; i < n; i += step) {
        int x = i % width, y = i / width;
        bool inside = x >= RADIUS && y >= RADIUS && x < width - RADIUS && y < height - RADIUS;
        int want = inside ? on_the_host(left.data(), right.data(), width, x, y) : 0;
        wrong += disparity[i] != want;
        wrong += want && depth[i] != 1200.0f / want;
    }
    cudaFree(d_left);
    cudaFree(d_padded);
    cudaFree(d_disparity);
    cudaFree(d_depth);
    printf("checksum %lld\n%s\n", sum, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
