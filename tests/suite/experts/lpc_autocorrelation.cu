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

constexpr int kThreads = 128;
constexpr int kTeam = 8;                     // threads of a frame
constexpr int kFrames = kThreads / kTeam;    // of a block

// Samples of each thread: a multiple of LAGS, and odd, so that a team's are in different banks.
__host__ __device__ __forceinline__ int segment_of(int length) {
    const int chunks = (length + kTeam * LAGS - 1) / (kTeam * LAGS);
    return (chunks | 1) * LAGS;
}

// Floats from one frame to the next in shared memory: the samples, and zeros after them for the longest lag. The next
// frame's banks go on where this one's end.
__host__ __device__ __forceinline__ int stride_of(int length) { return kTeam * segment_of(length) + 32; }

// out is (frames, LAGS). Frames are windowed once, into shared memory; a thread has a piece of a frame for all lags at
// once, with the samples that it needs in registers; the pieces are summed with half of the lags left at each step.
__global__ void __launch_bounds__(kThreads)
    autocorrelation(const float* __restrict__ signal, const float* __restrict__ window, float* __restrict__ out, int frames,
                    int length, int hop) {
    extern __shared__ __align__(16) float staged[];
    const int segment = segment_of(length), stride = stride_of(length);
    const int first = blockIdx.x * kFrames, here = min(kFrames, frames - first);
    const int lane = threadIdx.x % 32;

    for (int f = threadIdx.x / 32; f < kFrames; f += kThreads / 32) {
        const float* x = signal + (size_t)(first + f) * hop;
        float* to = staged + f * stride;
        const int there = f < here ? length : 0;
        if (hop % 4 == 0 && length % 4 == 0) {
#pragma unroll 4
            for (int n = 4 * lane; n < stride; n += 128) {
                float4 s = make_float4(0, 0, 0, 0);
                if (n < there) {
                    const float4 a = *(const float4*)(x + n), w = *(const float4*)(window + n);
                    s = make_float4(a.x * w.x, a.y * w.y, a.z * w.z, a.w * w.w);
                }
                *(float4*)(to + n) = s;
            }
        } else {
#pragma unroll 4
            for (int n = lane; n < stride; n += 32) to[n] = n < there ? x[n] * window[n] : 0.0f;
        }
    }
    __syncthreads();

    const int frame = threadIdx.x / kTeam, member = threadIdx.x % kTeam;
    const float* mine = staged + frame * stride + member * segment;
    float sum[LAGS], x[2 * LAGS - 1];
#pragma unroll
    for (int lag = 0; lag < LAGS; lag++) sum[lag] = 0.0f;
#pragma unroll
    for (int i = 0; i < LAGS - 1; i++) x[i] = mine[i];
    for (int n = 0; n < segment; n += LAGS) {
#pragma unroll
        for (int i = 0; i < LAGS; i++) x[LAGS - 1 + i] = mine[n + LAGS - 1 + i];
#pragma unroll
        for (int i = 0; i < LAGS; i++)
#pragma unroll
            for (int lag = 0; lag < LAGS; lag++) sum[lag] += x[i] * x[i + lag];
#pragma unroll
        for (int i = 0; i < LAGS - 1; i++) x[i] = x[LAGS + i];
    }

    // each step, a thread gives away half of its lags; the last lag is summed by all
    static_assert(LAGS == 17 && kTeam == 8, "sixteen lags are halved three times");
    float eight[8], four[4], two[2];
    const bool high = member & 4, middle = member & 2, low = member & 1;
#pragma unroll
    for (int i = 0; i < 8; i++)
        eight[i] = (high ? sum[8 + i] : sum[i]) + __shfl_xor_sync(0xffffffffu, high ? sum[i] : sum[8 + i], 4);
#pragma unroll
    for (int i = 0; i < 4; i++)
        four[i] = (middle ? eight[4 + i] : eight[i]) + __shfl_xor_sync(0xffffffffu, middle ? eight[i] : eight[4 + i], 2);
#pragma unroll
    for (int i = 0; i < 2; i++)
        two[i] = (low ? four[2 + i] : four[i]) + __shfl_xor_sync(0xffffffffu, low ? four[i] : four[2 + i], 1);
    float last = sum[16];
#pragma unroll
    for (int over = 1; over < kTeam; over *= 2) last += __shfl_xor_sync(0xffffffffu, last, over);
    if (frame < here) {
        float* to = out + (size_t)(first + frame) * LAGS;
        to[2 * member] = two[0];
        to[2 * member + 1] = two[1];
        if (member == 0) to[16] = last;
    }
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
    int grid = (frames + kFrames - 1) / kFrames;
    size_t shared = (size_t)kFrames * stride_of(length) * sizeof(float);
    CUDA(cudaFuncSetAttribute(autocorrelation, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    CUDA(cudaEventRecord(begin));
    for (int i = 0; i < repeats; i++) {
        autocorrelation<<<grid, kThreads, shared>>>(d_signal, d_window, d_correlation, frames, length, hop);
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
