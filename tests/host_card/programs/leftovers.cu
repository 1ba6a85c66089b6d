// SPDX-License-Identifier: Apache-2.0
// The last threads of a block add up elements of shared memory that none has loaded.
#include <cuda_runtime.h>

#include <cstdio>

constexpr int kThreads = 256, kReach = 5, kCount = 4096;

__global__ void blur(const float* in, float* out) {
    __shared__ float tile[kThreads + kReach - 1];
    const int i = blockIdx.x * kThreads + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < kReach; ++k) sum += tile[threadIdx.x + k];
    out[i] = sum;
}

int main() {
    static float host[kCount];
    for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i % 7 + 1);
    float *in, *out;
    cudaMalloc(&in, sizeof host);
    cudaMalloc(&out, sizeof host);
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    blur<<<kCount / kThreads, kThreads>>>(in, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%g\n", host[100]);
}
