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
__global__ void coulomb_potential(const float4* atoms, int natoms, float* potential, Grid grid) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= grid.nx || j >= grid.ny || k >= grid.nz) return;
    float x = i * grid.spacing;
    float y = j * grid.spacing;
    float z = k * grid.spacing;

    float energy = 0.0f;
    for (int a = 0; a < natoms; a++) {
        float dx = x - atoms[a].x;
        float dy = y - atoms[a].y;
        float dz = z - atoms[a].z;
        energy += atoms[a].w / sqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);
    }
    potential[((size_t)k * grid.ny + j) * grid.nx + i] = energy;
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

    dim3 block(8, 8, 4);
    dim3 blocks((grid.nx + 7) / 8, (grid.ny + 7) / 8, (grid.nz + 3) / 4);
    for (int frame = 0; frame < 3; frame++) {
        coulomb_potential<<<blocks, block>>>(d_atoms, natoms, d_potential, grid);
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
