// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void scale(const float* in, float* out, int n, float by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * by + 1.0f;
}

int main() {
    const int n = 20000;
    std::vector<float> held(n);
    for (int i = 0; i < n; ++i) held[i] = 0.001f * (i % 977);
    float *in, *out;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemcpy(in, held.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    for (int r = 0; r < 5; ++r) scale<<<(n + 255) / 256, 256>>>(in, out, n, 2.5f);
    cudaMemcpy(held.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float x : held) sum += x;
    std::printf("%f %s\n", sum, cudaGetErrorString(cudaGetLastError()));
}
