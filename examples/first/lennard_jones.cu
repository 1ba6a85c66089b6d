// Lennard-Jones forces between all pairs of a small box of particles, in single precision.
#include <cmath>
#include <cstdio>
#include <vector>

struct Box {
    float edge;
    float inverse_edge;
    float cutoff;
};

__global__ void forces(const float4 *__restrict__ position, float4 *__restrict__ force, int count, Box box)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;

    const float4 me = position[i];
    float fx = 0, fy = 0, fz = 0, energy = 0;
    for (int j = 0; j < count; ++j) {
        float4 other = position[j];
        float dx = me.x - other.x;
        float dy = me.y - other.y;
        float dz = me.z - other.z;
        dx -= box.edge * rintf(dx * box.inverse_edge);
        dy -= box.edge * rintf(dy * box.inverse_edge);
        dz -= box.edge * rintf(dz * box.inverse_edge);
        float r2 = dx * dx + dy * dy + dz * dz;
        if (i != j && r2 < box.cutoff * box.cutoff) {
            float s2 = 1.0 / r2;
            float s6 = s2 * s2 * s2;
            float scale = 24.0 * s2 * s6 * (2.0 * s6 - 1.0);
            fx += scale * dx;
            fy += scale * dy;
            fz += scale * dz;
            energy += 4.0 * s6 * (s6 - 1.0);
        }
    }
    force[i] = make_float4(fx, fy, fz, 0.5 * energy);
}

int main()
{
    const int count = 65536;
    std::vector<float4> host(count);
    const int side = 41;
    for (int i = 0; i < count; ++i)
        host[i] = make_float4(1.2f * (i % side), 1.2f * (i / side % side), 1.2f * (i / side / side), 0);

    float4 *position, *force;
    cudaMalloc(&position, count * sizeof(float4));
    cudaMalloc(&force, count * sizeof(float4));
    cudaMemcpy(position, host.data(), count * sizeof(float4), cudaMemcpyHostToDevice);

    const float edge = 1.2f * side;
    Box box{edge, 1.0f / edge, 12.0f};
    for (int step = 0; step < 4; ++step) forces<<<(count + 127) / 128, 128>>>(position, force, count, box);

    std::vector<float4> result(count);
    if (cudaMemcpy(result.data(), force, count * sizeof(float4), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    double total = 0;
    for (const float4 &f : result) total += f.w;
    std::printf("energy per particle %.4f\n", total / count);
    return std::isfinite(total) ? 0 : 1;
}
