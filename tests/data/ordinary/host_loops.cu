// Loops of host code around short kernels: waits that must stay, work of the host's own, copies of a few bytes.
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

constexpr int kCells = 4096, kSteps = 500;

__global__ void spread(float *next, const float *now, int *changed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float left = now[i > 0 ? i - 1 : 0], mine = now[i];
    if (left > mine) *changed = 1;
    next[i] = left > mine ? left : mine;
}

__global__ void settle(float *next, const float *now)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    next[i] = 0.5f * now[i];
}

__global__ void weigh(float *weights, const float *seen, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < count; ++k) sum += seen[k];
    weights[i] = sum;
}

void draw(const std::vector<float> &picture);

void run(float *now, float *next, int *d_changed, float *weights, float *d_seen, const std::vector<float> *seen)
{
    // The result is needed: without the wait before it, the copy waits.
    for (int step = 0; step < kSteps; ++step) {
        int changed = 0;
        spread<<<kCells / 256, 256>>>(next, now, d_changed);
        cudaDeviceSynchronize();
        cudaMemcpy(&changed, d_changed, sizeof changed, cudaMemcpyDeviceToHost);  // told: host-sync-in-loop warning
        if (!changed) break;
    }
    // What is drawn takes as long as nobody knows.
    std::vector<float> picture(kCells);
    for (int step = 0; step < kSteps; ++step) {
        settle<<<kCells / 256, 256>>>(next, now);
        cudaDeviceSynchronize();  // told: host-sync-in-loop information
        draw(picture);
    }
    for (int step = 0; step < kSteps; ++step) {
        int count = int(seen[step].size());
        cudaMemcpy(d_seen, seen[step].data(), count * sizeof(float),
                   cudaMemcpyHostToDevice);
        weigh<<<kCells / 256, 256>>>(weights, d_seen, count);
    }
}
