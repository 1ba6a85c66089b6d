// Prices European call options with the Black-Scholes formula, in single precision, and checks a sample
// against the host.
#include <cmath>
#include <cstdio>
#include <vector>

struct Market {
    float rate;
    float volatility;
};

__global__ void price_calls(const float *__restrict__ spot, const float *__restrict__ strike,
                            const float *__restrict__ years, float *__restrict__ price, int count, Market market)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;

    const float root = market.volatility * sqrtf(years[i]);
    const float drift = (market.rate + 0.5 * market.volatility * market.volatility) * years[i];
    const float d[2] = {(logf(spot[i] / strike[i]) + drift) / root,
                        (logf(spot[i] / strike[i]) + drift) / root - root};
    float normal[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const float k = 1.0 / (1.0 + 0.2316419 * fabsf(d[j]));
        const float poly =
            k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
        const float tail = 0.39894228 * expf(-0.5 * d[j] * d[j]) * poly;
        normal[j] = d[j] > 0 ? 1.0 - tail : tail;
    }
    price[i] = spot[i] * normal[0] - strike[i] * expf(-market.rate * years[i]) * normal[1];
}

int main()
{
    const int count = 1 << 22;
    const Market market{0.02f, 0.30f};
    std::vector<float> spot(count), strike(count), years(count), price(count);
    for (int i = 0; i < count; ++i) {
        spot[i] = 5.0f + 25.0f * (i % 1009) / 1009;
        strike[i] = 1.0f + 99.0f * (i % 4093) / 4093;
        years[i] = 0.25f + 9.75f * (i % 769) / 769;
    }

    float *d_spot, *d_strike, *d_years, *d_price;
    const size_t bytes = count * sizeof(float);
    cudaMalloc(&d_spot, bytes);
    cudaMalloc(&d_strike, bytes);
    cudaMalloc(&d_years, bytes);
    cudaMalloc(&d_price, bytes);
    cudaMemcpy(d_spot, spot.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_strike, strike.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_years, years.data(), bytes, cudaMemcpyHostToDevice);

    for (int i = 0; i < 50; ++i)
        price_calls<<<(count + 255) / 256, 256>>>(d_spot, d_strike, d_years, d_price, count, market);

    if (cudaMemcpy(price.data(), d_price, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    int wrong = 0;
    for (int i = 0; i < count; i += 1021) {
        const double root = market.volatility * std::sqrt((double)years[i]);
        const double drift = (market.rate + 0.5 * market.volatility * market.volatility) * years[i];
        const double d1 = (std::log((double)spot[i] / strike[i]) + drift) / root;
        const double n1 = 0.5 * std::erfc(-d1 / std::sqrt(2.0));
        const double n2 = 0.5 * std::erfc(-(d1 - root) / std::sqrt(2.0));
        const double expected = spot[i] * n1 - strike[i] * std::exp(-(double)market.rate * years[i]) * n2;
        wrong += !(std::fabs(price[i] - expected) < 1e-4 * spot[i]);
    }
    std::printf("call options: %d of the sample wrong\n", wrong);
    return wrong != 0;
}
