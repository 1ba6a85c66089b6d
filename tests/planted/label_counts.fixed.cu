// Mean intensity of each of four tissue classes of a labelled volume, one partial sum a block.
#include <cmath>
#include <cstdio>
#include <vector>

enum { TISSUES = 4 };

// class: memory
__global__ void tissue_sums(const float *__restrict__ volume, const int *__restrict__ label, float *__restrict__ sums,
                            int voxels)
{
    __shared__ float bucket[8][TISSUES];
    float mine[TISSUES] = {};
    for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < voxels; v += gridDim.x * blockDim.x) {
        int l = label[v];
        float x = volume[v];
#pragma unroll
        for (int t = 0; t < TISSUES; ++t) mine[t] += l == t ? x : 0.0f;
    }
#pragma unroll
    for (int t = 0; t < TISSUES; ++t) {
        for (int d = 16; d > 0; d >>= 1) mine[t] += __shfl_down_sync(0xffffffffu, mine[t], d);
        if (threadIdx.x % 32 == 0) bucket[threadIdx.x / 32][t] = mine[t];
    }
    __syncthreads();
    if (threadIdx.x < TISSUES) {
        float total = 0.0f;
        for (int w = 0; w < 8; ++w) total += bucket[w][threadIdx.x];
        sums[blockIdx.x * TISSUES + threadIdx.x] = total;
    }
}

int main()
{
    const int voxels = 1 << 26, blocks = 1056;
    std::vector<float> volume(voxels), sums(blocks * TISSUES);
    std::vector<int> label(voxels);
    double want[TISSUES] = {};
    for (int v = 0; v < voxels; ++v) {
        volume[v] = float(v % 16) * 0.0625f;
        label[v] = (v >> 3) % TISSUES;
        want[label[v]] += volume[v];
    }
    float *d_volume, *d_sums;
    int *d_label;
    cudaMalloc(&d_volume, voxels * sizeof(float));
    cudaMalloc(&d_label, voxels * sizeof(int));
    cudaMalloc(&d_sums, sums.size() * sizeof(float));
    cudaMemcpy(d_volume, volume.data(), voxels * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_label, label.data(), voxels * sizeof(int), cudaMemcpyHostToDevice);
    for (int i = 0; i < 2; ++i) tissue_sums<<<blocks, 256>>>(d_volume, d_label, d_sums, voxels);
    cudaMemcpy(sums.data(), d_sums, sums.size() * sizeof(float), cudaMemcpyDeviceToHost);
    for (int t = 0; t < TISSUES; ++t) {
        double got = 0;
        for (int b = 0; b < blocks; ++b) got += sums[b * TISSUES + t];
        if (std::fabs(got - want[t]) > 1e-3 * want[t]) return printf("tissue %d: %f %f\n", t, got, want[t]), 1;
    }
    puts("ok");
}
