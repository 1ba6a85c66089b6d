// SPDX-License-Identifier: Apache-2.0
// All distances |a_i - b_j| in the L1 norm between two sets of points, a thread a pair; a coordinate after the other.
#include <cuda_runtime.h>
#include <cmath>
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

constexpr int kTile = 128, kSlab = 8;

// a: (dim, n), b: (dim, m), out: (n, m). 256 threads, 8 by 8 pairs each, from two buffers of eight coordinates.
__global__ void __launch_bounds__(256, 2) pairwise_l1(const float* __restrict__ a, const float* __restrict__ b,
                                                      float* __restrict__ out, int n, int m, int dim) {
    __shared__ __align__(16) float left[2][kSlab][kTile], right[2][kSlab][kTile];
    const int i0 = blockIdx.y * kTile, j0 = blockIdx.x * kTile;
    const int column = threadIdx.x % kTile, upper = threadIdx.x / kTile;
    const int tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4;
    const bool in_a = i0 + column < n, in_b = j0 + column < m;
    const float *pa = a + i0 + column, *pb = b + j0 + column;

    float next_a[kSlab / 2], next_b[kSlab / 2];
    auto load = [&](int k0) {
#pragma unroll
        for (int q = 0; q < kSlab / 2; q++) {
            int k = k0 + upper + 2 * q;
            next_a[q] = in_a && k < dim ? pa[(size_t)k * n] : 0.0f;
            next_b[q] = in_b && k < dim ? pb[(size_t)k * m] : 0.0f;
        }
    };
    auto keep = [&](int buffer) {
#pragma unroll
        for (int q = 0; q < kSlab / 2; q++) {
            left[buffer][upper + 2 * q][column] = next_a[q];
            right[buffer][upper + 2 * q][column] = next_b[q];
        }
    };

    float sum[8][8];
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 8; c++) sum[r][c] = 0.0f;

    load(0);
    keep(0);
    __syncthreads();
    int buffer = 0;
    for (int k0 = 0; k0 < dim; k0 += kSlab) {
        const bool more = k0 + kSlab < dim;
        if (more) load(k0 + kSlab);
#pragma unroll
        for (int k = 0; k < kSlab; k++) {
            float u[8], v[8];
            *(float4*)&u[0] = *(const float4*)&left[buffer][k][ty];
            *(float4*)&u[4] = *(const float4*)&left[buffer][k][ty + 64];
            *(float4*)&v[0] = *(const float4*)&right[buffer][k][tx];
            *(float4*)&v[4] = *(const float4*)&right[buffer][k][tx + 64];
#pragma unroll
            for (int r = 0; r < 8; r++)
#pragma unroll
                for (int c = 0; c < 8; c++) sum[r][c] += fabsf(u[r] - v[c]);
        }
        if (more) keep(buffer ^ 1);
        __syncthreads();
        buffer ^= 1;
    }

#pragma unroll
    for (int r = 0; r < 8; r++) {
        int i = i0 + ty + r % 4 + r / 4 * 64;
        if (i >= n) continue;
        float* row = out + (size_t)i * m;
#pragma unroll
        for (int c = 0; c < 8; c += 4) {
            int j = j0 + tx + c * 16;
            if (m % 4 == 0 && j < m) {
                __stcs((float4*)(row + j), make_float4(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]));
            } else {
#pragma unroll
                for (int q = 0; q < 4; q++)
                    if (j + q < m) row[j + q] = sum[r][c + q];
            }
        }
    }
}

static void random_points(std::vector<float>& points, unsigned seed) {
    for (float& p : points) p = ((seed = seed * 1664525u + 1013904223u) >> 8) * (1.0f / (1 << 24));
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 6144;
    int m = argc > 2 ? atoi(argv[2]) : 6144;
    int dim = argc > 3 ? atoi(argv[3]) : 96;
    int side = argc > 4 ? atoi(argv[4]) : 16;

    std::vector<float> a((size_t)dim * n), b((size_t)dim * m), out((size_t)n * m);
    random_points(a, 1);
    random_points(b, 2);

    float *d_a, *d_b, *d_out;
    CHECK(cudaMalloc(&d_a, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_b, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_out, out.size() * sizeof(float)));
    CHECK(cudaMemcpy(d_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

    dim3 block(side, side);
    dim3 grid((m + side - 1) / side, (n + side - 1) / side);
    for (int run = 0; run < 4; run++) {
        pairwise_l1<<<dim3((m + 127) / 128, (n + 127) / 128), 256>>>(d_a, d_b, d_out, n, m, dim);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int i = 0; i < n; i += 1 + n / 150)
        for (int j = i % 7; j < m; j += 1 + m / 200) {
            double want = 0;
            for (int k = 0; k < dim; k++) want += std::fabs((double)a[(size_t)k * n + i] - b[(size_t)k * m + j]);
            worst = std::fmax(worst, std::fabs(want - out[(size_t)i * m + j]) / (1 + want));
        }
    cudaFree(d_a);
    cudaFree(d_b);
    cudaFree(d_out);
    printf("%s\n", worst < 1e-5 ? "ok" : "wrong");
    return worst < 1e-5 ? 0 : 1;
}
