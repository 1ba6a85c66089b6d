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
constexpr unsigned kAll = 0xffffffffu;

// A warp solves a system of up to 32 * K rows, a lane K rows beside each other. A lane's rows but the last are solved
// for the last unknowns of its left neighbour and of its own, x_j = p_j + q_j left + r_j right; what is left is a
// tridiagonal system of one row a lane, which goes by parallel cyclic reduction.
template <int K>
__device__ __forceinline__ void solve_by_warp(const double* __restrict__ a, const double* __restrict__ b,
                                              const double* __restrict__ c, const double* __restrict__ d,
                                              double* __restrict__ x, int n, int lane) {
    double va[K], vb[K], vc[K], vd[K];
    const int first = lane * K;
    const bool pairs = n % 2 == 0;
#pragma unroll
    for (int k = 0; k < K; k += 2) {
        int i = first + k;
        if (pairs && i < n) {
            double2 ta = __ldcs((const double2*)(a + i)), tb = __ldcs((const double2*)(b + i));
            double2 tc = __ldcs((const double2*)(c + i)), td = __ldcs((const double2*)(d + i));
            va[k] = ta.x, va[k + 1] = ta.y;
            vb[k] = tb.x, vb[k + 1] = tb.y;
            vc[k] = tc.x, vc[k + 1] = tc.y;
            vd[k] = td.x, vd[k + 1] = td.y;
        } else {
#pragma unroll
            for (int q = 0; q < 2; q++) {
                bool in = i + q < n;  // a row behind the end says x = 0
                va[k + q] = in ? a[i + q] : 0.0;
                vb[k + q] = in ? b[i + q] : 1.0;
                vc[k + q] = in ? c[i + q] : 0.0;
                vd[k + q] = in ? d[i + q] : 0.0;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (first + k == 0) va[k] = 0.0;
        if (first + k >= n - 1) vc[k] = 0.0;
    }

    // the rows but the last: vc becomes r's factors, vd p, va q
    double inv = 1.0 / vb[0];
    vc[0] *= inv;
    vd[0] *= inv;
    va[0] *= -inv;
#pragma unroll
    for (int k = 1; k < K - 1; k++) {
        inv = 1.0 / (vb[k] - va[k] * vc[k - 1]);
        vc[k] *= inv;
        vd[k] = (vd[k] - va[k] * vd[k - 1]) * inv;
        va[k] = -va[k] * va[k - 1] * inv;
    }
    double r[K - 1];
    r[K - 2] = -vc[K - 2];
#pragma unroll
    for (int k = K - 3; k >= 0; k--) {
        vd[k] -= vc[k] * vd[k + 1];
        va[k] -= vc[k] * va[k + 1];
        r[k] = -vc[k] * r[k + 1];
    }

    double p0 = __shfl_down_sync(kAll, vd[0], 1);
    double q0 = __shfl_down_sync(kAll, va[0], 1);
    double r0 = __shfl_down_sync(kAll, r[0], 1);
    const double up = va[K - 1], down = vc[K - 1];  // 0 at the last lane
    double A = up * va[K - 2];
    double B = vb[K - 1] + up * r[K - 2] + down * q0;
    double C = down * r0;
    double D = vd[K - 1] - up * vd[K - 2] - down * p0;
    inv = 1.0 / B;
    A *= inv;
    C *= inv;
    D *= inv;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        // A is 0 where there is no lane to the left, and C where there is none to the right
        double al = __shfl_up_sync(kAll, A, step), cl = __shfl_up_sync(kAll, C, step), dl = __shfl_up_sync(kAll, D, step);
        double ar = __shfl_down_sync(kAll, A, step), cr = __shfl_down_sync(kAll, C, step);
        double dr = __shfl_down_sync(kAll, D, step);
        inv = 1.0 / (1.0 - A * cl - C * ar);
        D = (D - A * dl - C * dr) * inv;
        A = -A * al * inv;
        C = -C * cr * inv;
    }

    const double right = D;
    double left = __shfl_up_sync(kAll, right, 1);
    if (lane == 0) left = 0.0;
#pragma unroll
    for (int k = 0; k < K; k += 2) {
        int i = first + k;
        double x0 = vd[k] + va[k] * left + r[k] * right;
        double x1 = k + 1 == K - 1 ? right : vd[k + 1] + va[k + 1] * left + r[k + 1 < K - 1 ? k + 1 : 0] * right;
        if (pairs && i < n) {
            __stcs((double2*)(x + i), make_double2(x0, x1));
        } else {
            if (i < n) x[i] = x0;
            if (i + 1 < n) x[i + 1] = x1;
        }
    }
}

// Roof: DRAM, 40 bytes a row (a, b, c, d in, x out); cp is not used up to 256 rows. About 85 % of it by reasoning: some
// 250 double operations and 64 shuffles a warp for each 5 KB at 128 rows, about half of what the memory's time allows.
__global__ void __launch_bounds__(128, 5) thomas_solve(const double* a, const double* b, const double* c, const double* d,
                                                       double* cp, double* x, int n, int systems) {
    const int s = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (s >= systems) return;
    const size_t base = (size_t)s * n;
    a += base, b += base, c += base, d += base, cp += base, x += base;
    if (n <= 64) {
        solve_by_warp<2>(a, b, c, d, x, n, lane);
    } else if (n <= 128) {
        solve_by_warp<4>(a, b, c, d, x, n, lane);
    } else if (n <= 256) {
        solve_by_warp<8>(a, b, c, d, x, n, lane);
    } else if (lane == 0) {
        double factor = c[0] / b[0], value = d[0] / b[0];
        cp[0] = factor;
        x[0] = value;
        for (int i = 1; i < n; i++) {
            double m = 1.0 / (b[i] - a[i] * factor);
            value = (d[i] - a[i] * value) * m;
            factor = c[i] * m;
            cp[i] = factor;
            x[i] = value;
        }
        for (int i = n - 2; i >= 0; i--) x[i] = value = x[i] - cp[i] * value;
    }
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
        thomas_solve<<<(systems + 3) / 4, 128>>>(da, db, dc, dd, dcp, dx, n, systems);
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
