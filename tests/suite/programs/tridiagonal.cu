// SPDX-License-Identifier: Apache-2.0
// Many tridiagonal systems, e.g. the lines of an implicit (ADI) step: the Thomas algorithm, a thread a system.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err = (call);                                                        \
        if (err != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(2);                                                                     \
        }                                                                                \
    } while (0)

// a: below the diagonal (a[0] is not used), b: the diagonal, c: above it (c[n-1] is not used), d: right-hand sides;
// a system after the other. cp is scratch.
__global__ void thomas_solve(const double* a, const double* b, const double* c, const double* d, double* cp, double* x,
                             int n, int systems) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    size_t base = (size_t)s * n;

    cp[base] = c[base] / b[base];
    x[base] = d[base] / b[base];
    for (int i = 1; i < n; i++) {
        double m = 1.0 / (b[base + i] - a[base + i] * cp[base + i - 1]);
        cp[base + i] = c[base + i] * m;
        x[base + i] = (d[base + i] - a[base + i] * x[base + i - 1]) * m;
    }
    for (int i = n - 2; i >= 0; i--) x[base + i] -= cp[base + i] * x[base + i + 1];
}

int main(int argc, char** argv) {
    int systems = argc > 1 ? atoi(argv[1]) : 60000;
    int n = argc > 2 ? atoi(argv[2]) : 128;
    int block = argc > 3 ? atoi(argv[3]) : 128;
    size_t total = (size_t)systems * n;

    std::vector<double> a(total), b(total), c(total), d(total), x(total);
    unsigned seed = 17;
    for (size_t i = 0; i < total; i++) {
        seed = seed * 1664525u + 1013904223u;
        a[i] = -1.0 + (seed >> 24) / 512.0;
        c[i] = -1.0 + (seed >> 16 & 255) / 512.0;
        b[i] = 2.1 + (seed >> 8 & 255) / 256.0;
        d[i] = (double)(seed >> 12 & 1023) / 1024.0 - 0.5;
    }

    double *da, *db, *dc, *dd, *dcp, *dx;
    size_t bytes = total * sizeof(double);
    CHECK(cudaMalloc(&da, bytes));
    CHECK(cudaMalloc(&db, bytes));
    CHECK(cudaMalloc(&dc, bytes));
    CHECK(cudaMalloc(&dd, bytes));
    CHECK(cudaMalloc(&dcp, bytes));
    CHECK(cudaMalloc(&dx, bytes));
    CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dc, c.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dd, d.data(), bytes, cudaMemcpyHostToDevice));

    for (int step = 0; step < 3; step++) {
        thomas_solve<<<(systems + block - 1) / block, block>>>(da, db, dc, dd, dcp, dx, n, systems);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(x.data(), dx, bytes, cudaMemcpyDeviceToHost));

    // residuals
    double worst = 0;
    for (int s = 0; s < systems; s += systems > 1000 ? 13 : 1)
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)s * n + i;
            double r = b[at] * x[at] - d[at];
            if (i > 0) r += a[at] * x[at - 1];
            if (i < n - 1) r += c[at] * x[at + 1];
            worst = std::fmax(worst, std::isfinite(r) ? std::fabs(r) : 1.0);
        }
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));
    CHECK(cudaFree(dd));
    CHECK(cudaFree(dcp));
    CHECK(cudaFree(dx));
    printf("%s\n", worst < 1e-12 ? "ok" : "wrong");
    return worst < 1e-12 ? 0 : 1;
}
