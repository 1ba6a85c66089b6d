// Gravity between all bodies, positions staged in shared memory; velocities are read and written in place.
#include <cstdio>
#include <vector>

constexpr int BLOCK = 256;

__global__ void advance(const float4 *__restrict__ position, float4 *moved, float3 *velocity, int bodies, float dt) {
    __shared__ float4 tile[BLOCK];
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    const float4 me = position[i];
    float3 pull = make_float3(0, 0, 0);
    for (int start = 0; start < bodies; start += BLOCK) {
        tile[threadIdx.x] = position[start + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < BLOCK; ++k) {
            const float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            const float force = tile[k].w * inverse * inverse * inverse;
            pull.x += force * dx;
            pull.y += force * dy;
            pull.z += force * dz;
        }
        __syncthreads();
    }
    float3 v = velocity[i];
    v.x += dt * pull.x;
    v.y += dt * pull.y;
    v.z += dt * pull.z;
    velocity[i] = v;
    moved[i] = make_float4(me.x + dt * v.x, me.y + dt * v.y, me.z + dt * v.z, me.w);
}

int main() {
    const int bodies = 8192;
    std::vector<float4> host(bodies);
    unsigned state = 1;
    auto next = [&] { return static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f; };
    for (float4 &b : host) b = make_float4(next(), next(), next(), 1.0f / bodies);
    float4 *a, *b;
    float3 *v;
    cudaMalloc(&a, bodies * sizeof(float4));
    cudaMalloc(&b, bodies * sizeof(float4));
    cudaMalloc(&v, bodies * sizeof(float3));
    cudaMemset(v, 0, bodies * sizeof(float3));
    cudaMemcpy(a, host.data(), bodies * sizeof(float4), cudaMemcpyHostToDevice);
    for (int step = 0; step < 6; ++step) {
        advance<<<bodies / BLOCK, BLOCK>>>(a, b, v, bodies, 0.01f);
        std::swap(a, b);
    }
    if (cudaMemcpy(host.data(), a, bodies * sizeof(float4), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.4f %.4f %.4f\n", host[0].x, host[0].y, host[0].z);
    return 0;
}
