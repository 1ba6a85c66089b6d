// Sums the decaying response of every detector channel over its sample times.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: compute
__global__ void decay_response(const float *__restrict__ rate, float *__restrict__ response, int channels,
                               int samples, float interval)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    float k = rate[channel], sum = 0.0f;
    for (int s = 0; s < samples; ++s)
        sum += __expf(-k * interval * s) * __cosf(k * s);  // expect: sfu-bound
    response[channel] = sum;
}

int main(int argc, char **argv)
{
    int channels = argc > 1 ? atoi(argv[1]) : 1 << 20, samples = argc > 2 ? atoi(argv[2]) : 256;
    const float interval = 0.01f;
    std::vector<float> rates(channels);
    for (int c = 0; c < channels; ++c) rates[c] = 0.1f + 0.001f * (c % 700);
    float *rate, *response;
    cudaMalloc(&rate, channels * sizeof(float));
    cudaMalloc(&response, channels * sizeof(float));
    cudaMemcpy(rate, rates.data(), channels * sizeof(float), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat)
        decay_response<<<(channels + 255) / 256, 256>>>(rate, response, channels, samples, interval);
    std::vector<float> got(channels);
    cudaMemcpy(got.data(), response, channels * sizeof(float), cudaMemcpyDeviceToHost);
    for (int c = 0; c < channels; c += 997) {
        double want = 0;
        for (int s = 0; s < samples; ++s) want += exp(-(double)rates[c] * interval * s) * cos((double)rates[c] * s);
        if (fabs(got[c] - want) > 2e-2 * samples / 64) return printf("channel %d: %f, not %f\n", c, got[c], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
