// SPDX-License-Identifier: Apache-2.0
// RMS normalisation in half precision, a block a row, summed by thread 0.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

// The sum over a block of up to 1024 threads, in every thread.
__device__ __forceinline__ float block_sum(float v) {
  __shared__ float partial[32];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f;
  v = warp_sum(v);
  __syncthreads();
  return v;
}

constexpr int kHeld = 2;

// A block a row, eight halves a load; the row stays in registers.
__global__ void rms_norm(half* __restrict__ out, const half* __restrict__ in, const half* __restrict__ weight, int dim,
                         float eps) {
    const uint4* x = (const uint4*)(in + blockIdx.x * (size_t)dim);
    const uint4* w = (const uint4*)weight;
    uint4* o = (uint4*)(out + blockIdx.x * (size_t)dim);
    const int groups = dim / 8;
    uint4 held[kHeld];
    float ss = 0.0f;
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
        int g = threadIdx.x + k * blockDim.x;
        if (g >= groups) continue;
        held[k] = __ldcs(&x[g]);
        const half2* h = (const half2*)&held[k];
        for (int q = 0; q < 4; q++) {
            float2 v = __half22float2(h[q]);
            ss += v.x * v.x + v.y * v.y;
        }
    }
    for (int i = 8 * (threadIdx.x + kHeld * blockDim.x); i < groups * 8; i += 8 * blockDim.x)
        for (int q = 0; q < 8; q++) {
            float v = __half2float(((const half*)x)[i + q]);
            ss += v * v;
        }
    float scale = rsqrtf(block_sum(ss) / dim + eps);
    for (int g = threadIdx.x, k = 0; g < groups; g += blockDim.x, k++) {
        uint4 xs = k < kHeld ? held[k] : x[g], ws = w[g], os;
        const half2 *hx = (const half2*)&xs, *hw = (const half2*)&ws;
        half2* ho = (half2*)&os;
        for (int q = 0; q < 4; q++) {
            float2 a = __half22float2(hx[q]), b = __half22float2(hw[q]);
            ho[q] = __floats2half2_rn(a.x * scale * b.x, a.y * scale * b.y);
        }
        __stcs(&o[g], os);
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
