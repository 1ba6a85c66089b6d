// SPDX-License-Identifier: Apache-2.0
// Atomics on places of global memory that differ by lane: many a thread bind a kernel, one or two hardly do.

/// Adds a weight to one corner's features.
__device__ void spread(float *grid, const int *links, int corner, float weight)
{
    int at = links[corner];
    if (at < 0) return;
    atomicAdd(&grid[2 * at], weight);  // expect: scattered-atomics
    atomicAdd(&grid[2 * at + 1], weight * weight);
}

__global__ void splat(float *grid, const int *links, int steps)
{
    int ray = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < steps; ++s) spread(grid, links, ray * 31 + s, 0.5f * s);  // expect: per-thread-chunks
}

/// Double sums of a node, by every edge that ends there.
__global__ void assemble(double *nodes, const int *target, const double *edges, int count)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    double *node = nodes + 6 * target[e];
    double w = edges[e];
#pragma unroll
    for (int k = 0; k < 6; ++k) atomicAdd(node + k, w * k);  // expect: scattered-atomics
}

/// One for each thread: that data choose where, no more.
__global__ void degrees(int *degree, const int *target, int count)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < count) atomicAdd(&degree[target[e]], 1);  // expect: updates-by-data
}

/// A warp's sum, added by its first lane: nothing is said.
__global__ void rows(float *out, const float *x, const int *row, int steps)
{
    for (int s = 0; s < steps; ++s) {
        float v = x[(blockIdx.x * steps + s) * blockDim.x + threadIdx.x];  // hint: unoverlapped-copy
        for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
        if (threadIdx.x % 32 == 0) atomicAdd(&out[row[s]], v);
    }
}

/// Updates beside much more arithmetic than they cost: nothing is said.
__global__ void heavy(float *out, const int *target, const float *x, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int s = 0; s < steps; ++s) {
        for (int k = 0; k < 64; ++k) v = v * 1.0001f + 0.5f;
        for (int k = 0; k < 64; ++k) v = sqrtf(v) + 0.5f;
        atomicAdd(&out[target[i] + s], v);
    }
}

/// A sum of doubles by compare-and-swap, where the card has an atomic of its own.
__device__ void add_by_swaps(double *place, double x)
{
    unsigned long long *bits = reinterpret_cast<unsigned long long *>(place), seen = *bits, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(bits, assumed, __double_as_longlong(x + __longlong_as_double(assumed)));  // expect: scattered-atomics
    } while (assumed != seen);
}

__global__ void deposits(double *charge, const int *cell, const double *x, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) add_by_swaps(&charge[cell[i]], x[i]);
}

/// Updates in a loop behind a test of data: who passes it does them all.
__global__ void splat_inside(float *features, const int *cell, const float *weight, int count, int channels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int c = cell[i];
    if (c < 0) return;
    float w = weight[i];
    if (w > 0.0f) {
        for (int k = 0; k < channels; ++k) atomicAdd(&features[c * channels + k], w);  // expect: scattered-atomics
    }
}
