// SPDX-License-Identifier: Apache-2.0
// How many threads and blocks there are for the work, as launches tell it or a kernel's own text, and twins that are as
// they should be.
#include <cuda_runtime.h>

struct Corner { int x, y, z; };

// Nothing here launches it, and it asks for no block's number.
__global__ void spectra(double *__restrict__ sums, const double *__restrict__ flux, int bands, int points, int layers)  // expect: grid-too-small
{
    for (int i = threadIdx.y; i < layers; i += blockDim.y)
        for (int b = threadIdx.x; b < bands; b += blockDim.x) {
            double sum = 0.0;
            for (int p = 0; p < points; ++p) sum += flux[(i * points + p) * bands + b];
            sums[i * bands + b] = sum;
        }
}

// The same with a layer for each block.
__global__ void spectra_of_layers(double *__restrict__ sums, const double *__restrict__ flux, int bands, int points)
{
    for (int b = threadIdx.x; b < bands; b += blockDim.x) {
        double sum = 0.0;
        for (int p = 0; p < points; ++p) sum += flux[(blockIdx.x * points + p) * bands + b];
        sums[blockIdx.x * bands + b] = sum;
    }
}

// A last stage: one loop over the parts.
__global__ void parts_together(float *__restrict__ out, const float *__restrict__ parts, int n)
{
    float most = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, parts[i]);  // hint: one-load-in-flight
    out[threadIdx.x] = most;
}

// One of the block's threads goes over what all have stored, 16 by 8 of it.
__global__ void block_sums(float *__restrict__ out, const float *__restrict__ in, int width)
{
    __shared__ float held[8][16];
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
    held[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        float sum = 0.0f;
        for (int i = 0; i < blockDim.y; ++i)  // expect: lone-thread-loop
            for (int j = 0; j < blockDim.x; ++j) sum += held[i][j];
        out[blockIdx.y * gridDim.x + blockIdx.x] = sum;
    }
}

// Corners that every thread moves, with parentheses around the place and without.
__global__ void box_of(const float3 *__restrict__ points, int n, float size, Corner *low, Corner *high)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = static_cast<int>(floorf(points[i].x * size));
    atomicMin(&(low->x), x);  // expect: global-atomic-contention
    atomicMax(&high->x, x);
}

// Half of each warp has no thread.
__global__ void small_blocks(float *__restrict__ out, const float *__restrict__ in, int first, int width, int reach)
{
    int i = first + blockIdx.x * blockDim.x + threadIdx.x;
    float least = in[i];
    for (int k = 1; k < reach; ++k) least = fminf(least, in[i + k * width]);
    out[i] = least;
}

// One thread that clears a flag loads nothing that a larger block could wait for together.
__global__ void cleared(unsigned *flag) { *flag = 0u; }

// So few small blocks leave slots of an SM empty whatever their size, and straight code has no chain to split.
__global__ void scaled(float *__restrict__ out, const float *__restrict__ in, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sinf(in[i] * by) / by;
}

// A part of its own for the one thread of each block.
__global__ void each_alone(float *__restrict__ out, const float *__restrict__ in, int n)
{
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum = sum * 0.5f + in[blockIdx.x * n + k];
    out[blockIdx.x] = sum;
}

void run(float *out, const float *in, const float3 *points, Corner *low, Corner *high, unsigned *flag, int n)
{
    cleared<<<1, 1>>>(flag);
    scaled<<<300, 16>>>(out, in, 2.0f, n);  // expect: partial-warps
    each_alone<<<n, 1>>>(out, in, n);  // expect: partial-warps, hint: grid-too-small
    block_sums<<<dim3(n / 16, n / 8), dim3(16, 8)>>>(out, in, n);
    box_of<<<n / 256, 256>>>(points, n, 0.5f, low, high);
    for (int first = 0; first < n; first += 16384) small_blocks<<<1024, 16>>>(out, in, first, 640, n);  // expect: partial-warps
}
