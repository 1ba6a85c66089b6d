// SPDX-License-Identifier: Apache-2.0
// A fluid in two dimensions by the lattice Boltzmann method (D2Q9, BGK), periodic: a thread a cell streams and collides.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define CUDA_CHECK(x)                                               \
    if (cudaError_t e = (x)) {                                      \
        fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e));     \
        exit(2);                                                    \
    }

#define Q 9

__constant__ int cx[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int cy[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float wt[Q] = {4.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};

// f: the nine populations of a cell beside each other
__global__ void lbm_step(const float* f, float* f_new, int nx, int ny, float omega) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;

    float fi[Q];
    float rho = 0.0f, ux = 0.0f, uy = 0.0f;
    for (int q = 0; q < Q; q++) {
        int xs = (x - cx[q] + nx) % nx;
        int ys = (y - cy[q] + ny) % ny;
        fi[q] = f[(size_t)(ys * nx + xs) * Q + q];
        rho += fi[q];
        ux += cx[q] * fi[q];
        uy += cy[q] * fi[q];
    }
    ux /= rho;
    uy /= rho;
    float uu = 1.5f * (ux * ux + uy * uy);
    for (int q = 0; q < Q; q++) {
        float cu = 3.0f * (cx[q] * ux + cy[q] * uy);
        float feq = wt[q] * rho * (1.0f + cu + 0.5f * cu * cu - uu);
        f_new[(size_t)(y * nx + x) * Q + q] = fi[q] + omega * (feq - fi[q]);
    }
}

int main(int argc, char** argv) {
    int nx = argc > 1 ? atoi(argv[1]) : 2048;
    int ny = argc > 2 ? atoi(argv[2]) : 1536;
    int steps = argc > 3 ? atoi(argv[3]) : 6;
    const float omega = 1.2f;
    const int hx[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, hy[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const double weight[Q] = {4.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36};

    // a shear wave
    size_t n = (size_t)nx * ny * Q;
    std::vector<float> f(n), before(n);
    for (int y = 0; y < ny; y++) {
        double u = 0.05 * std::sin(2 * M_PI * y / ny);
        float feq[Q];
        for (int q = 0; q < Q; q++) feq[q] = (float)(weight[q] * (1 + 3 * hx[q] * u + 4.5 * hx[q] * hx[q] * u * u - 1.5 * u * u));
        for (int x = 0; x < nx; x++)
            for (int q = 0; q < Q; q++) f[((size_t)y * nx + x) * Q + q] = feq[q] * (1.0f + 0.01f * ((x * 7 + y * 3) % 11) / 11);
    }

    float *a, *b;
    CUDA_CHECK(cudaMalloc(&a, n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b, n * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(a, f.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    dim3 threads(16, 16);
    dim3 blocks((nx + threads.x - 1) / threads.x, (ny + threads.y - 1) / threads.y);
    for (int s = 0; s < steps; s++) {
        lbm_step<<<blocks, threads>>>(a, b, nx, ny, omega);
        CUDA_CHECK(cudaGetLastError());
        std::swap(a, b);
    }
    CUDA_CHECK(cudaMemcpy(f.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(before.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost));

    // the last step again, for some cells
    double worst = 0;
    for (size_t cell = 0; cell < (size_t)nx * ny; cell += (size_t)nx * ny > 100000 ? 53 : 1) {
        int x = (int)(cell % nx), y = (int)(cell / nx);
        double fi[Q], rho = 0, ux = 0, uy = 0;
        for (int q = 0; q < Q; q++) {
            int xs = (x - hx[q] + nx) % nx, ys = (y - hy[q] + ny) % ny;
            fi[q] = before[((size_t)ys * nx + xs) * Q + q];
            rho += fi[q];
            ux += hx[q] * fi[q];
            uy += hy[q] * fi[q];
        }
        ux /= rho;
        uy /= rho;
        for (int q = 0; q < Q; q++) {
            double cu = 3 * (hx[q] * ux + hy[q] * uy);
            double feq = weight[q] * rho * (1 + cu + 0.5 * cu * cu - 1.5 * (ux * ux + uy * uy));
            worst = std::fmax(worst, std::fabs(fi[q] + omega * (feq - fi[q]) - f[cell * Q + q]));
        }
    }
    cudaFree(a);
    cudaFree(b);
    printf("%s\n", worst < 1e-6 ? "ok" : "wrong");
    return worst < 1e-6 ? 0 : 1;
}
