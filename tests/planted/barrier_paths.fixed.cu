// Simulates price paths with a small generator per path and keeps every step for a later pricing pass.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

__host__ __device__ inline uint32_t next_state(uint32_t s) { return s * 1664525u + 1013904223u; }

// class: memory
__global__ void simulate(float *paths, int path_count, int steps, float spot, float drift, float vol)
{
    int path = blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= path_count) return;
    uint32_t state = path * 747796405u + 1u;
    float price = spot;
    for (int t = 0; t < steps; ++t) {
        state = next_state(state);
        float u = (state >> 8) * (1.0f / 16777216.0f) - 0.5f;
        price *= 1.0f + drift + vol * u;
        paths[t * path_count + path] = price;
    }
}

int main()
{
    int path_count = 1 << 20, steps = 252;
    float *paths;
    if (cudaMalloc(&paths, sizeof(float) * path_count * steps) != cudaSuccess) return 1;
    dim3 block(128), grid((path_count + block.x - 1) / block.x);
    for (int run = 0; run < 3; ++run) simulate<<<grid, block>>>(paths, path_count, steps, 100.0f, 1e-4f, 0.02f);
    std::vector<float> all(size_t(path_count) * steps);
    cudaMemcpy(all.data(), paths, all.size() * sizeof(float), cudaMemcpyDeviceToHost);
    for (int p = 0; p < path_count; p += 4099) {
        uint32_t s = p * 747796405u + 1u;
        float price = 100.0f;
        for (int t = 0; t < steps; ++t) {
            s = next_state(s);
            price *= 1.0f + 1e-4f + 0.02f * ((s >> 8) * (1.0f / 16777216.0f) - 0.5f);
        }
        if (fabsf(all[size_t(steps - 1) * path_count + p] / price - 1.0f) > 1e-3f) return printf("path %d\n", p), 1;
    }
    printf("ok\n");
    return cudaDeviceSynchronize();
}
