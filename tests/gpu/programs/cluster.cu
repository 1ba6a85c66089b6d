// A cluster launch through cudaLaunchKernelEx, with distributed shared memory and a raised dynamic limit.
#include <cooperative_groups.h>
#include <cstdio>

__global__ void exchange(float* x) {
    extern __shared__ float mine[];
    auto cluster = cooperative_groups::this_cluster();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    mine[threadIdx.x] = x[i];
    cluster.sync();
    float* other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    x[i] = other[threadIdx.x] + 1.0f;
    cluster.sync();
}

int main() {
    const int n = 1 << 18;
    float* x;
    cudaMalloc(&x, n * 4);
    cudaMemset(x, 0, n * 4);
    const int shared = 64 * 1024;
    cudaFuncSetAttribute(exchange, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cudaLaunchConfig_t config = {};
    config.gridDim = n / 256;
    config.blockDim = 256;
    config.dynamicSmemBytes = shared;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (int i = 0; i < 3; ++i)
        if (cudaLaunchKernelEx(&config, exchange, x) != cudaSuccess) return 1;
    if (cudaDeviceSynchronize() != cudaSuccess) return 2;
    std::printf("cluster ok\n");
    return 0;
}
