// SPDX-License-Identifier: Apache-2.0
// Group normalisation of half-precision NCHW activations, sums in float.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                   \
  do {                                                                                \
    cudaError_t status = call;                                                        \
    if (status != cudaSuccess) {                                                      \
      printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));          \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

constexpr int kThreads = 256;
constexpr int kHeld = 2;  // eights of numbers that a thread keeps in registers

// The sums over the block, in every thread.
__device__ __forceinline__ float2 block_sum(float2 v) {
  __shared__ float2 partial[kThreads / 32];
#pragma unroll
  for (int o = 16; o > 0; o /= 2) {
    v.x += __shfl_xor_sync(0xffffffffu, v.x, o);
    v.y += __shfl_xor_sync(0xffffffffu, v.y, o);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = make_float2(0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < kThreads / 32; i++) {
    v.x += partial[i].x;
    v.y += partial[i].y;
  }
  return v;
}

__device__ __forceinline__ void add_eight(float2& sums, uint4 v) {
  const __half2* h = reinterpret_cast<const __half2*>(&v);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float2 f = __half22float2(h[i]);
    sums.x += f.x + f.y;
    sums.y += f.x * f.x + f.y * f.y;
  }
}

__device__ __forceinline__ uint4 scale_eight(uint4 v, float scale, float shift) {
  __half2* h = reinterpret_cast<__half2*>(&v);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float2 f = __half22float2(h[i]);
    h[i] = __floats2half2_rn(f.x * scale + shift, f.y * scale + shift);
  }
  return v;
}

// A block normalises one group of one sample, eight numbers at a time; small groups are read once.
__global__ void __launch_bounds__(kThreads)
    group_norm_forward(const __half* __restrict__ x, const __half* __restrict__ weight,
                       const __half* __restrict__ bias, __half* __restrict__ y, int N, int C, int HW, int groups,
                       float eps) {
  int index = blockIdx.x, tid = threadIdx.x;
  int channels = C / groups;
  int first = index % groups * channels;
  int size = channels * HW;
  size_t base = (size_t)index * size;
  float2 sums = make_float2(0.0f, 0.0f);

  if (HW % 8 == 0) {
    const uint4* from = reinterpret_cast<const uint4*>(x + base);
    uint4* to = reinterpret_cast<uint4*>(y + base);
    int count = size / 8, per_channel = HW / 8;
    uint4 held[kHeld];
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
      int i = tid + k * kThreads;
      held[k] = i < count ? __ldcs(&from[i]) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < kHeld; k++) add_eight(sums, held[k]);
    for (int i = tid + kHeld * kThreads; i < count; i += kThreads) add_eight(sums, from[i]);
    sums = block_sum(sums);
    float mean = sums.x / size;
    float rstd = rsqrtf(sums.y / size - mean * mean + eps);
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
      int i = tid + k * kThreads;
      if (i < count) {
        int c = first + i / per_channel;
        float scale = rstd * __half2float(weight[c]);
        __stcs(&to[i], scale_eight(held[k], scale, __half2float(bias[c]) - mean * scale));
      }
    }
    for (int i = tid + kHeld * kThreads; i < count; i += kThreads) {
      int c = first + i / per_channel;
      float scale = rstd * __half2float(weight[c]);
      to[i] = scale_eight(from[i], scale, __half2float(bias[c]) - mean * scale);
    }
  } else {
    for (int i = tid; i < size; i += kThreads) {
      float v = __half2float(x[base + i]);
      sums.x += v;
      sums.y += v * v;
    }
    sums = block_sum(sums);
    float mean = sums.x / size;
    float rstd = rsqrtf(sums.y / size - mean * mean + eps);
    for (int i = tid; i < size; i += kThreads) {
      int c = first + i / HW;
      y[base + i] = __float2half((__half2float(x[base + i]) - mean) * rstd * __half2float(weight[c]) + __half2float(bias[c]));
    }
  }
}

int main(int argc, char** argv) {
  int N = argc > 1 ? atoi(argv[1]) : 256;
  int C = argc > 2 ? atoi(argv[2]) : 128;
  int side = argc > 3 ? atoi(argv[3]) : 32;
  int groups = argc > 4 ? atoi(argv[4]) : 32;
  const int block_size = kThreads;
  const float eps = 1e-5f;
  int HW = side * side;
  size_t total = (size_t)N * C * HW;

  std::vector<__half> table(1024), x(total), y(total), weight(C), bias(C);
  for (int i = 0; i < 1024; i++) table[i] = __float2half(i / 256.0f - 1.5f);
  for (size_t i = 0; i < total; i++) x[i] = table[((unsigned int)i * 2654435761u) >> 22];
  for (int c = 0; c < C; c++) {
    weight[c] = __float2half(0.5f + 0.25f * (c % 5));
    bias[c] = __float2half(0.125f * (c % 9) - 0.5f);
  }

  __half *d_x, *d_y, *d_weight, *d_bias;
  CHECK(cudaMalloc(&d_x, total * sizeof(__half)));
  CHECK(cudaMalloc(&d_y, total * sizeof(__half)));
  CHECK(cudaMalloc(&d_weight, C * sizeof(__half)));
  CHECK(cudaMalloc(&d_bias, C * sizeof(__half)));
  CHECK(cudaMemcpy(d_x, x.data(), total * sizeof(__half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_weight, weight.data(), C * sizeof(__half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_bias, bias.data(), C * sizeof(__half), cudaMemcpyHostToDevice));

  int blocks = N * groups;
  for (int i = 0; i < 20; i++)
    group_norm_forward<<<blocks, block_size>>>(d_x, d_weight, d_bias, d_y, N, C, HW, groups, eps);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(y.data(), d_y, total * sizeof(__half), cudaMemcpyDeviceToHost));

  int channels = C / groups, size = channels * HW;
  double worst = 0;
  for (int i = 0; i < N * groups; i += 1 + N * groups / 200) {
    const __half* from = &x[(size_t)i * size];
    double mean = 0, var = 0;
    for (int j = 0; j < size; j++) mean += __half2float(from[j]);
    mean /= size;
    for (int j = 0; j < size; j++) {
      double d = __half2float(from[j]) - mean;
      var += d * d;
    }
    var /= size;
    for (int j = 0; j < size; j++) {
      int c = i % groups * channels + j / HW;
      double want = (__half2float(from[j]) - mean) / std::sqrt(var + eps) * __half2float(weight[c]) +
                    __half2float(bias[c]);
      worst = std::fmax(worst, std::fabs(want - __half2float(y[(size_t)i * size + j])));
    }
  }
  printf("group norm %dx%dx%dx%d, %d groups: %s\n", N, C, side, side, groups, worst < 4e-3 ? "ok" : "WRONG");
  return worst < 4e-3 ? 0 : 1;
}
