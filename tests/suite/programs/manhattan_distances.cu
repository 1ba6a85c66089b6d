// SPDX-License-Identifier: Apache-2.0
// All distances |a_i - b_j| in the L1 norm between two sets of points, a thread a pair; a coordinate after the other.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x)                                                                         \
    do {                                                                                 \
        cudaError_t e_ = (x);                                                            \
        if (e_ != cudaSuccess) {                                                         \
            fprintf(stderr, "%s at line %d\n", cudaGetErrorString(e_), __LINE__);        \
            return 2;                                                                    \
        }                                                                                \
    } while (0)

// a: (dim, n), b: (dim, m), out: (n, m)
__global__ void pairwise_l1(const float* a, const float* b, float* out, int n, int m, int dim) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= m) return;
    float sum = 0.0f;
    for (int k = 0; k < dim; k++) sum += fabsf(a[k * n + i] - b[k * m + j]);
    out[(size_t)i * m + j] = sum;
}

static void random_points(std::vector<float>& points, unsigned seed) {
    for (float& p : points) p = ((seed = seed * 1664525u + 1013904223u) >> 8) * (1.0f / (1 << 24));
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 6144;
    int m = argc > 2 ? atoi(argv[2]) : 6144;
    int dim = argc > 3 ? atoi(argv[3]) : 96;
    int side = argc > 4 ? atoi(argv[4]) : 16;

    std::vector<float> a((size_t)dim * n), b((size_t)dim * m), out((size_t)n * m);
    random_points(a, 1);
    random_points(b, 2);

    float *d_a, *d_b, *d_out;
    CHECK(cudaMalloc(&d_a, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_b, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_out, out.size() * sizeof(float)));
    CHECK(cudaMemcpy(d_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

    dim3 block(side, side);
    dim3 grid((m + side - 1) / side, (n + side - 1) / side);
    for (int run = 0; run < 4; run++) {
        pairwise_l1<<<grid, block>>>(d_a, d_b, d_out, n, m, dim);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int i = 0; i < n; i += 1 + n / 150)
        for (int j = i % 7; j < m; j += 1 + m / 200) {
            double want = 0;
            for (int k = 0; k < dim; k++) want += std::fabs((double)a[(size_t)k * n + i] - b[(size_t)k * m + j]);
            worst = std::fmax(worst, std::fabs(want - out[(size_t)i * m + j]) / (1 + want));
        }
    cudaFree(d_a);
    cudaFree(d_b);
    cudaFree(d_out);
    printf("%s\n", worst < 1e-5 ? "ok" : "wrong");
    return worst < 1e-5 ? 0 : 1;
}
