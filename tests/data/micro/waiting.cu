// Loops that wait for their own results, for tiles, and at barriers, and ones that do not.
#include <cuda_pipeline.h>

__constant__ float kernel_taps[4096];

__global__ void one_chain(float *__restrict__ out, const float *__restrict__ in, int terms)
{
    int i = blockIdx.x * 128 + threadIdx.x;
    float x = in[i], sum = 0.0f;
    for (int k = 0; k < terms; ++k) sum = sum * x + kernel_taps[k];  // expect: low-ilp
    out[i] = sum;
}

__global__ void one_chain_many_warps(float *__restrict__ out, const float *__restrict__ in, int terms)
{
    int i = blockIdx.x * 128 + threadIdx.x;
    float x = in[i], sum = 0.0f;
    for (int k = 0; k < terms; ++k) sum = sum * x + kernel_taps[k];
    out[i] = sum;
}

__global__ void __launch_bounds__(256) wait_for_tile(float *__restrict__ out, const float *__restrict__ in, int tiles)
{
    extern __shared__ float tile[];
    float sum = 0.0f;
    const float *part = in + size_t(blockIdx.x) * tiles * 256;
    for (int t = 0; t < tiles; ++t) {
        tile[threadIdx.x] = part[t * 256 + threadIdx.x];  // expect: unoverlapped-copy
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 64; ++k) sum += tile[threadIdx.x + k] * (k + 1);  // expect: small-register-tile
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

__global__ void __launch_bounds__(256) tile_ahead(float *__restrict__ out, const float *__restrict__ in, int tiles)
{
    extern __shared__ float tile[];
    float sum = 0.0f;
    const float *part = in + size_t(blockIdx.x) * tiles * 256;
    __pipeline_memcpy_async(&tile[threadIdx.x], &part[threadIdx.x], 4);
    __pipeline_commit();
    for (int t = 0; t < tiles; ++t) {
        const int now = t % 2 * 320, next = 320 - now;
        if (t + 1 < tiles) __pipeline_memcpy_async(&tile[next + threadIdx.x], &part[(t + 1) * 256 + threadIdx.x], 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 64; ++k) sum += tile[now + threadIdx.x + k] * (k + 1);  // expect: small-register-tile
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

__global__ void __launch_bounds__(256) register_ahead(float *__restrict__ out, const float *__restrict__ in, int tiles)
{
    extern __shared__ float tile[];
    const float *part = in + size_t(blockIdx.x) * tiles * 256;
    float sum = 0.0f, next = part[threadIdx.x];
    for (int t = 0; t < tiles; ++t) {
        tile[threadIdx.x] = next;
        __syncthreads();
        if (t + 1 < tiles) next = part[(t + 1) * 256 + threadIdx.x];
#pragma unroll
        for (int k = 0; k < 64; ++k) sum += tile[threadIdx.x + k] * (k + 1);  // expect: small-register-tile
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

__global__ void __launch_bounds__(512) scan_in_steps(float *__restrict__ out, const float *__restrict__ in)
{
    __shared__ float sum[512];
    sum[threadIdx.x] = in[blockIdx.x * 512 + threadIdx.x];
    __syncthreads();
    for (int reach = 1; reach < 512; reach *= 2) {
        float before = threadIdx.x >= reach ? sum[threadIdx.x - reach] : 0.0f;
        __syncthreads();  // expect: barrier-heavy
        sum[threadIdx.x] += before;
        __syncthreads();
    }
    out[blockIdx.x * 512 + threadIdx.x] = sum[threadIdx.x];
}

__global__ void __launch_bounds__(512) scan_by_shuffles(float *__restrict__ out, const float *__restrict__ in)
{
    __shared__ float total[16];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = in[blockIdx.x * 512 + threadIdx.x];
    for (int reach = 1; reach < 32; reach *= 2) {
        float before = __shfl_up_sync(~0u, sum, reach);
        if (lane >= reach) sum += before;
    }
    if (lane == 31) total[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; ++w) sum += total[w];
    out[blockIdx.x * 512 + threadIdx.x] = sum;
}

__global__ void __launch_bounds__(256) tree_in_steps(float *__restrict__ out, const float *__restrict__ in)
{
    __shared__ float sum[256];
    const int t = threadIdx.x;
    sum[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) sum[t] += sum[t + s];
        __syncthreads();  // expect: barrier-heavy
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

// Two rounds: a warp's own steps need no barrier.
__global__ void __launch_bounds__(256) tree_down_to_a_warp(float *__restrict__ out, const float *__restrict__ in)
{
    __shared__ float sum[256];
    const int t = threadIdx.x;
    sum[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int s = blockDim.x / 2; s > 32; s >>= 1) {
        if (t < s) sum[t] += sum[t + s];
        __syncthreads();
    }
    if (t >= 32) return;
    float v = sum[t] + sum[t + 32];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (t == 0) out[blockIdx.x] = v;
}

void run(float *out, const float *in, int n)
{
    one_chain<<<264, 128>>>(out, in, n);
    one_chain_many_warps<<<132 * 16, 128>>>(out, in, n);
    wait_for_tile<<<132, 256, 320 * 4>>>(out, in, n);
    tile_ahead<<<132, 256, 640 * 4>>>(out, in, n);
    register_ahead<<<132, 256, 320 * 4>>>(out, in, n);
    scan_in_steps<<<4096, 512>>>(out, in);
    tree_in_steps<<<65536, 256>>>(out, in);
    tree_down_to_a_warp<<<65536, 256>>>(out, in);
    scan_by_shuffles<<<4096, 512>>>(out, in);
}

// Waits for atomics in device memory are waits for memory: no second chain hides them.
__global__ void insert(unsigned *table, unsigned mask, unsigned rows)
{
    unsigned r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    unsigned slot = (r * 2654435761u >> 7) & mask;
    while (atomicCAS(&table[slot], 0xffffffffu, r) != 0xffffffffu) slot = (slot + 1) & mask;  // expect: updates-by-data
}

void launch_insert(unsigned *table, unsigned mask) { insert<<<80000, 256>>>(table, mask, 20480000); }
