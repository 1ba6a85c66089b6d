// Iterates a quadratic map for every point of a strip and counts the steps it stays bounded.
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kThreads = 1024, kBlocks = 140, kPoints = kBlocks * kThreads;

// class: compute
__global__ void bounded_steps(const float2 *__restrict__ start, float *__restrict__ radius, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 c = start[i];
    float x = 0.0f, y = 0.0f;
    for (int s = 0; s < steps; ++s) {
        float next = x * x - y * y + c.x;
        y = 2.0f * x * y + c.y;
        x = next;
    }
    radius[i] = x * x + y * y;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 20000;
    std::vector<float2> points(kPoints);
    for (int i = 0; i < kPoints; ++i) points[i] = make_float2(0.2f * i / kPoints, 0.1f - 0.2f * (i % 71) / 71);
    float2 *start;
    float *radius;
    cudaMalloc(&start, kPoints * sizeof(float2));
    cudaMalloc(&radius, kPoints * sizeof(float));
    cudaMemcpy(start, points.data(), kPoints * sizeof(float2), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat)
        bounded_steps<<<kBlocks, kThreads>>>(start, radius, steps);  // expect: wave-quantization
    std::vector<float> got(kPoints);
    cudaMemcpy(got.data(), radius, kPoints * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kPoints; i += 997)
        if (!(got[i] <= 4.0f)) return printf("point %d: %f\n", i, got[i]), 1;
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
