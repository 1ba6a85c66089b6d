// Evaluates a small bank of filters per sample, with launch bounds chosen for full occupancy.
#include <cstdio>
#include <vector>

namespace dsp {

constexpr int kTaps = 48;

__global__ void __launch_bounds__(1024, 2)
filter_bank(const float *__restrict__ signal, const float *__restrict__ taps, float *__restrict__ out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float window[kTaps];
    float sum[16];
#pragma unroll
    for (int k = 0; k < kTaps; ++k) window[k] = i + k < count ? signal[i + k] : 0.0f;
#pragma unroll
    for (int f = 0; f < 16; ++f) sum[f] = 0.0f;
    for (int pass = 0; pass < 8; ++pass) {
#pragma unroll
        for (int k = 0; k < kTaps; ++k) {
            float tap = taps[pass * kTaps + k];
#pragma unroll
            for (int f = 0; f < 16; ++f) sum[f] += window[(k + f) % kTaps] * tap;
        }
#pragma unroll
        for (int k = 0; k < kTaps; ++k) window[k] = window[k] * 0.5f + sum[k % 16];
    }
    if (i < count)
#pragma unroll
        for (int f = 0; f < 16; ++f) out[f * count + i] = sum[f];
}

}  // namespace dsp

int main()
{
    const int count = 1 << 20;
    std::vector<float> host(count, 0.25f), taps(8 * dsp::kTaps, 0.01f);
    float *signal, *d_taps, *out;
    cudaMalloc(&signal, count * sizeof(float));
    cudaMalloc(&d_taps, taps.size() * sizeof(float));
    cudaMalloc(&out, 16 * sizeof(float) * count);
    cudaMemcpy(signal, host.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_taps, taps.data(), taps.size() * sizeof(float), cudaMemcpyHostToDevice);

    dsp::filter_bank<<<count / 1024, 1024>>>(signal, d_taps, out, count);
    cudaError_t status = cudaDeviceSynchronize();
    std::printf("filter bank: %s\n", cudaGetErrorString(status));
    return status != cudaSuccess;
}
