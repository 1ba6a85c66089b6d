// SPDX-License-Identifier: Apache-2.0
// RMS normalisation in half precision, a block a row, summed by thread 0.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void rms_norm(half* out, const half* in, const half* weight, int dim, float eps) {
    __shared__ float scale;
    const half* x = in + blockIdx.x * (size_t)dim;
    half* o = out + blockIdx.x * (size_t)dim;

    if (threadIdx.x == 0) {
        float ss = 0.0f;
        for (int i = 0; i < dim; i++) {
            float v = __half2float(x[i]);
            ss += v * v;
        }
        scale = rsqrtf(ss / dim + eps);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        o[i] = __float2half(__half2float(x[i]) * scale * __half2float(weight[i]));
    }
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 16384, dim = argc > 2 ? atoi(argv[2]) : 4096;
    size_t n = (size_t)rows * dim;
    std::vector<half> in(n), weight(dim), out(n);
    unsigned s = 5;
    for (half& h : in) h = __float2half(((s = s * 69069 + 1) >> 16) / 32768.0f - 1.0f);
    for (int i = 0; i < dim; i++) weight[i] = __float2half(0.5f + (i % 8) * 0.125f);
    half *d_in, *d_out, *d_w;
    cudaMalloc(&d_in, n * sizeof(half));
    cudaMalloc(&d_out, n * sizeof(half));
    cudaMalloc(&d_w, dim * sizeof(half));
    cudaMemcpy(d_in, in.data(), n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(d_w, weight.data(), dim * sizeof(half), cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) rms_norm<<<rows, 256>>>(d_out, d_in, d_w, dim, 1e-6f);
    cudaMemcpy(out.data(), d_out, n * sizeof(half), cudaMemcpyDeviceToHost);
    double worst = 0;
    for (int r = 0; r < rows; r += 53) {
        double ss = 0;
        for (int i = 0; i < dim; i++) ss += std::pow((double)__half2float(in[(size_t)r * dim + i]), 2);
        double scale = 1 / std::sqrt(ss / dim + 1e-6);
        for (int i = 0; i < dim; i++) {
            double want = __half2float(in[(size_t)r * dim + i]) * scale * __half2float(weight[i]);
            worst = std::fmax(worst, std::fabs(want - __half2float(out[(size_t)r * dim + i])));
        }
    }
    printf("%s\n", worst < 4e-3 ? "ok" : "wrong");
    return worst < 4e-3 ? 0 : 1;
}
