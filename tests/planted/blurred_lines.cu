// Smooths detector lines with a long kernel; every block keeps its stretch of a line in shared memory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kThreads = 256, kTaps = 65, kRadius = kTaps / 2;
__constant__ float taps[kTaps];

// class: memory
__global__ void smooth_lines(const float *__restrict__ in, float *__restrict__ out, int length)
{
    __shared__ float stretch[kThreads + 2 * kRadius];
    size_t line = (size_t)blockIdx.y * length;
    int first = blockIdx.x * kThreads - kRadius;
    for (int i = threadIdx.x; i < kThreads + 2 * kRadius; i += kThreads) {
        int column = min(max(first + i, 0), length - 1);
        stretch[i] = in[line + column];
    }
    __syncthreads();
    float sum = 0.0f;
    for (int t = 0; t < kTaps; ++t) {
        sum += taps[t] * stretch[threadIdx.x + t];
        __syncthreads();  // expect: excess-barriers
    }
    int column = first + kRadius + threadIdx.x;
    if (column < length) out[line + column] = sum;
}

int main(int argc, char **argv)
{
    int length = argc > 1 ? atoi(argv[1]) : 8192, lines = argc > 2 ? atoi(argv[2]) : 4096;
    std::vector<float> host((size_t)length * lines), weights(kTaps), got(length);
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 22) % 257);
    for (int t = 0; t < kTaps; ++t) weights[t] = 1.0f / kTaps;
    float *in, *out;
    cudaMalloc(&in, host.size() * sizeof(float));
    cudaMalloc(&out, host.size() * sizeof(float));
    cudaMemcpy(in, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(taps, weights.data(), kTaps * sizeof(float));
    for (int repeat = 0; repeat < 5; ++repeat)
        smooth_lines<<<dim3((length + kThreads - 1) / kThreads, lines), kThreads>>>(in, out, length);
    size_t last = (size_t)(lines - 1) * length;
    cudaMemcpy(got.data(), out + last, length * sizeof(float), cudaMemcpyDeviceToHost);
    for (int c = 0; c < length; c += 97) {
        double want = 0;
        for (int t = 0; t < kTaps; ++t)
            want += weights[t] * host[last + std::min(std::max(c + t - kRadius, 0), length - 1)];
        if (fabs(got[c] - want) > 1e-2) return printf("column %d: %f, not %f\n", c, got[c], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
