// SPDX-License-Identifier: Apache-2.0
// Linear prediction of speech: windowed autocorrelation of overlapping frames, then Levinson's recursion for each frame.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA(x)                                                                                   \
    {                                                                                             \
        cudaError_t r = (x);                                                                      \
        if (r != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s failed in line %d: %s\n", #x, __LINE__, cudaGetErrorString(r));   \
            exit(1);                                                                              \
        }                                                                                         \
    }

const int LAGS = 17;

// one thread for each frame and lag; out is (frames, LAGS)
__global__ void autocorrelation(const float* signal, const float* window, float* out, int frames, int length, int hop) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= frames * LAGS) return;
    int frame = id / LAGS;
    int lag = id % LAGS;
    const float* x = signal + (size_t)frame * hop;
    float sum = 0.0f;
    for (int n = 0; n + lag < length; n++)
        sum += (x[n] * window[n]) * (x[n + lag] * window[n + lag]);
    out[id] = sum;
}

// share of a frame's energy that prediction leaves over
__global__ void levinson(const float* correlation, float* left, int frames) {
    int frame = blockIdx.x * blockDim.x + threadIdx.x;
    if (frame >= frames) return;
    float r[LAGS], a[LAGS], b[LAGS];
    for (int i = 0; i < LAGS; i++) {
        r[i] = correlation[(size_t)frame * LAGS + i];
        a[i] = 0.0f;
    }
    float error = r[0] * 1.0001f + 1e-9f;
    for (int i = 1; i < LAGS; i++) {
        float k = r[i];
        for (int j = 1; j < i; j++) k -= a[j] * r[i - j];
        k /= error;
        for (int j = 1; j < i; j++) b[j] = a[j] - k * a[i - j];
        for (int j = 1; j < i; j++) a[j] = b[j];
        a[i] = k;
        error *= 1.0f - k * k;
    }
    left[frame] = error / (r[0] + 1e-9f);
}

int main(int argc, char** argv) {
    int frames = argc > 1 ? atoi(argv[1]) : 200000;
    int length = argc > 2 ? atoi(argv[2]) : 400;
    int hop = argc > 3 ? atoi(argv[3]) : 160;
    const int repeats = 20;

    size_t samples = (size_t)(frames - 1) * hop + length;
    std::vector<float> signal(samples), window(length), correlation((size_t)frames * LAGS), left(frames);
    unsigned seed = 8;
    float s1 = 0, s2 = 0;
    for (size_t i = 0; i < samples; i++) {
        seed = seed * 1664525u + 1013904223u;
        float s = 1.3f * s1 - 0.7f * s2 + (seed >> 8) * (0.2f / 16777216.0f) - 0.1f;
        s2 = s1;
        s1 = s;
        signal[i] = s;
    }
    for (int n = 0; n < length; n++) window[n] = 0.54f - 0.46f * std::cos(6.2831853f * n / (length - 1));

    float *d_signal, *d_window, *d_correlation, *d_left;
    CUDA(cudaMalloc(&d_signal, samples * sizeof(float)));
    CUDA(cudaMalloc(&d_window, length * sizeof(float)));
    CUDA(cudaMalloc(&d_correlation, correlation.size() * sizeof(float)));
    CUDA(cudaMalloc(&d_left, frames * sizeof(float)));
    CUDA(cudaMemcpy(d_signal, signal.data(), samples * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(d_window, window.data(), length * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t begin, end;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    int block = 128, grid = (frames * LAGS + block - 1) / block;
    CUDA(cudaEventRecord(begin));
    for (int i = 0; i < repeats; i++) {
        autocorrelation<<<grid, block>>>(d_signal, d_window, d_correlation, frames, length, hop);
        CUDA(cudaGetLastError());
    }
    CUDA(cudaEventRecord(end));
    levinson<<<(frames + 63) / 64, 64>>>(d_correlation, d_left, frames);
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    float ms;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    fprintf(stderr, "autocorrelation %.3f ms\n", ms / repeats);

    CUDA(cudaMemcpy(correlation.data(), d_correlation, correlation.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(left.data(), d_left, frames * sizeof(float), cudaMemcpyDeviceToHost));
    double worst = 0, mean = 0;
    for (int frame = 0; frame < frames; frame++) mean += left[frame] / frames;
    for (int frame = 0; frame < frames; frame += 1 + frames / 1000) {
        const float* x = &signal[(size_t)frame * hop];
        double energy = 0;
        for (int lag = 0; lag < LAGS; lag++) {
            double sum = 0;
            for (int n = 0; n + lag < length; n++) sum += (double)x[n] * window[n] * x[n + lag] * window[n + lag];
            if (lag == 0) energy = sum;
            worst = std::fmax(worst, std::fabs(sum - correlation[(size_t)frame * LAGS + lag]) / (energy + 1e-9));
        }
    }
    CUDA(cudaFree(d_signal));
    CUDA(cudaFree(d_window));
    CUDA(cudaFree(d_correlation));
    CUDA(cudaFree(d_left));
    printf("left over by prediction: %.8f\n", mean);
    printf(worst < 1e-5 ? "ok\n" : "wrong\n");
    return worst < 1e-5 ? 0 : 1;
}
