// SPDX-License-Identifier: Apache-2.0
// The electrostatic potential of a molecule's atoms on a regular grid, by direct summation: a thread a grid point.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Grid {
    int nx, ny, nz;
    float spacing;
};

inline void check(cudaError_t e) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

// atoms: x, y, z and the charge
constexpr int kAlong = 6;    // grid points of a thread, one above the other
constexpr int kAtoms = 256;  // in shared memory

// The special function alone, without what rsqrtf does for denormals: no square here is below 1e-4.
__device__ __forceinline__ float reciprocal_root(float v) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

// Roof: the special functions, 16 reciprocal roots a cycle and multiprocessor, one a pair; a thread's six points share
// dx and dy, so that a pair is five instructions of the eight that fit. Blocks of 32 by 2 threads, to fill the card evenly.
__global__ void __launch_bounds__(64, 18) coulomb_potential(const float4* __restrict__ atoms, int natoms,
                                                        float* __restrict__ potential, Grid grid) {
    __shared__ float4 shared_atoms[kAtoms];
    const int i = blockIdx.x * 32 + threadIdx.x % 32;
    const int j = blockIdx.y * 2 + threadIdx.x / 32;
    const int k0 = blockIdx.z * kAlong;
    const float x = i * grid.spacing, y = j * grid.spacing;
    float z[kAlong], energy[kAlong];
#pragma unroll
    for (int p = 0; p < kAlong; p++) {
        z[p] = (k0 + p) * grid.spacing;
        energy[p] = 0.0f;
    }

    for (int first = 0; first < natoms; first += kAtoms) {
        const int here = min(kAtoms, natoms - first);
        __syncthreads();
        for (int a = threadIdx.x; a < here; a += 64) shared_atoms[a] = atoms[first + a];
        __syncthreads();
#pragma unroll 4
        for (int a = 0; a < here; a++) {
            const float4 atom = shared_atoms[a];
            const float dx = x - atom.x, dy = y - atom.y;
            const float flat = dx * dx + (dy * dy + 1e-4f);
#pragma unroll
            for (int p = 0; p < kAlong; p++) {
                const float dz = z[p] - atom.z;
                energy[p] += atom.w * reciprocal_root(dz * dz + flat);
            }
        }
    }

    if (i >= grid.nx || j >= grid.ny) return;
#pragma unroll
    for (int p = 0; p < kAlong; p++)
        if (k0 + p < grid.nz) potential[((size_t)(k0 + p) * grid.ny + j) * grid.nx + i] = energy[p];
}

int main(int argc, char** argv) {
    Grid grid;
    grid.nx = argc > 1 ? atoi(argv[1]) : 96;
    grid.ny = argc > 2 ? atoi(argv[2]) : 96;
    grid.nz = argc > 3 ? atoi(argv[3]) : 96;
    int natoms = argc > 4 ? atoi(argv[4]) : 4000;
    grid.spacing = 0.5f;
    size_t points = (size_t)grid.nx * grid.ny * grid.nz;

    std::vector<float4> atoms(natoms);
    unsigned s = 123;
    auto uniform = [&s]() { return ((s = s * 1664525u + 1013904223u) >> 8) * (1.0f / (1 << 24)); };
    for (float4& a : atoms) {
        a.x = uniform() * grid.nx * grid.spacing;
        a.y = uniform() * grid.ny * grid.spacing;
        a.z = uniform() * grid.nz * grid.spacing;
        a.w = uniform() * 2.0f - 1.0f;
    }

    float4* d_atoms;
    float* d_potential;
    check(cudaMalloc(&d_atoms, natoms * sizeof(float4)));
    check(cudaMalloc(&d_potential, points * sizeof(float)));
    check(cudaMemcpy(d_atoms, atoms.data(), natoms * sizeof(float4), cudaMemcpyHostToDevice));

    for (int frame = 0; frame < 3; frame++) {
        coulomb_potential<<<dim3((grid.nx + 31) / 32, (grid.ny + 1) / 2, (grid.nz + kAlong - 1) / kAlong), 64>>>(d_atoms, natoms, d_potential, grid);
        check(cudaGetLastError());
    }
    std::vector<float> potential(points);
    check(cudaMemcpy(potential.data(), d_potential, points * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (size_t p = 0; p < points; p += 1 + points / 2000) {
        double x = p % grid.nx * (double)grid.spacing;
        double y = p / grid.nx % grid.ny * (double)grid.spacing;
        double z = p / ((size_t)grid.nx * grid.ny) * (double)grid.spacing;
        double want = 0, size = 0;
        for (const float4& a : atoms) {
            double term = a.w / std::sqrt((x - a.x) * (x - a.x) + (y - a.y) * (y - a.y) + (z - a.z) * (z - a.z) + 1e-4);
            want += term;
            size += std::fabs(term);
        }
        worst = std::fmax(worst, std::fabs(want - potential[p]) / size);
    }
    check(cudaFree(d_atoms));
    check(cudaFree(d_potential));
    printf("%s\n", worst < 1e-5 ? "ok" : "wrong");
    return worst < 1e-5 ? 0 : 1;
}
