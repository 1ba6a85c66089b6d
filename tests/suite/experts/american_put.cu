// SPDX-License-Identifier: Apache-2.0
// American put options by the binomial tree of Cox, Ross and Rubinstein: a block for each option.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(expr)                                                           \
    do {                                                                           \
        cudaError_t result = (expr);                                               \
        if (result != cudaSuccess) {                                               \
            fprintf(stderr, "%s failed: %s\n", #expr, cudaGetErrorString(result)); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

// up: logarithm of a step up of the price; p_up, p_down: of the steps up and down, the probability, discounted
struct Option {
    float spot, strike, up, p_up, p_down;
};

constexpr int kLevels = 64;  // of the price, that a lane has at first: levels -1024 to 1023 of a warp, in steps up from spot

// The steps from `step` down to the first that half as many levels can hold, and so on. A level of the price means the same
// at every step, so that what exercise is worth there is worked out once; steps take odd and even levels in turn.
template <int L>
__device__ __forceinline__ float walk_back(float (&value)[L], int step, const Option& o, float* shared) {
    const int lane = threadIdx.x;
    float exercise[L];
#pragma unroll
    for (int r = 0; r < L; r++) exercise[r] = o.strike - o.spot * __expf(o.up * (lane * L + r - 16 * L));

    const int stop = L > 2 ? 8 * L : 1;  // levels below it fit into half
    for (; step >= stop; step--) {
        if (step % 2) {
            const float above = __shfl_down_sync(~0u, value[0], 1);
#pragma unroll
            for (int r = 1; r < L; r += 2)
                value[r] = fmaxf(o.p_up * (r + 1 < L ? value[(r + 1) % L] : above) + o.p_down * value[r - 1], exercise[r]);
        } else {
            const float below = __shfl_up_sync(~0u, value[L - 1], 1);
#pragma unroll
            for (int r = 0; r < L; r += 2)
                value[r] = fmaxf(o.p_up * value[r + 1] + o.p_down * (r > 0 ? value[(r + L - 1) % L] : below), exercise[r]);
        }
    }

    if constexpr (L > 2) {
        // levels -8 L to 8 L - 1 are those of the lanes 8 to 23: each gives half of its own to another
        __syncwarp();
        if (lane >= 8 && lane < 24)
#pragma unroll
            for (int r = 0; r < L; r++) shared[(lane - 8) * L + r] = value[r];
        __syncwarp();
        float half[L / 2];
#pragma unroll
        for (int r = 0; r < L / 2; r++) half[r] = shared[lane * (L / 2) + r];
        return walk_back<L / 2>(half, step, o, shared);
    } else {
        // step 0: level 0, which is the first of lane 16
        const float below = __shfl_up_sync(~0u, value[1], 1);
        const float hold = o.p_up * value[1] + o.p_down * below;
        return __shfl_sync(~0u, fmaxf(hold, exercise[0]), 16);
    }
}

// A warp for each option.
__global__ void __launch_bounds__(32)
    american_put(const Option* __restrict__ options, float* __restrict__ prices, int steps) {
    __shared__ float shared[16 * kLevels];
    extern __shared__ float values[];  // of more steps than the levels are for
    const Option o = options[blockIdx.x];

    if (steps < 16 * kLevels) {
        float value[kLevels];
#pragma unroll
        for (int r = 0; r < kLevels; r++) {
            const int level = (int)threadIdx.x * kLevels + r - 16 * kLevels;
            value[r] = fmaxf(o.strike - o.spot * __expf(o.up * level), 0.0f);
        }
        const float price = walk_back<kLevels>(value, steps - 1, o, shared);
        if (threadIdx.x == 0) prices[blockIdx.x] = price;
        return;
    }

    for (int j = threadIdx.x; j <= steps; j += 32) values[j] = fmaxf(o.strike - o.spot * expf(o.up * (2 * j - steps)), 0.0f);
    for (int step = steps - 1; step >= 0; step--)
        for (int first = 0; first <= step; first += 32) {
            const int j = first + threadIdx.x;
            __syncwarp();
            float hold = 0.0f;
            if (j <= step) hold = o.p_up * values[j + 1] + o.p_down * values[j];
            __syncwarp();
            if (j <= step) values[j] = fmaxf(hold, o.strike - o.spot * expf(o.up * (2 * j - step)));
        }
    __syncwarp();
    if (threadIdx.x == 0) prices[blockIdx.x] = values[0];
}

static double reference(Option o, int steps) {
    std::vector<double> price(2 * steps + 1), value(steps + 1);
    for (int k = -steps; k <= steps; k++) price[k + steps] = o.spot * std::exp((double)o.up * k);
    for (int j = 0; j <= steps; j++) value[j] = std::fmax(o.strike - price[2 * j], 0.0);
    for (int step = steps - 1; step >= 0; step--)
        for (int j = 0; j <= step; j++)
            value[j] = std::fmax(o.p_up * value[j + 1] + o.p_down * value[j], o.strike - price[2 * j - step + steps]);
    return value[0];
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 5000;
    int steps = argc > 2 ? atoi(argv[2]) : 1000;
    const double rate = 0.03;

    std::vector<Option> options(count);
    unsigned s = 555;
    auto uniform = [&s](float low, float high) {
        s = s * 1664525u + 1013904223u;
        return low + (high - low) * ((s >> 8) * (1.0f / (1 << 24)));
    };
    for (Option& o : options) {
        o.spot = uniform(70, 130);
        o.strike = uniform(80, 120);
        double years = uniform(0.25f, 2), volatility = uniform(0.15f, 0.5f);
        double dt = years / steps, up = volatility * std::sqrt(dt), growth = std::exp(rate * dt);
        double p = (growth - std::exp(-up)) / (std::exp(up) - std::exp(-up));
        o.up = up;
        o.p_up = p / growth;
        o.p_down = (1 - p) / growth;
    }

    Option* d_options;
    float* d_prices;
    CUDA_CHECK(cudaMalloc(&d_options, count * sizeof(Option)));
    CUDA_CHECK(cudaMalloc(&d_prices, count * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_options, options.data(), count * sizeof(Option), cudaMemcpyHostToDevice));

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));
    size_t shared = steps < 16 * kLevels ? 0 : (steps + 1) * sizeof(float);
    for (int run = 0; run < 10; run++) {
        american_put<<<count, 32, shared>>>(d_options, d_prices, steps);
        CUDA_CHECK(cudaGetLastError());
    }
    CUDA_CHECK(cudaEventRecord(stop));
    std::vector<float> prices(count);
    CUDA_CHECK(cudaMemcpy(prices.data(), d_prices, count * sizeof(float), cudaMemcpyDeviceToHost));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.0f options a second\n", 1e4 * count / ms);

    double sum = 0, worst = 0;
    for (float price : prices) sum += price;
    for (int i = 0; i < count; i += 1 + count / 30)
        worst = std::fmax(worst, std::fabs(prices[i] - reference(options[i], steps)));
    CUDA_CHECK(cudaFree(d_options));
    CUDA_CHECK(cudaFree(d_prices));
    printf("mean price %.4f\n%s\n", sum / count, worst < 2e-3 ? "ok" : "wrong");
    return worst < 2e-3 ? 0 : 1;
}
