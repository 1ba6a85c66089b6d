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

__global__ void american_put(const Option* options, float* prices, int steps) {
    extern __shared__ float values[];
    float* now = values;
    float* next = values + steps + 1;
    Option o = options[blockIdx.x];

    // at the end of the last step
    for (int j = threadIdx.x; j <= steps; j += blockDim.x) {
        float price = o.spot * expf(o.up * (2 * j - steps));
        now[j] = fmaxf(o.strike - price, 0.0f);
    }
    __syncthreads();

    for (int step = steps - 1; step >= 0; step--) {
        for (int j = threadIdx.x; j <= step; j += blockDim.x) {
            float price = o.spot * expf(o.up * (2 * j - step));
            float hold = o.p_up * now[j + 1] + o.p_down * now[j];
            next[j] = fmaxf(hold, o.strike - price);
        }
        __syncthreads();
        float* swapped = now;
        now = next;
        next = swapped;
    }
    if (threadIdx.x == 0) prices[blockIdx.x] = now[0];
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
    int block = argc > 3 ? atoi(argv[3]) : 256;
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
    size_t shared = 2 * (steps + 1) * sizeof(float);
    for (int run = 0; run < 10; run++) {
        american_put<<<count, block, shared>>>(d_options, d_prices, steps);
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
