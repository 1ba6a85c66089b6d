// SPDX-License-Identifier: Apache-2.0
// Structure factors of a crystal, F(hkl) = sum_j f_j exp(2 pi i (h x_j + k y_j + l z_j)), a thread a reflection.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                 \
    {                                                                                               \
        cudaError_t error = call;                                                                   \
        if (error != cudaSuccess) {                                                                 \
            fprintf(stderr, "Error: %s:%d, %s\n", __FILE__, __LINE__, cudaGetErrorString(error));   \
            exit(1);                                                                                \
        }                                                                                           \
    }

struct Atom {
    float x, y, z;  // fractional coordinates
    float f;        // scattering factor
};

struct Reflection {
    int h, k, l;
};

__global__ void structure_factors(const Atom* atoms, int num_atoms, const Reflection* reflections, int num_reflections,
                                  float2* factors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_reflections) return;
    Reflection r = reflections[i];
    float re = 0.0f, im = 0.0f;
    for (int j = 0; j < num_atoms; j++) {
        float phase = 2.0f * 3.14159265f * (r.h * atoms[j].x + r.k * atoms[j].y + r.l * atoms[j].z);
        float s, c;
        sincosf(phase, &s, &c);
        re += atoms[j].f * c;
        im += atoms[j].f * s;
    }
    factors[i] = make_float2(re, im);
}

__global__ void intensities(const float2* factors, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factors[i].x * factors[i].x + factors[i].y * factors[i].y;
}

int main(int argc, char** argv) {
    int num_reflections = argc > 1 ? atoi(argv[1]) : 100000;
    int num_atoms = argc > 2 ? atoi(argv[2]) : 6000;
    int block = argc > 3 ? atoi(argv[3]) : 256;

    std::vector<Atom> atoms(num_atoms);
    unsigned s = 42;
    auto uniform = [&s]() { return ((s = s * 1664525u + 1013904223u) >> 8) * (1.0f / (1 << 24)); };
    for (Atom& a : atoms) {
        a.x = uniform();
        a.y = uniform();
        a.z = uniform();
        a.f = 1.0f + uniform();
    }
    std::vector<Reflection> reflections(num_reflections);
    for (int i = 0; i < num_reflections; i++) reflections[i] = {i % 47 - 23, i / 47 % 47 - 23, i / (47 * 47) % 47 - 23};

    Atom* d_atoms;
    Reflection* d_reflections;
    float2* d_factors;
    float* d_intensity;
    CHECK(cudaMalloc(&d_atoms, num_atoms * sizeof(Atom)));
    CHECK(cudaMalloc(&d_reflections, num_reflections * sizeof(Reflection)));
    CHECK(cudaMalloc(&d_factors, num_reflections * sizeof(float2)));
    CHECK(cudaMalloc(&d_intensity, num_reflections * sizeof(float)));
    CHECK(cudaMemcpy(d_atoms, atoms.data(), num_atoms * sizeof(Atom), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_reflections, reflections.data(), num_reflections * sizeof(Reflection), cudaMemcpyHostToDevice));

    int grid = (num_reflections + block - 1) / block;
    for (int run = 0; run < 5; run++) {
        structure_factors<<<grid, block>>>(d_atoms, num_atoms, d_reflections, num_reflections, d_factors);
        CHECK(cudaGetLastError());
    }
    intensities<<<grid, block>>>(d_factors, d_intensity, num_reflections);
    CHECK(cudaGetLastError());

    std::vector<float2> factors(num_reflections);
    std::vector<float> intensity(num_reflections);
    CHECK(cudaMemcpy(factors.data(), d_factors, num_reflections * sizeof(float2), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(intensity.data(), d_intensity, num_reflections * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int i = 0; i < num_reflections; i += 1 + num_reflections / 300) {
        double re = 0, im = 0;
        for (const Atom& a : atoms) {
            double phase =
                2 * M_PI * ((double)reflections[i].h * a.x + (double)reflections[i].k * a.y + (double)reflections[i].l * a.z);
            re += a.f * std::cos(phase);
            im += a.f * std::sin(phase);
        }
        worst = std::fmax(worst, std::fabs(re - factors[i].x));
        worst = std::fmax(worst, std::fabs(im - factors[i].y));
        double square = (double)factors[i].x * factors[i].x + (double)factors[i].y * factors[i].y;
        worst = std::fmax(worst, std::fabs(square - intensity[i]) / (1 + square));
    }
    bool ok = worst < 1e-3 * std::sqrt((double)num_atoms) + 2e-6 * num_atoms;
    CHECK(cudaFree(d_atoms));
    CHECK(cudaFree(d_reflections));
    CHECK(cudaFree(d_factors));
    CHECK(cudaFree(d_intensity));
    printf("%s\n", ok ? "ok" : "wrong");
    return ok ? 0 : 1;
}
