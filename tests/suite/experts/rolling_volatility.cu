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

constexpr int kThreads = 128, kEach = 15, kDays = kThreads * kEach;  // an odd kEach: no two threads meet in a bank
constexpr int kLeastWindow = 12, kMostWindow = 512;

// out: (series, days); zero until the window is full. A thread slides its window over kEach days, and keeps the sums
// of what lies in it, less a value from the window, so that they are of the size of its deviations.
__global__ void __launch_bounds__(kThreads) rolling_stddev(const float* __restrict__ returns, float* __restrict__ out,
                                                           int days, int window, float scale) {
    __shared__ float in[kDays + kMostWindow], result[kDays];
    const float* r = returns + (size_t)blockIdx.y * days;
    float* o = out + (size_t)blockIdx.y * days;
    const int start = blockIdx.x * kDays, count = min(kDays, days - start);
    if (window > kMostWindow) {
        for (int t = start + threadIdx.x; t < start + count; t += kThreads) {
            float mean = 0.0f, var = 0.0f;
            if (t >= window - 1) {
                for (int k = 0; k < window; k++) mean += r[t - k];
                mean /= window;
                for (int k = 0; k < window; k++) var += (r[t - k] - mean) * (r[t - k] - mean);
            }
            o[t] = scale * sqrtf(var / (window - 1));
        }
        return;
    }

#pragma unroll 8
    for (int p = threadIdx.x; p < count + window - 1; p += kThreads) {
        int from = start - (window - 1) + p;
        in[p] = from >= 0 ? __ldg(&r[from]) : 0.0f;
    }
    __syncthreads();

    const int mine = threadIdx.x * kEach;
    if (mine < count) {
        const float* w = in + mine;
        const float middle = w[window - 1], one = 1.0f / window, less = 1.0f / (window - 1);
        if (window < kLeastWindow) {  // so few may be nearly equal, and little left of a difference of sums
            for (int q = 0; q < kEach && mine + q < count; q++) {
                float mean = 0.0f, var = 0.0f;
                for (int k = 0; k < window; k++) mean += w[q + k];
                mean *= one;
                for (int k = 0; k < window; k++) var += (w[q + k] - mean) * (w[q + k] - mean);
                result[mine + q] = start + mine + q >= window - 1 ? scale * sqrtf(var * less) : 0.0f;
            }
        }
        float sum = 0.0f, squares = 0.0f;
        for (int k = 0; k < window; k++) {
            float d = w[k] - middle;
            sum += d;
            squares += d * d;
        }
#pragma unroll
        for (int q = 0; q < kEach; q++) {
            if (window < kLeastWindow) break;
            if (q > 0 && mine + q < count) {
                float gone = w[q - 1] - middle, come = w[q + window - 1] - middle;
                sum += come - gone;
                squares += come * come - gone * gone;
            }
            float var = fmaxf(squares - sum * sum * one, 0.0f) * less;
            result[mine + q] = start + mine + q >= window - 1 ? scale * sqrtf(var) : 0.0f;
        }
    }
    __syncthreads();
#pragma unroll 5
    for (int p = threadIdx.x; p < count; p += kThreads) __stcs(&o[start + p], result[p]);
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
        rolling_stddev<<<dim3((days + 1919) / 1920, series), 128>>>(d_returns, d_vol, days, window, scale);
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
