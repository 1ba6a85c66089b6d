// Corrects the frames of a thermal camera for dark current and gain, frame after frame on two streams.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kWidth = 1280, kHeight = 1024, kPixels = kWidth * kHeight;
constexpr int kFrames = 96;

// class: memory
__global__ void correct(float *__restrict__ kelvin, const float *__restrict__ raw, const float *__restrict__ dark,
                        const float *__restrict__ gain)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    kelvin[i] = gain[i] * (raw[i] - dark[i]) + 273.15f;
}

static float count_of(int frame, int pixel) { return 100.0f + (frame * 31 + pixel) % 97; }

static void read_frame(int frame, float *pixels)
{
    for (int i = 0; i < kPixels; ++i) pixels[i] = count_of(frame, i);
}

int main()
{
    std::vector<float> dark(kPixels, 60.0f), gain(kPixels, 0.25f);
    float *d_dark, *d_gain, *kelvin, *incoming[2];
    cudaMalloc(&d_dark, kPixels * sizeof(float));
    cudaMalloc(&d_gain, kPixels * sizeof(float));
    cudaMalloc(&kelvin, size_t(kFrames) * kPixels * sizeof(float));
    cudaMemcpy(d_dark, dark.data(), kPixels * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_gain, gain.data(), kPixels * sizeof(float), cudaMemcpyHostToDevice);

    cudaStream_t streams[2];
    std::vector<float> pixels[2];
    for (int s = 0; s < 2; ++s) {
        cudaStreamCreate(&streams[s]);
        cudaMalloc(&incoming[s], kPixels * sizeof(float));
        pixels[s].resize(kPixels);
    }
    for (int f = 0; f < kFrames; ++f) {
        int s = f % 2;
        cudaStreamSynchronize(streams[s]);
        read_frame(f, pixels[s].data());
        cudaMemcpyAsync(incoming[s], pixels[s].data(), kPixels * sizeof(float),  // expect: pageable-transfer
                        cudaMemcpyHostToDevice, streams[s]);
        correct<<<kPixels / 256, 256, 0, streams[s]>>>(kelvin + size_t(f) * kPixels, incoming[s], d_dark, d_gain);
    }
    cudaDeviceSynchronize();

    std::vector<float> last(kPixels);
    cudaMemcpy(last.data(), kelvin + size_t(kFrames - 1) * kPixels, kPixels * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kPixels; i += 997) {
        float want = 0.25f * (count_of(kFrames - 1, i) - 60.0f) + 273.15f;
        if (fabsf(last[i] - want) > 1e-3f) return printf("pixel %d is %f, not %f\n", i, last[i], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
