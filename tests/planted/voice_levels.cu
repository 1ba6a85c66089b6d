// Levels of a mix of voices over time: each voice fades by decibels, the sum is kept.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kMoments = 1 << 20;

// class: compute
__global__ void mix(float *level, const float *loudness, const float *fade, int voices)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kMoments) return;
    float decibels = loudness[i], sum = 0.0f;
    for (int v = 0; v < voices; ++v)
        sum += powf(10.0f, 0.05f * (decibels - fade[v]));  // expect: constant-base
    level[i] = sum;
}

int main(int argc, char **argv)
{
    int voices = argc > 1 ? atoi(argv[1]) : 64;
    std::vector<float> loudness(kMoments), fade(voices), got(kMoments);
    for (int i = 0; i < kMoments; ++i) loudness[i] = -0.00005f * (i % 400000);
    for (int v = 0; v < voices; ++v) fade[v] = 0.25f * v;
    float *from, *steps, *to;
    cudaMalloc(&from, kMoments * sizeof(float));
    cudaMalloc(&steps, voices * sizeof(float));
    cudaMalloc(&to, kMoments * sizeof(float));
    cudaMemcpy(from, loudness.data(), kMoments * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(steps, fade.data(), voices * sizeof(float), cudaMemcpyHostToDevice);
    mix<<<(kMoments + 255) / 256, 256>>>(to, from, steps, voices);
    cudaMemcpy(got.data(), to, kMoments * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kMoments; i += 997) {
        double sum = 0.0;
        for (int v = 0; v < voices; ++v) sum += std::pow(10.0, 0.05 * (loudness[i] - fade[v]));
        if (std::fabs(got[i] - sum) > 1e-4 * sum) return printf("moment %d: %f, not %f\n", i, got[i], sum), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
