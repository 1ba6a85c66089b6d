// Three units linked as relocatable device code: the kernel calls a function of one and reads, and writes, variables
// of another.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bodies.h"

static __constant__ float time_step = 0.01f;

__global__ void advance(float4* position, float4* velocity, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 here = position[i];
    float3 pull = {0.0f, 0.0f, 0.0f};
    for (int k = 0; k < kAttractors; ++k) {
        const float soft = softening(here.w);
        const float dx = attractor[k].x - here.x, dy = attractor[k].y - here.y, dz = attractor[k].z - here.z;
        const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + soft);
        const float strength = attractor[k].w * inverse * inverse * inverse;
        pull.x += strength * dx, pull.y += strength * dy, pull.z += strength * dz;
    }
    float4 speed = velocity[i];
    speed.x += time_step * pull.x, speed.y += time_step * pull.y, speed.z += time_step * pull.z;
    velocity[i] = speed;
    position[i] = make_float4(here.x + time_step * speed.x, here.y + time_step * speed.y, here.z + time_step * speed.z, here.w);
    if (i == 0) ++steps_done;
}

int main() {
    const int n = 1 << 18;
    std::vector<float4> start(n);
    for (float4& p : start) p = {rand() / 1e9f, rand() / 1e9f, rand() / 1e9f, 1.0f + rand() % 7};
    float4 *position, *velocity, first;
    cudaMalloc(&position, n * sizeof(float4));
    cudaMalloc(&velocity, n * sizeof(float4));
    cudaMemcpy(position, start.data(), n * sizeof(float4), cudaMemcpyHostToDevice);
    cudaMemset(velocity, 0, n * sizeof(float4));
    place_attractors();
    for (int step = 0; step < 6; ++step) advance<<<n / 256, 256>>>(position, velocity, n);
    if (cudaMemcpy(&first, position, sizeof first, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%u steps, first at %.4f %.4f %.4f\n", count_steps(), first.x, first.y, first.z);
    return 0;
}
