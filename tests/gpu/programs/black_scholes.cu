// Prices of options, with double literals in float code; far out of the money a put is a difference of near equals.
#include <cstdio>
#include <vector>

__device__ float below(float d) {
    const float k = 1.0 / (1.0 + 0.2316419 * fabsf(d));
    const float tail = 0.39894228 * expf(-0.5f * d * d) *
                       (k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))));
    return d > 0 ? 1.0 - tail : tail;
}

__global__ void price(const float *spot, const float *strike, const float *years, float *call, float *put, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float rate = 0.02f, volatility = 0.30f, root = sqrtf(years[i]);
    const float d1 = (logf(spot[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root);
    const float d2 = d1 - volatility * root, discounted = strike[i] * expf(-rate * years[i]);
    call[i] = spot[i] * below(d1) - discounted * below(d2);
    put[i] = discounted * (1.0 - below(d2)) - spot[i] * (1.0 - below(d1));
}

int main() {
    const int count = 1 << 20;
    std::vector<float> host[3];
    unsigned state = 3;
    auto next = [&](float low, float high) { return low + (high - low) * static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) / (1 << 24); };
    float *in[3], *call, *put;
    const float ranges[3][2] = {{5, 30}, {1, 100}, {0.25f, 10}};
    for (int k = 0; k < 3; ++k) {
        for (int i = 0; i < count; ++i) host[k].push_back(next(ranges[k][0], ranges[k][1]));
        cudaMalloc(&in[k], count * 4);
        cudaMemcpy(in[k], host[k].data(), count * 4, cudaMemcpyHostToDevice);
    }
    cudaMalloc(&call, count * 4);
    cudaMalloc(&put, count * 4);
    for (int i = 0; i < 5; ++i) price<<<count / 256, 256>>>(in[0], in[1], in[2], call, put, count);
    if (cudaMemcpy(host[0].data(), put, count * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.4f\n", host[0][0]);
    return 0;
}
