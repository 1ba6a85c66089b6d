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

// A thread normalises one group of one sample.
__global__ void group_norm_forward(const __half* __restrict__ x, const __half* __restrict__ weight,
                                   const __half* __restrict__ bias, __half* __restrict__ y, int N, int C, int HW,
                                   int groups, float eps) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= N * groups) return;
  int g = index % groups;
  int channels = C / groups;
  int size = channels * HW;
  size_t base = (size_t)index * size;

  float sum = 0.0f, sum_sq = 0.0f;
  for (int i = 0; i < size; i++) {
    float v = __half2float(x[base + i]);
    sum += v;
    sum_sq += v * v;
  }
  float mean = sum / size;
  float var = sum_sq / size - mean * mean;
  float rstd = rsqrtf(var + eps);

  for (int c = 0; c < channels; c++) {
    float w = __half2float(weight[g * channels + c]);
    float b = __half2float(bias[g * channels + c]);
    for (int i = 0; i < HW; i++) {
      float v = __half2float(x[base + c * HW + i]);
      y[base + c * HW + i] = __float2half((v - mean) * rstd * w + b);
    }
  }
}

int main(int argc, char** argv) {
  int N = argc > 1 ? atoi(argv[1]) : 256;
  int C = argc > 2 ? atoi(argv[2]) : 128;
  int side = argc > 3 ? atoi(argv[3]) : 32;
  int groups = argc > 4 ? atoi(argv[4]) : 32;
  const int block_size = 128;
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

  int blocks = (N * groups + block_size - 1) / block_size;
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
