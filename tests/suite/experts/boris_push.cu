// SPDX-License-Identifier: Apache-2.0
// Charged particles in the field of a magnetic dipole, moved by Boris's scheme; their kinetic energy at the end.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define GPU_CHECK(x)                                                                        \
    {                                                                                       \
        cudaError_t gpu_error = (x);                                                        \
        if (gpu_error != cudaSuccess) {                                                     \
            fprintf(stderr, "%s: %s (line %d)\n", #x, cudaGetErrorString(gpu_error), __LINE__); \
            exit(1);                                                                        \
        }                                                                                   \
    }

struct Particle {
    float x, y, z;
    float vx, vy, vz;
    float weight;
};

const float MOMENT = 20.0f;

constexpr int kThreads = 256;
constexpr int kFloats = sizeof(Particle) / sizeof(float);

__device__ __forceinline__ void move(Particle& p, float dt, float charge_mass, float electric) {
    // field of the dipole
    const float r2 = p.x * p.x + p.y * p.y + p.z * p.z;
    const float inv = rsqrtf(r2), inv2 = inv * inv;
    const float scale = MOMENT * inv2 * inv2 * inv;
    const float three_z = 3.0f * p.z * scale;

    // half a kick, a rotation, half a kick
    const float h = 0.5f * dt * charge_mass;
    const float tx = h * (p.x * three_z), ty = h * (p.y * three_z), tz = h * (p.z * three_z - r2 * scale);
    const float s = __fdividef(2.0f, 1.0f + tx * tx + ty * ty + tz * tz);
    p.vz += h * electric;
    const float ux = p.vx + p.vy * tz - p.vz * ty;
    const float uy = p.vy + p.vz * tx - p.vx * tz;
    const float uz = p.vz + p.vx * ty - p.vy * tx;
    p.vx += s * (uy * tz - uz * ty);
    p.vy += s * (uz * tx - ux * tz);
    p.vz += s * (ux * ty - uy * tx);
    p.vz += h * electric;

    p.x += dt * p.vx;
    p.y += dt * p.vy;
    p.z += dt * p.vz;
}

// electric: a uniform field along z. The particles of a block come and go as whole lines, 16 bytes a thread; in shared
// memory they are seven words apart, so that a warp's are in different banks.
__global__ void __launch_bounds__(kThreads)
    push(Particle* __restrict__ particles, int count, float dt, float charge_mass, float electric) {
    __shared__ __align__(16) float staged[kThreads * kFloats];
    const int first = blockIdx.x * kThreads;
    const int floats = min(kThreads, count - first) * kFloats, fours = floats / 4;
    float* data = (float*)(particles + first);

#pragma unroll 2
    for (int i = threadIdx.x; i < fours; i += kThreads) ((float4*)staged)[i] = __ldcs((const float4*)data + i);
    if (4 * fours + (int)threadIdx.x < floats) staged[4 * fours + threadIdx.x] = data[4 * fours + threadIdx.x];
    __syncthreads();

    if (first + (int)threadIdx.x < count) {
        float* mine = staged + threadIdx.x * kFloats;
        Particle p = {mine[0], mine[1], mine[2], mine[3], mine[4], mine[5], 0.0f};
        move(p, dt, charge_mass, electric);
        mine[0] = p.x;
        mine[1] = p.y;
        mine[2] = p.z;
        mine[3] = p.vx;
        mine[4] = p.vy;
        mine[5] = p.vz;
    }
    __syncthreads();

#pragma unroll 2
    for (int i = threadIdx.x; i < fours; i += kThreads) __stcs((float4*)data + i, ((float4*)staged)[i]);
    if (4 * fours + (int)threadIdx.x < floats) data[4 * fours + threadIdx.x] = staged[4 * fours + threadIdx.x];
}

__global__ void kinetic_energy(const Particle* particles, int count, double* energy) {
    __shared__ double partial[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double mine = 0;
    if (i < count) {
        Particle p = particles[i];
        mine = 0.5 * p.weight * (p.vx * p.vx + p.vy * p.vy + p.vz * p.vz);
    }
    partial[threadIdx.x] = mine;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(energy, partial[0]);
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 8000000;
    int steps = argc > 2 ? atoi(argv[2]) : 20;
    float dt = 0.02f, charge_mass = 1.5f, electric = 0.1f;

    std::vector<Particle> before(count), after(count);
    unsigned seed = 4321;
    auto next = [&seed] { return ((seed = seed * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f; };
    for (Particle& p : before) {
        p.x = 4.0f * next();
        p.y = 4.0f * next();
        p.z = 3.0f + next();
        p.vx = next();
        p.vy = next();
        p.vz = next();
        p.weight = 1.0f + 0.5f * next();
    }

    Particle* d_particles;
    double* d_energy;
    GPU_CHECK(cudaMalloc(&d_particles, count * sizeof(Particle)));
    GPU_CHECK(cudaMalloc(&d_energy, sizeof(double)));
    GPU_CHECK(cudaMemcpy(d_particles, before.data(), count * sizeof(Particle), cudaMemcpyHostToDevice));
    GPU_CHECK(cudaMemset(d_energy, 0, sizeof(double)));

    cudaEvent_t start, stop;
    GPU_CHECK(cudaEventCreate(&start));
    GPU_CHECK(cudaEventCreate(&stop));
    GPU_CHECK(cudaEventRecord(start));
    int blocks = (count + kThreads - 1) / kThreads;
    for (int step = 0; step < steps; step++) push<<<blocks, kThreads>>>(d_particles, count, dt, charge_mass, electric);
    GPU_CHECK(cudaGetLastError());
    GPU_CHECK(cudaEventRecord(stop));
    kinetic_energy<<<(count + 255) / 256, 256>>>(d_particles, count, d_energy);
    GPU_CHECK(cudaGetLastError());
    GPU_CHECK(cudaDeviceSynchronize());
    float ms = 0;
    GPU_CHECK(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "push: %.3f ms a step\n", ms / steps);

    double energy = 0;
    GPU_CHECK(cudaMemcpy(after.data(), d_particles, count * sizeof(Particle), cudaMemcpyDeviceToHost));
    GPU_CHECK(cudaMemcpy(&energy, d_energy, sizeof(double), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int i = 0; i < count; i += 1 + count / 500) {
        Particle p = before[i];
        double x[3] = {p.x, p.y, p.z}, v[3] = {p.vx, p.vy, p.vz}, h = 0.5 * dt * charge_mass;
        for (int step = 0; step < steps; step++) {
            double r2 = x[0] * x[0] + x[1] * x[1] + x[2] * x[2], scale = MOMENT / (r2 * r2 * std::sqrt(r2)) * h;
            double t[3] = {3 * x[0] * x[2] * scale, 3 * x[1] * x[2] * scale, (3 * x[2] * x[2] - r2) * scale};
            double s = 2 / (1 + t[0] * t[0] + t[1] * t[1] + t[2] * t[2]), u[3], w[3];
            v[2] += h * electric;
            for (int k = 0; k < 3; k++) u[k] = v[k] + v[(k + 1) % 3] * t[(k + 2) % 3] - v[(k + 2) % 3] * t[(k + 1) % 3];
            for (int k = 0; k < 3; k++) w[k] = v[k] + s * (u[(k + 1) % 3] * t[(k + 2) % 3] - u[(k + 2) % 3] * t[(k + 1) % 3]);
            for (int k = 0; k < 3; k++) v[k] = w[k];
            v[2] += h * electric;
            for (int k = 0; k < 3; k++) x[k] += dt * v[k];
        }
        double got[6] = {after[i].x, after[i].y, after[i].z, after[i].vx, after[i].vy, after[i].vz};
        for (int k = 0; k < 3; k++) {
            worst = std::fmax(worst, std::fabs(got[k] - x[k]));
            worst = std::fmax(worst, std::fabs(got[k + 3] - v[k]));
        }
        if (after[i].weight != p.weight) worst = 1;
    }
    GPU_CHECK(cudaFree(d_particles));
    GPU_CHECK(cudaFree(d_energy));
    printf("mean kinetic energy %.5f\n%s\n", energy / count, worst < 1e-3 ? "ok" : "wrong");
    return worst < 1e-3 ? 0 : 1;
}
