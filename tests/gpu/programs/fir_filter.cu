// Low-pass filter of a long recording; the taps lie in constant memory.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int TAPS = 63;
__constant__ float taps[TAPS];

__global__ void filter(const float *signal, float *filtered, int samples) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= samples) return;
    float sum = 0;
    for (int t = 0; t < TAPS; ++t)
        if (i >= t) sum += taps[t] * signal[i - t];
    filtered[i] = sum;
}

int main() {
    const int samples = 1 << 21;
    std::vector<float> window(TAPS), host(samples);
    for (int t = 0; t < TAPS; ++t) window[t] = 0.5f * (1 - std::cos(6.2831853f * (t + 0.5f) / TAPS)) / 32;
    for (int i = 0; i < samples; ++i) host[i] = std::sin(0.01f * i) + 0.3f * std::sin(1.7f * i);
    cudaMemcpyToSymbol(taps, window.data(), sizeof(float) * TAPS);
    float *signal, *filtered;
    cudaMalloc(&signal, samples * sizeof(float));
    cudaMalloc(&filtered, samples * sizeof(float));
    cudaMemcpy(signal, host.data(), samples * sizeof(float), cudaMemcpyHostToDevice);
    for (int pass = 0; pass < 5; ++pass) filter<<<samples / 256, 256>>>(signal, filtered, samples);
    if (cudaMemcpy(host.data(), filtered, samples * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("sample 1000: %.5f\n", host[1000]);
    return 0;
}
