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

constexpr int kThreads = 256, kOutputs = 12, kChunk = 256;  // a block's, a thread's, and taps at a time

// Twelve samples a thread, side by side: sixteen inputs wait in registers, and four of them change every four taps.
__global__ void __launch_bounds__(kThreads) fir(const float* __restrict__ x, const float* __restrict__ h,
                                                float* __restrict__ y, int n, int taps) {
    __shared__ __align__(16) float tile[kChunk + kThreads * kOutputs];
    __shared__ __align__(16) float weight[kChunk];
    const int start = blockIdx.x * (kThreads * kOutputs);
    const int mine = threadIdx.x * kOutputs;
    float sum[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; o++) sum[o] = 0.0f;

    for (int chunk = 0; chunk < taps; chunk += kChunk) {
        __syncthreads();
#pragma unroll 4
        for (int p = threadIdx.x; p < kChunk + kThreads * kOutputs; p += kThreads) {
            int from = start - chunk - kChunk + p;
            tile[p] = from >= 0 && from < n ? x[from] : 0.0f;
        }
        for (int k = threadIdx.x; k < kChunk; k += kThreads) weight[k] = chunk + k < taps ? h[chunk + k] : 0.0f;
        __syncthreads();

        // the input at p is in window[(p - base) % 16]
        const float* base = tile + kChunk + mine - 4;
        float window[16];
#pragma unroll
        for (int q = 4; q < 16; q += 4) {
            float4 v = *(const float4*)(base + q);
            window[q] = v.x;
            window[q + 1] = v.y;
            window[q + 2] = v.z;
            window[q + 3] = v.w;
        }
        const int here = min(kChunk, taps - chunk);
        for (int k = 0; k < here; k += 16) {
#pragma unroll
            for (int s = 0; s < 16; s += 4) {
                float4 v = *(const float4*)(base - k - s);
                window[(16 - s) % 16] = v.x;
                window[(17 - s) % 16] = v.y;
                window[(18 - s) % 16] = v.z;
                window[(19 - s) % 16] = v.w;
                float4 w4 = *(const float4*)(weight + k + s);
                const float w[4] = {w4.x, w4.y, w4.z, w4.w};
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int o = 0; o < kOutputs; o++) sum[o] += w[j] * window[(o - j + 4 - s + 16) % 16];
            }
        }
    }

    const int at = start + mine;
    if (at + kOutputs <= n) {
#pragma unroll
        for (int o = 0; o < kOutputs; o += 4)
            *(float4*)(y + at + o) = make_float4(sum[o], sum[o + 1], sum[o + 2], sum[o + 3]);
    } else {
#pragma unroll
        for (int o = 0; o < kOutputs; o++)
            if (at + o < n) y[at + o] = sum[o];
    }
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
    for (int r = 0; r < runs; r++) fir<<<(n + 3071) / 3072, 256>>>(d_x, d_h, d_y, n, taps);
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
