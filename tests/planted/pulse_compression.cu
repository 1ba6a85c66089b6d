// Correlates the echoes of a phased array with the transmitted chirp, one receiver a block, window after window.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kReceivers = 132, kSamples = 1 << 18, kWindow = 256, kTaps = 64;

__constant__ float chirp[kTaps];

// class: latency
__global__ void __launch_bounds__(kWindow) compress(float *__restrict__ pulses, const float *__restrict__ echoes)
{
    __shared__ float window[kWindow + kTaps];
    const float *echo = echoes + size_t(blockIdx.x) * (kSamples + kTaps);
    float *pulse = pulses + size_t(blockIdx.x) * kSamples;
    for (int start = 0; start < kSamples; start += kWindow) {
        window[threadIdx.x] = echo[start + threadIdx.x];  // expect: unoverlapped-copy
        if (threadIdx.x < kTaps) window[kWindow + threadIdx.x] = echo[start + kWindow + threadIdx.x];
        __syncthreads();
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < kTaps; ++k) sum += chirp[k] * window[threadIdx.x + k];
        pulse[start + threadIdx.x] = sum;
        __syncthreads();
    }
}

int main()
{
    std::vector<float> echoes(size_t(kReceivers) * (kSamples + kTaps)), taps(kTaps), got(kSamples);
    for (size_t i = 0; i < echoes.size(); ++i) echoes[i] = 0.01f * (i % 211) - 1.0f;
    for (int k = 0; k < kTaps; ++k) taps[k] = cosf(0.01f * k * k);
    float *d_echoes, *d_pulses;
    cudaMalloc(&d_echoes, echoes.size() * sizeof(float));
    cudaMalloc(&d_pulses, size_t(kReceivers) * kSamples * sizeof(float));
    cudaMemcpy(d_echoes, echoes.data(), echoes.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(chirp, taps.data(), kTaps * sizeof(float));
    for (int burst = 0; burst < 3; ++burst) compress<<<kReceivers, kWindow>>>(d_pulses, d_echoes);
    for (int r = 0; r < kReceivers; r += 43) {
        cudaMemcpy(got.data(), d_pulses + size_t(r) * kSamples, kSamples * sizeof(float), cudaMemcpyDeviceToHost);
        for (int i = 0; i < kSamples; i += 4093) {
            double want = 0.0;
            for (int k = 0; k < kTaps; ++k) want += double(taps[k]) * echoes[size_t(r) * (kSamples + kTaps) + i + k];
            if (fabs(got[i] - want) > 1e-3) return printf("receiver %d: %f, not %f\n", r, got[i], want), 1;
        }
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
