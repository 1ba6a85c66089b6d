// Integrates independent oscillators and keeps their final positions.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kOscillators = 1 << 18;

// class: latency
__global__ void integrate(const float *__restrict__ stiffness, float *__restrict__ position, int steps, float dt)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kOscillators; i += stride) {
        float k = stiffness[i], x = 1.0f, v = 0.0f;
        for (int s = 0; s < steps; ++s) {
            v -= k * x * dt;
            x += v * dt;
        }
        position[i] = x;
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 2000;
    const float dt = 1e-3f;
    std::vector<float> host(kOscillators), got(kOscillators);
    for (int i = 0; i < kOscillators; ++i) host[i] = 1.0f + 1e-4f * i;
    float *stiffness, *position;
    cudaMalloc(&stiffness, kOscillators * sizeof(float));
    cudaMalloc(&position, kOscillators * sizeof(float));
    cudaMemcpy(stiffness, host.data(), kOscillators * sizeof(float), cudaMemcpyHostToDevice);
    integrate<<<32, 256>>>(stiffness, position, steps, dt);  // expect: grid-too-small
    cudaMemcpy(got.data(), position, kOscillators * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kOscillators; i += 997) {
        float x = 1.0f, v = 0.0f;
        for (int s = 0; s < steps; ++s) {
            v -= host[i] * x * dt;
            x += v * dt;
        }
        if (fabsf(got[i] - x) > 1e-2f) return printf("oscillator %d: %f, not %f\n", i, got[i], x), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
