// SPDX-License-Identifier: Apache-2.0
// Annualised volatility of many price series: log returns, and their standard deviation over a rolling window.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                   \
    do {                                                                              \
        cudaError_t err = call;                                                       \
        if (err != cudaSuccess) {                                                     \
            fprintf(stderr, "CUDA error %s (%d)\n", cudaGetErrorString(err), __LINE__); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

// prices, returns: (series, days); the first day has no return
__global__ void log_returns(const float* prices, float* returns, int series, int days) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int s = blockIdx.y;
    if (t >= days) return;
    size_t i = (size_t)s * days + t;
    returns[i] = t == 0 ? 0.0f : logf(prices[i] / prices[i - 1]);
}

// out: (series, days); zero until the window is full
__global__ void rolling_stddev(const float* returns, float* out, int days, int window, float scale) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= days) return;
    const float* r = returns + (size_t)blockIdx.y * days;
    float* o = out + (size_t)blockIdx.y * days;
    if (t < window - 1) {
        o[t] = 0.0f;
        return;
    }

    float mean = 0.0f;
    for (int k = 0; k < window; k++) mean += r[t - k];
    mean /= window;
    float var = 0.0f;
    for (int k = 0; k < window; k++) {
        float d = r[t - k] - mean;
        var += d * d;
    }
    o[t] = scale * sqrtf(var / (window - 1));
}

int main(int argc, char** argv) {
    int series = argc > 1 ? atoi(argv[1]) : 1536;
    int days = argc > 2 ? atoi(argv[2]) : 16000;
    int window = argc > 3 ? atoi(argv[3]) : 30;
    int block = argc > 4 ? atoi(argv[4]) : 256;

    size_t n = (size_t)series * days;
    std::vector<float> prices(n), returns(n), vol(n);
    unsigned seed = 2024;
    for (int s = 0; s < series; s++) {
        float price = 100.0f;
        for (int t = 0; t < days; t++) {
            seed = seed * 1664525u + 1013904223u;
            price *= 1.0f + ((int)(seed >> 16) - 32768) * (0.02f / 32768) + (price < 50.0f ? 0.01f : price > 200.0f ? -0.01f : 0.0f);
            prices[(size_t)s * days + t] = price;
        }
    }

    float *d_prices, *d_returns, *d_vol;
    CHECK(cudaMalloc(&d_prices, n * sizeof(float)));
    CHECK(cudaMalloc(&d_returns, n * sizeof(float)));
    CHECK(cudaMalloc(&d_vol, n * sizeof(float)));
    CHECK(cudaMemcpy(d_prices, prices.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    dim3 grid((days + block - 1) / block, series);
    float scale = sqrtf(252.0f);
    log_returns<<<grid, block>>>(d_prices, d_returns, series, days);
    CHECK(cudaGetLastError());
    for (int run = 0; run < 4; run++) {
        rolling_stddev<<<grid, block>>>(d_returns, d_vol, days, window, scale);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(returns.data(), d_returns, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(vol.data(), d_vol, n * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int s = 0; s < series; s += 1 + series / 50)
        for (int t = s % 5; t < days; t += days > 5000 ? 31 : 1) {
            double want = 0;
            if (t >= window - 1) {
                double mean = 0, var = 0;
                for (int k = 0; k < window; k++) mean += returns[(size_t)s * days + t - k];
                mean /= window;
                for (int k = 0; k < window; k++) var += std::pow(returns[(size_t)s * days + t - k] - mean, 2);
                want = scale * std::sqrt(var / (window - 1));
            }
            worst = std::fmax(worst, std::fabs(want - vol[(size_t)s * days + t]));
        }
    for (int t = 1; t < days; t += 13)
        worst = std::fmax(worst, std::fabs(std::log((double)prices[t] / prices[t - 1]) - returns[t]));
    CHECK(cudaFree(d_prices));
    CHECK(cudaFree(d_returns));
    CHECK(cudaFree(d_vol));
    printf("%s\n", worst < 1e-5 ? "ok" : "wrong");
    return worst < 1e-5 ? 0 : 1;
}
