// Explicit heat conduction along a short rod, many small time steps.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

constexpr int kCells = 1 << 20;

// class: launch
__global__ void conduct(const float *__restrict__ now, float *__restrict__ next, float ratio)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= 0 || i >= kCells - 1) return;
    next[i] = now[i] + ratio * (now[i - 1] - 2.0f * now[i] + now[i + 1]);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 4000;
    std::vector<float> rod(kCells, 0.0f), want, got(kCells);
    for (int i = 0; i < kCells; i += 100) rod[i] = 100.0f;
    float *now, *next;
    cudaMalloc(&now, kCells * sizeof(float));
    cudaMalloc(&next, kCells * sizeof(float));
    cudaMemcpy(now, rod.data(), kCells * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(next, now, kCells * sizeof(float), cudaMemcpyDeviceToDevice);
    for (int step = 0; step < steps; ++step) {
        conduct<<<kCells / 256, 256>>>(now, next, 0.2f);
        cudaDeviceSynchronize();  // expect: host-sync-in-loop
        std::swap(now, next);
    }
    cudaMemcpy(got.data(), now, kCells * sizeof(float), cudaMemcpyDeviceToHost);
    double heat = 0, kept = 0;
    for (int i = 0; i < kCells; ++i) heat += rod[i], kept += got[i];
    if (fabs(kept / heat - 1.0) > 0.1) return printf("heat %f, not %f\n", kept, heat), 1;
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
