// A histogram spread over the shared memory of a cluster, then smoothed by a cooperative kernel, both captured.
#include <cooperative_groups.h>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

__global__ void count(const int *values, int n, int bins, int *histogram) {
    extern __shared__ int mine[];
    const cg::cluster_group cluster = cg::this_cluster();
    const int each = bins / cluster.num_blocks();
    for (int b = threadIdx.x; b < each; b += blockDim.x) mine[b] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(cluster.map_shared_rank(mine, values[i] / each) + values[i] % each, 1);
    cluster.sync();
    for (int b = threadIdx.x; b < each; b += blockDim.x) atomicAdd(histogram + cluster.block_rank() * each + b, mine[b]);
}

__global__ void spread(const int *histogram, float *curve, float *other, int bins, int rounds) {
    const cg::grid_group grid = cg::this_grid();
    for (int b = grid.thread_rank(); b < bins; b += grid.size()) curve[b] = histogram[b];
    for (int round = 0; round < rounds; ++round) {
        grid.sync();
        for (int b = grid.thread_rank(); b < bins; b += grid.size())
            other[b] = 0.5f * curve[b] + 0.25f * (curve[b ? b - 1 : 0] + curve[b < bins - 1 ? b + 1 : b]);
        float *swapped = curve;
        curve = other;
        other = swapped;
    }
}

int main() {
    const int n = 1 << 22;
    int bins = 1 << 14, rounds = 8, *values, *histogram;
    std::vector<int> host(n);
    for (int i = 0; i < n; ++i) host[i] = static_cast<int>((i * 2654435761u) >> 18);
    float *curve, *other;
    cudaMalloc(&values, n * sizeof(int));
    cudaMalloc(&histogram, bins * sizeof(int));
    cudaMalloc(&curve, bins * sizeof(float));
    cudaMalloc(&other, bins * sizeof(float));
    cudaMemcpy(values, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaLaunchConfig_t config = {};
    config.gridDim = 128;
    config.blockDim = 512;
    config.dynamicSmemBytes = bins / 4 * sizeof(int);
    config.stream = stream;
    cudaLaunchAttribute four_blocks;
    four_blocks.id = cudaLaunchAttributeClusterDimension;
    four_blocks.val.clusterDim.x = 4;
    four_blocks.val.clusterDim.y = four_blocks.val.clusterDim.z = 1;
    config.attrs = &four_blocks;
    config.numAttrs = 1;
    cudaGraph_t graph;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(histogram, 0, bins * sizeof(int), stream);
    if (cudaLaunchKernelEx(&config, count, static_cast<const int *>(values), n, bins, histogram) != cudaSuccess) return 4;
    void *arguments[] = {&histogram, &curve, &other, &bins, &rounds};
    cudaLaunchCooperativeKernel(reinterpret_cast<void *>(spread), dim3(64), dim3(256), arguments, 0, stream);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return 1;
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 2;
    for (int i = 0; i < 4; ++i) cudaGraphLaunch(runnable, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 3;
    float value;
    cudaMemcpy(&value, curve + 5, sizeof value, cudaMemcpyDeviceToHost);
    std::printf("%.3f\n", value);
    return 0;
}
