// SPDX-License-Identifier: Apache-2.0
// Neighbouring lanes at neighbouring words: through an array in a record, from a start that a warp loads together, and in
// a block of which only the first extent is known. A thread alone shares with nobody.

#include <cuda_runtime.h>

struct Plane {
    float cells[1 << 20];
};

__global__ void over_planes(const Plane *__restrict__ planes, float *__restrict__ sums, int n)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += planes[i].cells[at];
    sums[at] = sum;
}

__global__ void own_plane(const Plane *__restrict__ planes, float *__restrict__ sums, int n)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    sums[at] = planes[at].cells[n];  // expect: uncoalesced-global-read
}

__global__ void warp_per_row(const int *__restrict__ first, const float *__restrict__ values, float *y, int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int j = first[row] + lane; j < first[row + 1]; j += 32) sum += values[j];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (lane == 0) y[row] = sum;
}

__global__ void alone(const float *a, const float *x, float *y, int n)
{
    for (int i = 0; i < n; ++i) {
        float sum = 0.0f;
        for (int j = 0; j < n; ++j) sum += a[i * n + j] * x[j];  // expect: elements-read-again
        y[i] = sum;
    }
}

#ifdef DOUBLE_PRECISION
typedef double real;
#else
typedef float real;
#endif

// Without C++ linkage the compiled name lists no types.
extern "C" __global__ void pairs_within(const real *x, const real *y, int *pairs, int n, real reach)
{
    const int one = blockIdx.x * blockDim.x + threadIdx.x;
    if (one >= n) return;
    const real own_x = x[one], own_y = y[one];
    for (int other = one + 1; other < n; ++other) {  // expect: all-pairs
        const real dx = x[other] - own_x;  // hint: aliasing-reload
        const real dy = y[other] - own_y;
        if (dx * dx + dy * dy < reach) pairs[atomicAdd(&pairs[other], 1)] = other; // expect: misaligned-access, expect: indirect-access
    }
}

__global__ void total_of_blocks(const double *partial, double *total, int blocks)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        double sum = 0.0;
        for (int b = 0; b < blocks; ++b) sum += partial[b];
        *total = sum;
    }
}

void more(const real *x, int *pairs, const double *partial, double *total, int n)
{
    pairs_within<<<(n - 1) / 128 + 1, 128>>>(x, x + n, pairs, n, 2);
    total_of_blocks<<<(n - 1) / 256 + 1, 256>>>(partial, total, n);
}

void launches(const Plane *planes, const int *first, const float *a, float *b, int n)
{
    over_planes<<<4096, 256>>>(planes, b, 4096);
    own_plane<<<4096, 256>>>(planes, b, n);
    warp_per_row<<<4096, 256>>>(first, a, b, n);
    alone<<<1, 1>>>(a, a, b, n);  // expect: grid-too-small
}
