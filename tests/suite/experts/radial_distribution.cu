// SPDX-License-Identifier: Apache-2.0
// The radial distribution function of particles in a periodic box: a histogram of all pairs' distances, normalised.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char* file, int line) {
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        exit(code);
    }
}

struct Particle {
    float x, y, z;
};

// rintf, of what is below 2^22, in two additions
__host__ __device__ inline float nearest(float v) {
    const float shift = 12582912.0f;
    return (v + shift) - shift;
}

__host__ __device__ inline int bin_of(Particle a, Particle b, float box, float inv_box, float bins_per_length) {
    float dx = a.x - b.x;
    float dy = a.y - b.y;
    float dz = a.z - b.z;
    dx -= box * nearest(dx * inv_box);
    dy -= box * nearest(dy * inv_box);
    dz -= box * nearest(dz * inv_box);
    return (int)(sqrtf(dx * dx + dy * dy + dz * dz) * bins_per_length);
}

constexpr int kTile = 256;      // particles, and threads
constexpr int kCounters = 8192; // of a block at most

// Histograms that a block keeps, one for each warp where they fit; none where not even one does.
__host__ __device__ inline int copies_of(int bins) {
    int copies = kCounters / bins;
    return copies < kTile / 32 ? copies : kTile / 32;
}

// A block takes one tile of particles with another that is not before it: every pair once, and the same work everywhere.
__global__ void __launch_bounds__(kTile)
    pair_histogram(const Particle* __restrict__ particles, int n, float box, float bins_per_length,
                   unsigned* __restrict__ histogram, int bins) {
    extern __shared__ unsigned counters[];
    __shared__ float4 others[kTile];
    const int copies = copies_of(bins);
    for (int b = threadIdx.x; b < copies * bins; b += kTile) counters[b] = 0;

    // block number to a place in the triangle
    int second = (int)((sqrtf(8.0f * blockIdx.x + 1.0f) - 1.0f) * 0.5f);
    while (second * (second + 1) / 2 > (int)blockIdx.x) second--;
    while ((second + 1) * (second + 2) / 2 <= (int)blockIdx.x) second++;
    const int first = blockIdx.x - second * (second + 1) / 2;

    const int i = first * kTile + threadIdx.x, there = second * kTile + threadIdx.x;
    if (there < n) {
        const Particle p = particles[there];
        others[threadIdx.x] = make_float4(p.x, p.y, p.z, 0.0f);
    }
    __syncthreads();

    if (i < n) {
        const Particle me = particles[i];
        const float inv_box = 1.0f / box;
        unsigned* mine = copies ? counters + threadIdx.x / 32 % copies * bins : histogram;
        const int count = min(kTile, n - second * kTile);
#pragma unroll 4
        for (int j = first == second ? threadIdx.x + 1 : 0; j < count; j++) {
            const float4 other = others[j];
            const int bin = bin_of(me, {other.x, other.y, other.z}, box, inv_box, bins_per_length);
            if (bin < bins) atomicAdd(&mine[bin], 1u);
        }
    }
    __syncthreads();
    if (copies == 0) return;
    for (int b = threadIdx.x; b < bins; b += kTile) {
        unsigned sum = 0;
        for (int c = 0; c < copies; c++) sum += counters[c * bins + b];
        if (sum) atomicAdd(&histogram[b], sum);
    }
}

__global__ void normalise(const unsigned* histogram, float* g, int bins, float bin_width, float density, int n) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= bins) return;
    float inner = b * bin_width, outer = inner + bin_width;
    float shell = 4.0f / 3.0f * 3.14159265f * (outer * outer * outer - inner * inner * inner);
    g[b] = histogram[b] / (0.5f * n * density * shell);
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 8000;
    int bins = argc > 2 ? atoi(argv[2]) : 200;
    float box = 20.0f, range = box / 2;

    std::vector<Particle> particles(n);
    unsigned s = 42;
    auto uniform = [&s] { return ((s = s * 1664525u + 1013904223u) >> 8) * (1.0f / (1 << 24)); };
    for (Particle& p : particles) {
        p.x = box * uniform();
        p.y = box * uniform();
        p.z = box * uniform();
    }

    Particle* d_particles;
    unsigned* d_histogram;
    float* d_g;
    gpuErrchk(cudaMalloc(&d_particles, n * sizeof(Particle)));
    gpuErrchk(cudaMalloc(&d_histogram, bins * sizeof(unsigned)));
    gpuErrchk(cudaMalloc(&d_g, bins * sizeof(float)));
    gpuErrchk(cudaMemcpy(d_particles, particles.data(), n * sizeof(Particle), cudaMemcpyHostToDevice));
    gpuErrchk(cudaMemset(d_histogram, 0, bins * sizeof(unsigned)));

    float per_length = bins / range;
    int tiles = (n + kTile - 1) / kTile;
    size_t shared = (size_t)copies_of(bins) * bins * sizeof(unsigned);
    pair_histogram<<<tiles * (tiles + 1) / 2, kTile, shared>>>(d_particles, n, box, per_length, d_histogram, bins);
    gpuErrchk(cudaGetLastError());
    normalise<<<(bins + 127) / 128, 128>>>(d_histogram, d_g, bins, range / bins, n / (box * box * box), n);
    gpuErrchk(cudaGetLastError());

    std::vector<unsigned> histogram(bins);
    std::vector<float> g(bins);
    gpuErrchk(cudaMemcpy(histogram.data(), d_histogram, bins * sizeof(unsigned), cudaMemcpyDeviceToHost));
    gpuErrchk(cudaMemcpy(g.data(), d_g, bins * sizeof(float), cudaMemcpyDeviceToHost));

    // particles without order: g is 1 but for noise; few particles are counted on the host too
    double pairs = 0, want = 0.5 * n * (n - 1.0) * 4 / 3 * M_PI / 8;
    for (unsigned h : histogram) pairs += h;
    bool ok = n < 1000 || std::fabs(pairs / want - 1) < 0.01;
    for (int b = bins / 4; b < bins && n >= 4000; b++) ok = ok && std::fabs(g[b] - 1) < 0.1;
    if (n <= 1500) {
        std::vector<long long> counted(bins, 0);
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) {
                int bin = bin_of(particles[i], particles[j], box, 1.0f / box, per_length);
                if (bin < bins) counted[bin]++;
            }
        long long off = 0;  // a distance at the edge of a bin may be rounded to either side
        for (int b = 0; b < bins; b++) off += std::llabs(counted[b] - (long long)histogram[b]);
        ok = ok && off <= 2 + (long long)(pairs * 1e-4);
    }
    cudaFree(d_particles);
    cudaFree(d_histogram);
    cudaFree(d_g);
    printf("%.0f pairs, g at half the range %.4f\n%s\n", pairs, g[bins / 2], ok ? "ok" : "wrong");
    return ok ? 0 : 1;
}
