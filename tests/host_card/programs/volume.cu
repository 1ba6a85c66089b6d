// SPDX-License-Identifier: Apache-2.0
// A volume of three equal extents, which lie side by side in a structure: which of them a grid follows no number tells.
#include <cuda_runtime.h>

#include <cstdio>

struct Extents {
    int nx, ny, nz;
    float spacing;
};

__global__ void distance(float* out, Extents grid) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    const int k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= grid.nx || j >= grid.ny || k >= grid.nz) return;
    const float x = i * grid.spacing, y = j * grid.spacing, z = k * grid.spacing;
    out[(k * grid.ny + j) * grid.nx + i] = x * x + y * y + z * z;
}

int main() {
    const Extents grid = {24, 24, 24, 0.5f};
    static float host[24 * 24 * 24];
    float* out;
    cudaMalloc(&out, sizeof host);
    cudaMemset(out, 0, sizeof host);
    dim3 block(8, 8, 4);
    dim3 blocks((grid.nx + 7) / 8, (grid.ny + 7) / 8, (grid.nz + 3) / 4);
    distance<<<blocks, block>>>(out, grid);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%f\n", host[1000]);
}
