// SPDX-License-Identifier: Apache-2.0
// A low-pass FIR filter over a long signal: y[i] = sum_k h[k] x[i - k], a thread a sample.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                        \
    do {                                                                   \
        cudaError_t status = (call);                                       \
        if (status != cudaSuccess) {                                       \
            printf("CUDA error: %s\n", cudaGetErrorString(status));        \
            exit(2);                                                       \
        }                                                                  \
    } while (0)

__global__ void fir(const float* __restrict__ x, const float* __restrict__ h, float* __restrict__ y, int n, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int last = min(taps, i + 1);  // samples before the first are zero
    float sum = 0.0f;
    for (int k = 0; k < last; k++) sum += h[k] * x[i - k];
    y[i] = sum;
}

// A windowed sinc (Hamming), normalised to a gain of one.
std::vector<float> low_pass(int taps, double cutoff) {
    std::vector<double> h(taps);
    double total = 0;
    for (int k = 0; k < taps; k++) {
        double t = k - 0.5 * (taps - 1);
        double sinc = t == 0 ? 2 * cutoff : std::sin(2 * M_PI * cutoff * t) / (M_PI * t);
        h[k] = sinc * (0.54 - 0.46 * std::cos(2 * M_PI * k / (taps - 1)));
        total += h[k];
    }
    std::vector<float> out(taps);
    for (int k = 0; k < taps; k++) out[k] = (float)(h[k] / total);
    return out;
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 24;
    int taps = argc > 2 ? atoi(argv[2]) : 256;
    int block = argc > 3 ? atoi(argv[3]) : 256;
    int runs = argc > 4 ? atoi(argv[4]) : 5;

    std::vector<float> h = low_pass(taps, 0.1), x(n), y(n);
    unsigned s = 77;
    for (int i = 0; i < n; i++) x[i] = ((s = s * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f + (i % 64 < 32);

    float *d_x, *d_h, *d_y;
    CHECK(cudaMalloc((void**)&d_x, n * sizeof(float)));
    CHECK(cudaMalloc((void**)&d_h, taps * sizeof(float)));
    CHECK(cudaMalloc((void**)&d_y, n * sizeof(float)));
    CHECK(cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_h, h.data(), taps * sizeof(float), cudaMemcpyHostToDevice));

    int grid = (n + block - 1) / block;
    for (int r = 0; r < runs; r++) fir<<<grid, block>>>(d_x, d_h, d_y, n, taps);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(y.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    int step = n > 100000 ? 1009 : 1;
    for (int i = 0; i < n; i += i < 2 * taps ? 1 : step) {
        double want = 0;
        for (int k = 0; k < taps && k <= i; k++) want += (double)h[k] * x[i - k];
        worst = std::fmax(worst, std::fabs(want - y[i]));
    }
    CHECK(cudaFree(d_x));
    CHECK(cudaFree(d_h));
    CHECK(cudaFree(d_y));
    printf("%s\n", worst < 1e-4 ? "ok" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
