// Total kinetic energy along one axis of a particle cloud.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>

struct Particle {
    float3 position;
    float3 velocity;
    float mass;
    float charge;
    int species;
    int cell;
    float pad[2];
};

// class: memory
__global__ void axial_energy(const float *__restrict__ velocity_z, float *__restrict__ energy, int count)
{
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < count) {
        float v = velocity_z[i];
        energy[i] = 0.5f * v * v;
    }
}

int main()
{
    constexpr int count = 16 << 20;
    std::vector<float> cloud(count);
    for (int i = 0; i < count; ++i) cloud[i] = float(i % 97) * 0.25f;
    float *device_cloud = nullptr;
    float *energy = nullptr;
    cudaMalloc(&device_cloud, sizeof(float) * count);
    cudaMalloc(&energy, sizeof(float) * count);
    cudaMemcpy(device_cloud, cloud.data(), sizeof(float) * count, cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) axial_energy<<<count / 256, 256>>>(device_cloud, energy, count);
    std::vector<float> result(count);
    cudaMemcpy(result.data(), energy, sizeof(float) * count, cudaMemcpyDeviceToHost);
    for (int i = 0; i < count; ++i) {
        float v = float(i % 97) * 0.25f;
        if (fabsf(result[i] - 0.5f * v * v) > 1e-4f) { printf("bad %d\n", i); return 1; }
    }
    printf("ok\n");
    return 0;
}
