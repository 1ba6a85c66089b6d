// SPDX-License-Identifier: Apache-2.0
// Particle in cell: the charge of particles, which are sorted by cell, spread over the four nodes around each of them.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_TRY(x)                                                                    \
    do {                                                                               \
        cudaError_t err_ = (x);                                                        \
        if (err_ != cudaSuccess) {                                                     \
            printf("CUDA failure, line %d: %s\n", __LINE__, cudaGetErrorString(err_)); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

constexpr int kThreads = 256;
constexpr int kEach = 4;  // particles of a thread, one after the other

// what a run of particles in one cell gives to the four nodes
struct Run {
    int cell;
    float q00, q10, q01, q11;
};

__device__ __forceinline__ void give(float* density, const Run& run, int size) {
    const int i = run.cell % size, j = run.cell / size;
    const int i1 = i + 1 == size ? 0 : i + 1, j1 = j + 1 == size ? 0 : j + 1;
    atomicAdd(&density[j * size + i], run.q00);
    atomicAdd(&density[j * size + i1], run.q10);
    atomicAdd(&density[j1 * size + i], run.q01);
    atomicAdd(&density[j1 * size + i1], run.q11);
}

__device__ __forceinline__ void add(float* density, Run& run, float x, float y, float q, int size) {
    const float fi = floorf(x), fj = floorf(y);
    const int cell = (int)fj * size + (int)fi;
    if (cell != run.cell) {
        if (run.cell >= 0) give(density, run, size);
        run = {cell, 0, 0, 0, 0};
    }
    const float fx = x - fi, fy = y - fj, qx = q * fx, q1 = q - qx;
    const float q11 = qx * fy, q01 = q1 * fy;
    run.q11 += q11;
    run.q10 += qx - q11;
    run.q01 += q01;
    run.q00 += q1 - q01;
}

// The grid is periodic, size nodes in each direction; positions are in units of a cell. Neighbours in the list are mostly
// of the same cell: a thread sums its own, the warp sums the runs that go over several threads, and only ends are added.
__global__ void __launch_bounds__(kThreads)
    deposit(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ charge,
            float* __restrict__ density, int count, int size) {
    const int thread = blockIdx.x * kThreads + threadIdx.x, lane = threadIdx.x % 32;
    const int p = kEach * thread;
    Run run = {-1, 0, 0, 0, 0};
    if (p + kEach <= count) {
        const float4 xs = __ldcs((const float4*)x + thread), ys = __ldcs((const float4*)y + thread);
        const float4 qs = __ldcs((const float4*)charge + thread);
        add(density, run, xs.x, ys.x, qs.x, size);
        add(density, run, xs.y, ys.y, qs.y, size);
        add(density, run, xs.z, ys.z, qs.z, size);
        add(density, run, xs.w, ys.w, qs.w, size);
    } else {
        for (int k = p; k < count; k++) add(density, run, x[k], y[k], charge[k], size);
    }

    const int before = __shfl_up_sync(0xffffffffu, run.cell, 1);
    const bool head = lane == 0 || before != run.cell;
    const unsigned heads = __ballot_sync(0xffffffffu, head);
    const unsigned later = lane == 31 ? 0 : heads >> (lane + 1);
    const int last = later ? lane + __ffs(later) - 1 : 31;  // lane where this run ends
#pragma unroll
    for (int over = 1; over < 32; over *= 2) {
        const float q00 = __shfl_down_sync(0xffffffffu, run.q00, over);
        const float q10 = __shfl_down_sync(0xffffffffu, run.q10, over);
        const float q01 = __shfl_down_sync(0xffffffffu, run.q01, over);
        const float q11 = __shfl_down_sync(0xffffffffu, run.q11, over);
        if (lane + over <= last) {
            run.q00 += q00;
            run.q10 += q10;
            run.q01 += q01;
            run.q11 += q11;
        }
    }
    if (head && run.cell >= 0) give(density, run, size);
}

__global__ void sum_density(const float* density, int nodes, double* total, double* squares) {
    __shared__ double t[256], s[256];
    double mine = 0, mine2 = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < nodes; i += gridDim.x * 256) {
        mine += density[i];
        mine2 += (double)density[i] * density[i];
    }
    t[threadIdx.x] = mine;
    s[threadIdx.x] = mine2;
    __syncthreads();
    for (int k = 128; k > 0; k /= 2) {
        if (threadIdx.x < k) {
            t[threadIdx.x] += t[threadIdx.x + k];
            s[threadIdx.x] += s[threadIdx.x + k];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        atomicAdd(total, t[0]);
        atomicAdd(squares, s[0]);
    }
}

int main(int argc, char** argv) {
    int size = argc > 1 ? atoi(argv[1]) : 512;
    int count = argc > 2 ? atoi(argv[2]) : 8000000;
    int steps = argc > 3 ? atoi(argv[3]) : 20;

    int nodes = size * size;
    std::vector<float> x(count), y(count), charge(count), density(nodes);
    unsigned state = 31337;
    auto uniform = [&state] {
        state = state * 1664525u + 1013904223u;
        return (state >> 8) / 16777216.0f;
    };
    for (int p = 0; p < count; p++) {
        int cell = (int)((long long)p * nodes / count);
        x[p] = cell % size + 0.998f * uniform();
        y[p] = cell / size + 0.998f * uniform();
        charge[p] = 0.5f + uniform();
    }

    float *d_x, *d_y, *d_charge, *d_density;
    double* d_sums;
    CUDA_TRY(cudaMalloc(&d_x, count * sizeof(float)));
    CUDA_TRY(cudaMalloc(&d_y, count * sizeof(float)));
    CUDA_TRY(cudaMalloc(&d_charge, count * sizeof(float)));
    CUDA_TRY(cudaMalloc(&d_density, nodes * sizeof(float)));
    CUDA_TRY(cudaMalloc(&d_sums, 2 * sizeof(double)));
    CUDA_TRY(cudaMemcpy(d_x, x.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_TRY(cudaMemcpy(d_y, y.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_TRY(cudaMemcpy(d_charge, charge.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_TRY(cudaMemset(d_sums, 0, 2 * sizeof(double)));

    cudaEvent_t start, stop;
    CUDA_TRY(cudaEventCreate(&start));
    CUDA_TRY(cudaEventCreate(&stop));
    CUDA_TRY(cudaEventRecord(start));
    for (int step = 0; step < steps; step++) {
        CUDA_TRY(cudaMemsetAsync(d_density, 0, nodes * sizeof(float)));
        const int each = kThreads * kEach;
        deposit<<<(count + each - 1) / each, kThreads>>>(d_x, d_y, d_charge, d_density, count, size);
        CUDA_TRY(cudaGetLastError());
    }
    CUDA_TRY(cudaEventRecord(stop));
    sum_density<<<128, 256>>>(d_density, nodes, d_sums, d_sums + 1);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaDeviceSynchronize());
    float ms;
    CUDA_TRY(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "deposit: %f ms\n", ms / steps);

    double sums[2];
    CUDA_TRY(cudaMemcpy(density.data(), d_density, nodes * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_TRY(cudaMemcpy(sums, d_sums, sizeof sums, cudaMemcpyDeviceToHost));

    std::vector<double> expected(nodes, 0.0);
    for (int p = 0; p < count; p++) {
        int i = (int)x[p], j = (int)y[p], i1 = (i + 1) % size, j1 = (j + 1) % size;
        double fx = x[p] - i, fy = y[p] - j;
        expected[(size_t)j * size + i] += charge[p] * (1 - fx) * (1 - fy);
        expected[(size_t)j * size + i1] += charge[p] * fx * (1 - fy);
        expected[(size_t)j1 * size + i] += charge[p] * (1 - fx) * fy;
        expected[(size_t)j1 * size + i1] += charge[p] * fx * fy;
    }
    double worst = 0;
    for (int k = 0; k < nodes; k++) worst = std::fmax(worst, std::fabs(density[k] - expected[k]) / (1 + expected[k]));
    CUDA_TRY(cudaFree(d_x));
    CUDA_TRY(cudaFree(d_y));
    CUDA_TRY(cudaFree(d_charge));
    CUDA_TRY(cudaFree(d_density));
    CUDA_TRY(cudaFree(d_sums));
    printf("charge of a node: mean %.5f, variance %.5f\n", sums[0] / nodes,
           sums[1] / nodes - (sums[0] / nodes) * (sums[0] / nodes));
    printf("%s\n", worst < 1e-4 ? "ok" : "not ok");
    return worst < 1e-4 ? 0 : 1;
}
