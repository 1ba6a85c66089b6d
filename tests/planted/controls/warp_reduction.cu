// Sum of a vector: float4 loads, shuffles, one atomic a block.
#include <cmath>
#include <cstdio>
#include <vector>

__device__ __forceinline__ float warp_sum(float v)
{
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
    return v;
}

// class: memory
__global__ void __launch_bounds__(512) sum(const float4 *__restrict__ data, float *__restrict__ total, int quads)
{
    __shared__ float warps[16];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
        float4 q = data[i];
        v += (q.x + q.y) + (q.z + q.w);
    }
    v = warp_sum(v);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) warps[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = warp_sum(lane < 16 ? warps[lane] : 0.f);
        if (lane == 0) atomicAdd(total, v);
    }
}

int main()
{
    int n = 128 << 20;
    std::vector<float> host(n);
    double want = 0;
    for (int i = 0; i < n; ++i) want += host[i] = (i % 3) * 0.5f;
    float *data, *total, got;
    cudaMalloc(&data, n * 4l);
    cudaMalloc(&total, 4);
    cudaMemset(total, 0, 4);
    cudaMemcpy(data, host.data(), n * 4l, cudaMemcpyHostToDevice);
    sum<<<132 * 4, 512>>>(reinterpret_cast<float4 *>(data), total, n / 4);
    cudaMemcpy(&got, total, 4, cudaMemcpyDeviceToHost);
    if (std::fabs(got / want - 1) > 1e-3) return puts("wrong"), 1;
    puts("ok");
}
