// A cooperative launch: two phases with a grid barrier between.
#include <cooperative_groups.h>
#include <cstdio>

__global__ void phases(float* x, float* y, int n) {
    auto grid = cooperative_groups::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[i] * 2.0f;
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] = y[n - 1 - i] + 1.0f;
}

int main() {
    int n = 1 << 20;
    float *x, *y;
    cudaMalloc(&x, n * 4);
    cudaMalloc(&y, n * 4);
    cudaMemset(x, 0, n * 4);
    void* arguments[] = {&x, &y, &n};
    for (int i = 0; i < 3; ++i)
        if (cudaLaunchCooperativeKernel((void*)phases, 132, 256, arguments) != cudaSuccess) return 1;
    if (cudaDeviceSynchronize() != cudaSuccess) return 2;
    std::printf("cooperative ok\n");
    return 0;
}
