// SPDX-License-Identifier: Apache-2.0
// Kernels in which a thread has an element or two.

__device__ float warp_sum(float v)
{
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

__device__ float block_sum(float v)
{
    __shared__ float part[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    v = warp_sum(v);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? part[lane] : 0.f;
    return warp_sum(v);
}

// One element of a row, and four barriers.
__global__ void normalise(float *out, const float *in, const float *scale, int n)
{
    __shared__ float mean, rest;
    float v = in[blockIdx.x * n + threadIdx.x]; // told: element-between-barriers information
    float s = block_sum(v);
    if (threadIdx.x == 0) mean = s / n;
    __syncthreads();
    float d = v - mean;
    s = block_sum(d * d);
    if (threadIdx.x == 0) rest = rsqrtf(s / n + 1e-6f);
    __syncthreads();
    out[blockIdx.x * n + threadIdx.x] = d * rest * scale[threadIdx.x];
}

// A warp for each row: no barrier.
__global__ void normalise_by_warp(float *out, const float *in, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float v = in[row * n + lane];
    float mean = warp_sum(v) / 32, d = v - mean;
    out[row * n + lane] = d * rsqrtf(warp_sum(d * d) / 32 + 1e-6f);
}

// A byte for each float.
__global__ void mask(unsigned char *out, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] > 0.5f; // told: scalar-access information
}

// A tree that leaves its last steps to a warp, for two elements of each thread.
__global__ void sum_pairs(const float *a, float *sums)
{
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 512 + t;
    part[t] = a[i] + a[i + 256]; // told: element-between-barriers information
    __syncthreads();
    for (int d = 128; d > 32; d >>= 1) {
        if (t < d) part[t] += part[t + d];
        __syncthreads();
    }
    if (t < 32) {
        float v = warp_sum(part[t] + part[t + 32]);
        if (t == 0) sums[blockIdx.x] = v;
    }
}

// The same for as many elements as the grid leaves each thread.
__global__ void sum_many(const float *a, float *sums, int n)
{
    __shared__ float part[256];
    int t = threadIdx.x;
    float v = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += a[i];
    part[t] = v;
    __syncthreads();
    for (int d = 128; d > 32; d >>= 1) {
        if (t < d) part[t] += part[t + d];
        __syncthreads();
    }
    if (t < 32) {
        v = warp_sum(part[t] + part[t + 32]);
        if (t == 0) sums[blockIdx.x] = v;
    }
}
