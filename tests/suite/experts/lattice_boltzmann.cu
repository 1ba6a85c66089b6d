// SPDX-License-Identifier: Apache-2.0
// A fluid in two dimensions by the lattice Boltzmann method (D2Q9, BGK), periodic: a thread a cell streams and collides.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define CUDA_CHECK(x)                                               \
    if (cudaError_t e = (x)) {                                      \
        fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e));     \
        exit(2);                                                    \
    }

#define Q 9

__constant__ int cx[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int cy[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float wt[Q] = {4.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};

// f: the nine populations of a cell beside each other
constexpr int kTileX = 32, kTileY = 30, kWarps = 8;
constexpr int kTall = kTileY + 2, kWide = (kTileX + 2) * Q;  // of the tile and its border in shared memory
constexpr int kRows = kTall / kWarps;                        // of a warp
constexpr int kLoads = (kWide + 31) / 32;

__device__ __forceinline__ void collide(float fi[Q], float omega) {
    constexpr float X[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, Y[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    constexpr float W[Q] = {4.0f / 9,  1.0f / 9,  1.0f / 9,  1.0f / 9, 1.0f / 9,
                            1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
    float rho = 0.0f;
#pragma unroll
    for (int q = 0; q < Q; q++) rho += fi[q];
    const float one = 1.0f / rho;
    const float ux = (fi[1] - fi[3] + fi[5] - fi[6] - fi[7] + fi[8]) * one;
    const float uy = (fi[2] - fi[4] + fi[5] + fi[6] - fi[7] - fi[8]) * one;
    const float rest = 1.0f - 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int q = 0; q < Q; q++) {
        const float cu = 3.0f * (X[q] * ux + Y[q] * uy);
        const float feq = W[q] * rho * (rest + cu + 0.5f * cu * cu);
        fi[q] += omega * (feq - fi[q]);
    }
}

// Roof: DRAM, 72 bytes a cell. A block brings 32 by 30 cells and their border to shared memory as they lie, a warp four rows
// of nine numbers beside each other (nine is odd: no bank conflicts), and takes them back the same way; the border comes
// from the L2.
__global__ void __launch_bounds__(32 * kWarps, 4) lbm_step(const float* __restrict__ f, float* __restrict__ f_new, int nx,
                                                           int ny, float omega) {
    __shared__ __align__(16) float tile[kTall * kWide];
    constexpr int kX[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, kY[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const int x0 = blockIdx.x * kTileX, y0 = blockIdx.y * kTileY;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    const bool inside = x0 > 0 && x0 + kTileX < nx;
#pragma unroll 2
    for (int r = 0; r < kRows; r++) {
        const int row = warp + r * kWarps;
        int y = y0 - 1 + row;
        if (y < 0) y += ny;
        if (y >= ny) y = y == ny ? 0 : ny - 1;  // what lies further out is nobody's neighbour
        const float* from = f + (size_t)y * nx * Q;
        float v[kLoads];
        if (inside) {
            from += (x0 - 1) * Q + lane;
#pragma unroll
            for (int m = 0; m < kLoads; m++)
                if (m < kLoads - 1 || lane < kWide - 32 * m) v[m] = from[32 * m];
        } else {
#pragma unroll
            for (int m = 0; m < kLoads; m++) {
                const int column = (lane + 32 * m) / Q, q = (lane + 32 * m) % Q;
                int x = x0 - 1 + column;
                if (x < 0) x += nx;
                if (x >= nx) x = x == nx ? 0 : nx - 1;
                v[m] = from[x * Q + q];
            }
        }
#pragma unroll
        for (int m = 0; m < kLoads; m++)
            if (m < kLoads - 1 || lane < kWide - 32 * m) tile[row * kWide + lane + 32 * m] = v[m];
    }
    __syncthreads();

    float fi[kRows][Q];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        const int row = warp + r * kWarps;
        if (row < kTileY) {
            const float* here = &tile[(row + 1) * kWide + (lane + 1) * Q];
#pragma unroll
            for (int q = 0; q < Q; q++) fi[r][q] = here[q - kY[q] * kWide - kX[q] * Q];
            collide(fi[r], omega);
        }
    }
    __syncthreads();  // from here on a warp has its rows to itself

#pragma unroll
    for (int r = 0; r < kRows; r++) {
        const int row = warp + r * kWarps;
        if (row < kTileY)
#pragma unroll
            for (int q = 0; q < Q; q++) tile[(row * kTileX + lane) * Q + q] = fi[r][q];
    }
    __syncwarp();
    const int numbers = min(kTileX, nx - x0) * Q;
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        const int row = warp + r * kWarps;
        if (row >= kTileY || y0 + row >= ny) break;
        const float* from = &tile[row * kTileX * Q];
        float* to = f_new + ((size_t)(y0 + row) * nx + x0) * Q;
        if (nx % 4 == 0) {
#pragma unroll
            for (int at = 0; at < kTileX * Q; at += 128)
                if (at + 4 * lane < numbers) __stcs((float4*)(to + at) + lane, *((const float4*)(from + at) + lane));
        } else {
            for (int at = lane; at < numbers; at += 32) to[at] = from[at];
        }
    }
}

int main(int argc, char** argv) {
    int nx = argc > 1 ? atoi(argv[1]) : 2048;
    int ny = argc > 2 ? atoi(argv[2]) : 1536;
    int steps = argc > 3 ? atoi(argv[3]) : 6;
    const float omega = 1.2f;
    const int hx[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, hy[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const double weight[Q] = {4.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36};

    // a shear wave
    size_t n = (size_t)nx * ny * Q;
    std::vector<float> f(n), before(n);
    for (int y = 0; y < ny; y++) {
        double u = 0.05 * std::sin(2 * M_PI * y / ny);
        float feq[Q];
        for (int q = 0; q < Q; q++) feq[q] = (float)(weight[q] * (1 + 3 * hx[q] * u + 4.5 * hx[q] * hx[q] * u * u - 1.5 * u * u));
        for (int x = 0; x < nx; x++)
            for (int q = 0; q < Q; q++) f[((size_t)y * nx + x) * Q + q] = feq[q] * (1.0f + 0.01f * ((x * 7 + y * 3) % 11) / 11);
    }

    float *a, *b;
    CUDA_CHECK(cudaMalloc(&a, n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b, n * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(a, f.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    for (int s = 0; s < steps; s++) {
        lbm_step<<<dim3((nx + kTileX - 1) / kTileX, (ny + kTileY - 1) / kTileY), 32 * kWarps>>>(a, b, nx, ny, omega);
        CUDA_CHECK(cudaGetLastError());
        std::swap(a, b);
    }
    CUDA_CHECK(cudaMemcpy(f.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(before.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost));

    // the last step again, for some cells
    double worst = 0;
    for (size_t cell = 0; cell < (size_t)nx * ny; cell += (size_t)nx * ny > 100000 ? 53 : 1) {
        int x = (int)(cell % nx), y = (int)(cell / nx);
        double fi[Q], rho = 0, ux = 0, uy = 0;
        for (int q = 0; q < Q; q++) {
            int xs = (x - hx[q] + nx) % nx, ys = (y - hy[q] + ny) % ny;
            fi[q] = before[((size_t)ys * nx + xs) * Q + q];
            rho += fi[q];
            ux += hx[q] * fi[q];
            uy += hy[q] * fi[q];
        }
        ux /= rho;
        uy /= rho;
        for (int q = 0; q < Q; q++) {
            double cu = 3 * (hx[q] * ux + hy[q] * uy);
            double feq = weight[q] * rho * (1 + cu + 0.5 * cu * cu - 1.5 * (ux * ux + uy * uy));
            worst = std::fmax(worst, std::fabs(fi[q] + omega * (feq - fi[q]) - f[cell * Q + q]));
        }
    }
    cudaFree(a);
    cudaFree(b);
    printf("%s\n", worst < 1e-6 ? "ok" : "wrong");
    return worst < 1e-6 ? 0 : 1;
}
