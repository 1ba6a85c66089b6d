// Norm of a network's gradients: float4 loads, shuffles by cooperative groups, one atomic a block.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

template <int kThreads, int kUnroll>
// class: memory
__global__ void __launch_bounds__(kThreads) squared_norm(double *__restrict__ total, const float4 *__restrict__ grads,
                                                         size_t quads)
{
    __shared__ float parts[kThreads / 32];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    const size_t stride = size_t(gridDim.x) * kThreads;
    float sum = 0.0f;
    size_t i = size_t(blockIdx.x) * kThreads + threadIdx.x;
    for (; i + (kUnroll - 1) * stride < quads; i += kUnroll * stride) {
        float4 g[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) g[u] = grads[i + u * stride];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
            sum += (g[u].x * g[u].x + g[u].y * g[u].y) + (g[u].z * g[u].z + g[u].w * g[u].w);
    }
    for (; i < quads; i += stride) {
        const float4 g = grads[i];
        sum += (g.x * g.x + g.y * g.y) + (g.z * g.z + g.w * g.w);
    }
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = sum;
    block.sync();
    if (warp.meta_group_rank() == 0) {
        sum = warp.thread_rank() < kThreads / 32 ? parts[warp.thread_rank()] : 0.0f;
        sum = cg::reduce(warp, sum, cg::plus<float>());
        if (warp.thread_rank() == 0) atomicAdd(total, double(sum));
    }
}

int main()
{
    const size_t count = size_t(1) << 26;
    std::vector<float> grads(count);
    for (size_t i = 0; i < count; ++i) grads[i] = 1e-3f * (i % 17);
    float4 *d_grads;
    double *d_total, got = 0.0, want = 0.0;
    cudaMalloc(&d_grads, count * sizeof(float));
    cudaMalloc(&d_total, sizeof(double));
    cudaMemcpy(d_grads, grads.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat) {
        cudaMemsetAsync(d_total, 0, sizeof(double));
        squared_norm<512, 4><<<528, 512>>>(d_total, d_grads, count / 4);
    }
    cudaMemcpy(&got, d_total, sizeof(double), cudaMemcpyDeviceToHost);
    for (float g : grads) want += double(g) * g;
    if (fabs(got - want) > 1e-3 * want) return printf("%f, not %f\n", got, want), 1;
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
