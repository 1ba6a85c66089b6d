// SPDX-License-Identifier: Apache-2.0
// The end of a quantized residual block: a branch with a scale and a bias for each channel, added to the shortcut, through
// a ReLU, back to eight bits.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

void check(cudaError_t result, const char* what) {
    if (result != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
        exit(EXIT_FAILURE);
    }
}

constexpr int kThreads = 256;
constexpr int kWide = 16;     // values of a thread at a time
constexpr int kRounds = 8;    // that a thread goes on for, with the same channels

__device__ __forceinline__ int requantize(int b, int s, float scale, float bias, float shortcut_scale, float inv_out_scale) {
    const float x = (float)b * scale + bias;
    const float y = fmaxf(x + (float)s * shortcut_scale, 0.0f);
    return __float2int_rn(fminf(y * inv_out_scale, 127.0f));
}

__device__ __forceinline__ int byte_of(unsigned word, int k) { return (int)(signed char)(word >> 8 * k); }

// branch, shortcut, out: (pixels, channels). A thread keeps to sixteen channels, whose scales stay in registers.
__global__ void __launch_bounds__(kThreads, 3)
    int8_residual(const signed char* __restrict__ branch, const signed char* __restrict__ shortcut,
                  const float* __restrict__ scale, const float* __restrict__ bias, float shortcut_scale,
                  float inv_out_scale, signed char* __restrict__ out, int pixels, int channels) {
    const int thread = blockIdx.x * kThreads + threadIdx.x;
    if (channels % kWide) {
        for (long long i = thread; i < (long long)pixels * channels; i += (long long)gridDim.x * kThreads) {
            const int c = (int)(i % channels);
            out[i] = (signed char)requantize(branch[i], shortcut[i], scale[c], bias[c], shortcut_scale, inv_out_scale);
        }
        return;
    }

    const int groups = channels / kWide, items = pixels * groups;
    const int stride = (int)(gridDim.x * kThreads) / groups * groups;
    if (stride == 0) {  // more channels than threads
        for (int item = thread; item < items; item += gridDim.x * kThreads)
            for (int k = 0; k < kWide; k++) {
                const int i = item * kWide + k, c = i % channels;
                out[i] = (signed char)requantize(branch[i], shortcut[i], scale[c], bias[c], shortcut_scale, inv_out_scale);
            }
        return;
    }
    if (thread >= stride) return;
    const int channel = thread % groups * kWide;
    float s[kWide], b[kWide];
#pragma unroll
    for (int k = 0; k < kWide; k++) {
        s[k] = scale[channel + k];
        b[k] = bias[channel + k];
    }
    const uint4 *from = (const uint4*)branch, *also = (const uint4*)shortcut;
#pragma unroll 2
    for (int item = thread; item < items; item += stride) {
        const uint4 x = __ldcs(from + item), y = __ldcs(also + item);
        const unsigned xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
        unsigned packed[4];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            int q[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                q[k] = requantize(byte_of(xs[w], k), byte_of(ys[w], k), s[4 * w + k], b[4 * w + k], shortcut_scale, inv_out_scale);
            packed[w] = __byte_perm(__byte_perm(q[0], q[1], 0x0040), __byte_perm(q[2], q[3], 0x0040), 0x5410);
        }
        __stcs((uint4*)out + item, make_uint4(packed[0], packed[1], packed[2], packed[3]));
    }
}

// how often each value occurs
__global__ void value_counts(const signed char* data, int n, unsigned* counts) {
    __shared__ unsigned local[128];
    if (threadIdx.x < 128) local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i] & 127], 1u);
    __syncthreads();
    if (threadIdx.x < 128) atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}

int main(int argc, char** argv) {
    int pixels = argc > 1 ? atoi(argv[1]) : 64 * 56 * 56;
    int channels = argc > 2 ? atoi(argv[2]) : 256;
    const int repeats = 20;

    // scales with few digits, so that only the last product is rounded
    int n = pixels * channels;
    std::vector<signed char> branch(n), shortcut(n), out(n);
    std::vector<float> scale(channels), bias(channels);
    unsigned r = 11;
    for (int i = 0; i < n; i++) {
        r = r * 1664525u + 1013904223u;
        branch[i] = (signed char)(r >> 24);
        shortcut[i] = (signed char)(r >> 16 & 255);
    }
    for (int c = 0; c < channels; c++) {
        r = r * 1664525u + 1013904223u;
        scale[c] = (1 + (r >> 21)) / 32768.0f;
        bias[c] = ((int)(r >> 5 & 32767) - 16384) / 32768.0f;
    }
    float shortcut_scale = 1311 / 32768.0f;
    float inv_out_scale = 1.0f / 0.047f;

    signed char *d_branch, *d_shortcut, *d_out;
    float *d_scale, *d_bias;
    unsigned* d_counts;
    check(cudaMalloc(&d_branch, n), "malloc");
    check(cudaMalloc(&d_shortcut, n), "malloc");
    check(cudaMalloc(&d_out, n), "malloc");
    check(cudaMalloc(&d_scale, channels * sizeof(float)), "malloc");
    check(cudaMalloc(&d_bias, channels * sizeof(float)), "malloc");
    check(cudaMalloc(&d_counts, 128 * sizeof(unsigned)), "malloc");
    check(cudaMemcpy(d_branch, branch.data(), n, cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(d_shortcut, shortcut.data(), n, cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(d_scale, scale.data(), channels * sizeof(float), cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(d_bias, bias.data(), channels * sizeof(float), cudaMemcpyHostToDevice), "copy");
    check(cudaMemset(d_counts, 0, 128 * sizeof(unsigned)), "memset");

    cudaEvent_t start, stop;
    check(cudaEventCreate(&start), "event");
    check(cudaEventCreate(&stop), "event");
    check(cudaEventRecord(start), "event");
    for (int repeat = 0; repeat < repeats; repeat++) {
        const int each = kThreads * kWide * kRounds;
        int8_residual<<<(n + each - 1) / each, kThreads>>>(d_branch, d_shortcut, d_scale, d_bias, shortcut_scale,
                                                           inv_out_scale, d_out, pixels, channels);
        check(cudaGetLastError(), "launch");
    }
    check(cudaEventRecord(stop), "event");
    value_counts<<<264, 256>>>(d_out, n, d_counts);
    check(cudaGetLastError(), "launch");
    check(cudaDeviceSynchronize(), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, stop), "event");
    fprintf(stderr, "%f ms\n", ms / repeats);

    unsigned counts[128];
    check(cudaMemcpy(out.data(), d_out, n, cudaMemcpyDeviceToHost), "copy");
    check(cudaMemcpy(counts, d_counts, sizeof counts, cudaMemcpyDeviceToHost), "copy");
    int wrong = 0;
    for (int i = 0; i < n; i += 1 + n / 200000) {
        int c = i % channels;
        float y = branch[i] * scale[c] + bias[c] + shortcut[i] * shortcut_scale;
        float q = std::rint(std::fmax(y, 0.0f) * inv_out_scale);
        if (out[i] != (q > 127 ? 127 : (int)q)) wrong++;
    }
    double mean = 0;
    for (int v = 0; v < 128; v++) mean += (double)counts[v] * v / n;
    printf("zeros %u, saturated %u, mean %.6f\n", counts[0], counts[127], mean);
    printf("wrong: %d\n", wrong);
    check(cudaFree(d_branch), "free");
    check(cudaFree(d_shortcut), "free");
    check(cudaFree(d_out), "free");
    check(cudaFree(d_scale), "free");
    check(cudaFree(d_bias), "free");
    check(cudaFree(d_counts), "free");
    return wrong ? 1 : 0;
}
