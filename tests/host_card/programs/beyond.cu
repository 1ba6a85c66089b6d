// SPDX-License-Identifier: Apache-2.0
// More threads than elements and nobody asks: most write behind their buffer, where nothing of the program's lies.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void halve(const float* in, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = i < 10 ? in[i] * 0.5f : 1.0f;
}

int main() {
    float host[10], *in, *out;
    for (int i = 0; i < 10; ++i) host[i] = static_cast<float>(i + 1);
    cudaMalloc(&in, sizeof host);
    cudaMalloc(&out, sizeof host);
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    halve<<<1, 256>>>(in, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%g %g\n", host[0], host[9]);
}
