// SPDX-License-Identifier: Apache-2.0
// Turns rows of weights into cumulative distributions to sample from: the running sum of a row over its total.
#include <cuda_runtime.h>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kHeld = 4;  // fours of numbers that a thread keeps

template <typename T>
__device__ __forceinline__ T warp_scan(T v) {
#pragma unroll
  for (int o = 1; o < 32; o *= 2) {
    T below = __shfl_up_sync(0xffffffffu, v, o);
    if (threadIdx.x % 32 >= o) v += below;
  }
  return v;
}

// A block a row. Rows of up to 4096 numbers stay in registers; longer ones go in pieces, after their total.
template <typename T>
__global__ void __launch_bounds__(kThreads) cumulative_rows(const T* __restrict__ weights, T* __restrict__ cdf, int rows,
                                                            int cols) {
  static_assert(sizeof(T) == 4 && kHeld * kWarps == 32, "four numbers a load, a lane for each warp's sum");
  __shared__ T sums[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const T* w = weights + (size_t)blockIdx.x * cols;
  T* out = cdf + (size_t)blockIdx.x * cols;
  bool whole = cols % 4 == 0;
  constexpr int kPiece = kHeld * kThreads * 4;

  T total = 0;
  if (cols > kPiece) {
    for (int c = threadIdx.x; c < cols; c += kThreads) total += w[c];
#pragma unroll
    for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(0xffffffffu, total, o);
    if (lane == 0) sums[warp] = total;
    __syncthreads();
    total = 0;
    for (int i = 0; i < kWarps; i++) total += sums[i];
    __syncthreads();
  }

  T before = 0;
  for (int c0 = 0; c0 < cols; c0 += kPiece) {
    T held[kHeld][4], up_to[kHeld];
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
      int c = c0 + (k * kThreads + threadIdx.x) * 4;
      if (whole && c < cols) {
        float4 v = __ldcs(reinterpret_cast<const float4*>(w + c));
        *reinterpret_cast<float4*>(held[k]) = v;
      } else {
#pragma unroll
        for (int j = 0; j < 4; j++) held[k][j] = c + j < cols ? w[c + j] : (T)0;
      }
    }
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
#pragma unroll
      for (int j = 1; j < 4; j++) held[k][j] += held[k][j - 1];
      up_to[k] = warp_scan(held[k][3]);
      if (lane == 31) sums[k * kWarps + warp] = up_to[k];
    }
    __syncthreads();
    T mine = sums[lane], through = warp_scan(mine);
    T piece = __shfl_sync(0xffffffffu, through, 31);
    if (cols <= kPiece) total = piece;
    T scale = (T)1 / total;
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
      int slot = k * kWarps + warp;
      T base = before + __shfl_sync(0xffffffffu, through - mine, slot) + (up_to[k] - held[k][3]);
      int c = c0 + (k * kThreads + threadIdx.x) * 4;
      if (whole && c < cols) {
        __stcs(reinterpret_cast<float4*>(out + c), make_float4((base + held[k][0]) * scale, (base + held[k][1]) * scale,
                                                               (base + held[k][2]) * scale, (base + held[k][3]) * scale));
      } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
          if (c + j < cols) out[c + j] = (base + held[k][j]) * scale;
      }
    }
    before += piece;
    __syncthreads();
  }
}

// How often each eighth of the columns is drawn with one number per row, by bisection.
template <typename T>
__global__ void sample_rows(const T* cdf, int* drawn, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  T u = (T)((r * 2654435761u >> 8) + 0.5f) / (T)16777216;
  int low = 0, high = cols - 1;
  while (low < high) {
    int mid = (low + high) / 2;
    if (cdf[(size_t)r * cols + mid] < u)
      low = mid + 1;
    else
      high = mid;
  }
  atomicAdd(&drawn[low * 8LL / cols], 1);
}

int main(int argc, char** argv) {
  int rows = argc > 1 ? std::stoi(argv[1]) : 8192;
  int cols = argc > 2 ? std::stoi(argv[2]) : 4096;
  int threads = argc > 3 ? std::stoi(argv[3]) : 64;
  size_t total = (size_t)rows * cols;
  std::vector<float> weights(total), cdf(total);
  for (size_t i = 0; i < total; i++) weights[i] = 0.05f + (((unsigned int)i * 2246822519u) >> 20) * 0.001f;

  float *d_weights, *d_cdf;
  int *d_drawn, drawn[8];
  cudaMalloc(&d_weights, total * sizeof(float));
  cudaMalloc(&d_cdf, total * sizeof(float));
  cudaMalloc(&d_drawn, sizeof(drawn));
  cudaMemcpy(d_weights, weights.data(), total * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(d_drawn, 0, sizeof(drawn));

  int blocks = (rows + threads - 1) / threads;
  for (int i = 0; i < 10; i++) {
    cumulative_rows<float><<<rows, kThreads>>>(d_weights, d_cdf, rows, cols);
    sample_rows<float><<<blocks, threads>>>(d_cdf, d_drawn, rows, cols);
  }
  cudaMemcpy(cdf.data(), d_cdf, total * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(drawn, d_drawn, sizeof(drawn), cudaMemcpyDeviceToHost);

  double worst = 0;
  for (int r = 0; r < rows; r += 1 + rows / 200) {
    double sum = 0, running = 0;
    for (int c = 0; c < cols; c++) sum += weights[(size_t)r * cols + c];
    for (int c = 0; c < cols; c++) {
      running += weights[(size_t)r * cols + c];
      worst = std::fmax(worst, std::fabs(running / sum - cdf[(size_t)r * cols + c]));
    }
  }
  int draws = 0;
  for (int d : drawn) draws += d;
  bool good = worst < 1e-4 && draws == 10 * rows;
  std::cout << draws << " draws" << std::endl << (good ? "PASS" : "FAIL") << std::endl;
  cudaFree(d_weights);
  cudaFree(d_cdf);
  cudaFree(d_drawn);
  return good ? 0 : 1;
}
