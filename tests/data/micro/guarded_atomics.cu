// SPDX-License-Identifier: Apache-2.0
// Atomics on one place: of every thread, of single threads that are chosen in many ways, and of those that data chooses.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void every(const float *v, float *total, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, v[i]); // expect: global-atomic-contention
}

__global__ void tile_leader(const int *v, int *total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
    int sum = cg::reduce(warp, v[i], cg::plus<int>());
    if (warp.thread_rank() == 0) atomicAdd(total, sum);
}

__global__ void last_thread(const float *v, float *total)
{
    unsigned t(threadIdx.x);
    float mine = v[blockIdx.x * 256 + t];
    if (t == 255 && mine != 0.0f) atomicAdd(total, mine);
}

__global__ void the_others_left(const float *v, float *total)
{
    float mine = v[blockIdx.x * blockDim.x + threadIdx.x];
    if (threadIdx.x != 0) return;
    atomicAdd(total, mine);
}

__global__ void best(const int *v, int *most, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && v[i] > *most) atomicMax(most, v[i]);
}

__global__ void errors(const float *v, float *total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (v[i] != 7.0f) atomicAdd(total, 1.0f); // expect: global-atomic-contention
}

void launches(const float *v, const int *w, float *total, int *most, int n)
{
    every<<<65536, 256>>>(v, total, 1 << 24);
    tile_leader<<<65536, 256>>>(w, most);
    last_thread<<<65536, 256>>>(v, total);
    the_others_left<<<65536, 256>>>(v, total);
    best<<<65536, 256>>>(w, most, 1 << 24);
    errors<<<65536, 256>>>(v, total);
}
