// Applies a smoothing and a sharpening response to interleaved left and right audio samples.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: compute
__global__ void shape_stereo(const float *__restrict__ in, float *__restrict__ out, int samples, int order)
{
    // The first half of a block's warps takes its even samples, the second half its odd ones.
    int half = blockDim.x / 2, odd = threadIdx.x / half;
    int i = blockIdx.x * blockDim.x + 2 * (threadIdx.x - odd * half) + odd;
    if (i >= samples) return;
    float x = in[i], y = x;
    if (odd == 0) {
        for (int k = 0; k < order; ++k) y = y - 0.1f * y * y * y + 0.01f * x;
    } else {
        for (int k = 0; k < order; ++k) y = y * (1.0f - 0.05f * y) + 0.02f * x * x;
    }
    out[i] = y;
}

int main(int argc, char **argv)
{
    int samples = argc > 1 ? atoi(argv[1]) : 1 << 22, order = argc > 2 ? atoi(argv[2]) : 200;
    std::vector<float> host(samples);
    for (int i = 0; i < samples; ++i) host[i] = float(i % 1000) * 1e-3f;
    float *in, *out;
    cudaMalloc(&in, samples * sizeof(float));
    cudaMalloc(&out, samples * sizeof(float));
    cudaMemcpy(in, host.data(), samples * sizeof(float), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat)
        shape_stereo<<<(samples + 255) / 256, 256>>>(in, out, samples, order);
    std::vector<float> got(samples);
    cudaMemcpy(got.data(), out, samples * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < samples; i += 997) {
        double x = host[i], y = x;
        for (int k = 0; k < order; ++k)
            y = i % 2 == 0 ? y - 0.1 * y * y * y + 0.01 * x : y * (1.0 - 0.05 * y) + 0.02 * x * x;
        if (fabs(got[i] - y) > 1e-3) return printf("sample %d: %f, not %f\n", i, got[i], y), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
