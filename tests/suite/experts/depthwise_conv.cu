// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of an NCHW tensor, stride 1, "same" padding, as in a mobile network's block.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kStrip = 28;  // rows of results a thread makes

// What four neighbouring results at x need of one row, zero outside.
template <int kPad>
__device__ __forceinline__ void load_row(float (&v)[4 + 2 * kPad], const float* plane, int y, int x, int height,
                                         int width) {
  bool inside = y >= 0 && y < height;
  const float* row = plane + (inside ? y * width : 0);
#pragma unroll
  for (int j = 0; j < kPad; j++) {
    v[j] = inside && x - kPad + j >= 0 ? row[x - kPad + j] : 0.0f;
    v[4 + kPad + j] = inside && x + 4 + j < width ? row[x + 4 + j] : 0.0f;
  }
  if (width % 4 == 0) {
    float4 m = inside ? *reinterpret_cast<const float4*>(row + x) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    v[kPad] = m.x;
    v[kPad + 1] = m.y;
    v[kPad + 2] = m.z;
    v[kPad + 3] = m.w;
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) v[kPad + j] = inside && x + j < width ? row[x + j] : 0.0f;
  }
}

// A thread makes four columns of a strip: each row of the input is loaded once, two rows ahead, and added to all the
// rows of results it belongs to.
template <int kSize>
__global__ void __launch_bounds__(128, 5)
    depthwise_conv_forward(const float* __restrict__ input, const float* __restrict__ weight,
                           const float* __restrict__ bias, float* __restrict__ output, int batch, int channels,
                           int height, int width) {
  constexpr int kPad = kSize / 2, kSpan = 4 + 2 * kPad;
  int quads = (width + 3) / 4, strips = (height + kStrip - 1) / kStrip;
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= batch * channels * strips * quads) return;
  int x = index % quads * 4;
  int y0 = index / quads % strips * kStrip;
  int p = index / quads / strips;
  int c = p % channels;
  const float* plane = input + (size_t)p * height * width;
  float* to = output + (size_t)p * height * width;

  float w[kSize][kSize];
#pragma unroll
  for (int i = 0; i < kSize * kSize; i++) w[i / kSize][i % kSize] = weight[c * kSize * kSize + i];
  float b = bias[c];
  float sum[kSize][4];  // of the rows of results that are still open, the oldest first
#pragma unroll
  for (int i = 0; i < kSize; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) sum[i][j] = b;

  float now[kSpan], soon[kSpan], later[kSpan];
  load_row<kPad>(now, plane, y0 - kPad, x, height, width);
  load_row<kPad>(soon, plane, y0 - kPad + 1, x, height, width);
#pragma unroll 8
  for (int r = 0; r < kStrip + 2 * kPad; r++) {
    int y = y0 - kPad + r;
    load_row<kPad>(later, plane, y + 2, x, height, width);
#pragma unroll
    for (int s = 0; s < kSize; s++)
#pragma unroll
      for (int k = 0; k < kSize; k++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[s][j] += now[j + k] * w[kSize - 1 - s][k];
    int done = y - kPad;
    if (done >= y0 && done < height) {
      float* row = to + done * width + x;
      if (width % 4 == 0) {
        __stcs(reinterpret_cast<float4*>(row), make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]));
      } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
          if (x + j < width) row[j] = sum[0][j];
      }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
      for (int s = 0; s + 1 < kSize; s++) sum[s][j] = sum[s + 1][j];
      sum[kSize - 1][j] = b;
    }
#pragma unroll
    for (int j = 0; j < kSpan; j++) {
      now[j] = soon[j];
      soon[j] = later[j];
    }
  }
}

int main(int argc, char** argv) {
  constexpr int K = 5;
  int batch = argc > 1 ? atoi(argv[1]) : 16;
  int channels = argc > 2 ? atoi(argv[2]) : 192;
  int height = argc > 3 ? atoi(argv[3]) : 112;
  int width = argc > 4 ? atoi(argv[4]) : height;

  size_t total = (size_t)batch * channels * height * width;
  std::vector<float> input(total), output(total), weight(channels * K * K), bias(channels);
  unsigned int seed = 12345;
  for (auto& v : input) {
    seed = seed * 1664525u + 1013904223u;
    v = (seed >> 16) * (1.0f / 32768.0f) - 1.0f;
  }
  for (size_t i = 0; i < weight.size(); i++) weight[i] = 0.1f * std::sin(0.7f * i);
  for (int c = 0; c < channels; c++) bias[c] = 0.01f * c;

  float *d_input, *d_output, *d_weight, *d_bias;
  cudaMalloc(&d_input, total * sizeof(float));
  cudaMalloc(&d_output, total * sizeof(float));
  cudaMalloc(&d_weight, weight.size() * sizeof(float));
  cudaMalloc(&d_bias, channels * sizeof(float));
  cudaMemcpy(d_input, input.data(), total * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_weight, weight.data(), weight.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_bias, bias.data(), channels * sizeof(float), cudaMemcpyHostToDevice);

  const int threads = 128;
  int items = batch * channels * ((height + kStrip - 1) / kStrip) * ((width + 3) / 4);
  int blocks = (items + threads - 1) / threads;
  for (int iter = 0; iter < 20; iter++) {
    depthwise_conv_forward<K><<<blocks, threads>>>(d_input, d_weight, d_bias, d_output, batch, channels, height, width);
  }
  cudaMemcpy(output.data(), d_output, total * sizeof(float), cudaMemcpyDeviceToHost);

  // A few planes on the CPU.
  float max_diff = 0;
  int planes = batch * channels;
  for (int p = 0; p < planes; p += 1 + planes / 8) {
    int c = p % channels;
    const float* in = &input[(size_t)p * height * width];
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        float want = bias[c];
        for (int i = 0; i < K; i++)
          for (int j = 0; j < K; j++) {
            int yy = y + i - K / 2, xx = x + j - K / 2;
            if (yy >= 0 && yy < height && xx >= 0 && xx < width) want += in[yy * width + xx] * weight[(c * K + i) * K + j];
          }
        max_diff = fmaxf(max_diff, fabsf(want - output[((size_t)p * height + y) * width + x]));
      }
  }
  if (max_diff < 1e-4f)
    printf("Test passed\n");
  else
    printf("Test failed, max difference %g\n", max_diff);
  cudaFree(d_input);
  cudaFree(d_output);
  cudaFree(d_weight);
  cudaFree(d_bias);
  return max_diff < 1e-4f ? 0 : 1;
}
