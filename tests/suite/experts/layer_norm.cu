// SPDX-License-Identifier: Apache-2.0
// Layer normalisation, one thread a token.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
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

constexpr int kHeld = 8;

// A block a token; its elements stay in registers.
__global__ void layernorm(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                          float* __restrict__ y, int tokens, int hidden, float eps) {
  const float* row = x + (size_t)blockIdx.x * hidden;
  float held[kHeld], sum = 0.0f, var = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; k++) {
    int i = threadIdx.x + k * blockDim.x;
    held[k] = i < hidden ? __ldcs(&row[i]) : 0.0f;
    sum += held[k];
  }
  for (int i = threadIdx.x + kHeld * blockDim.x; i < hidden; i += blockDim.x) sum += row[i];
  float mean = block_sum(sum) / hidden;
#pragma unroll
  for (int k = 0; k < kHeld; k++) {
    float d = threadIdx.x + k * blockDim.x < hidden ? held[k] - mean : 0.0f;
    var += d * d;
  }
  for (int i = threadIdx.x + kHeld * blockDim.x; i < hidden; i += blockDim.x) var += (row[i] - mean) * (row[i] - mean);
  float inv_std = rsqrtf(block_sum(var) / hidden + eps);
  float* to = y + (size_t)blockIdx.x * hidden;
#pragma unroll
  for (int k = 0; k < kHeld; k++) {
    int i = threadIdx.x + k * blockDim.x;
    if (i < hidden) __stcs(&to[i], (held[k] - mean) * inv_std * gamma[i] + beta[i]);
  }
  for (int i = threadIdx.x + kHeld * blockDim.x; i < hidden; i += blockDim.x)
    to[i] = (row[i] - mean) * inv_std * gamma[i] + beta[i];
}

int main(int argc, char** argv) {
  const int tokens = argc > 1 ? std::stoi(argv[1]) : 16384;
  const int hidden = argc > 2 ? std::stoi(argv[2]) : 1024;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0.5f, 2.0f);
  std::vector<float> x((size_t)tokens * hidden), gamma(hidden), beta(hidden), y(x.size());
  for (auto& v : x) v = normal(rng);
  for (auto& v : gamma) v = 1 + 0.1f * normal(rng);
  for (auto& v : beta) v = normal(rng);

  float *dx, *dg, *db, *dy;
  cudaMalloc(&dx, x.size() * sizeof(float));
  cudaMalloc(&dy, y.size() * sizeof(float));
  cudaMalloc(&dg, hidden * sizeof(float));
  cudaMalloc(&db, hidden * sizeof(float));
  cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dg, gamma.data(), hidden * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(db, beta.data(), hidden * sizeof(float), cudaMemcpyHostToDevice);
  const int threads = 128;
  for (int i = 0; i < 5; i++)
    layernorm<<<tokens, threads>>>(dx, dg, db, dy, tokens, hidden, 1e-5f);
  cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost);

  double worst = 0;
  for (int t = 0; t < tokens; t += 101) {
    double mean = 0, var = 0;
    for (int i = 0; i < hidden; i++) mean += x[(size_t)t * hidden + i];
    mean /= hidden;
    for (int i = 0; i < hidden; i++) var += std::pow(x[(size_t)t * hidden + i] - mean, 2);
    var /= hidden;
    for (int i = 0; i < hidden; i++) {
      double want = (x[(size_t)t * hidden + i] - mean) / std::sqrt(var + 1e-5) * gamma[i] + beta[i];
      worst = std::fmax(worst, std::fabs(want - y[(size_t)t * hidden + i]));
    }
  }
  std::printf("%s\n", worst < 1e-3 ? "OK" : "MISMATCH");
  return worst < 1e-3 ? 0 : 1;
}
