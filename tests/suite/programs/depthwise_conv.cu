// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of an NCHW tensor, stride 1, "same" padding, as in a mobile network's block.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

template <int kSize>
__global__ void depthwise_conv_forward(const float* input, const float* weight, const float* bias, float* output,
                                       int batch, int channels, int height, int width) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  int total = batch * channels * height * width;
  if (index >= total) return;

  int w = index % width;
  int h = (index / width) % height;
  int c = (index / width / height) % channels;
  int n = index / width / height / channels;
  const int pad = kSize / 2;

  float value = bias[c];
  const float* plane = input + (size_t)(n * channels + c) * height * width;
  const float* k = weight + c * kSize * kSize;
  for (int i = 0; i < kSize; i++) {
    for (int j = 0; j < kSize; j++) {
      int hi = h - pad + i;
      int wi = w - pad + j;
      if (hi >= 0 && hi < height && wi >= 0 && wi < width) value += plane[hi * width + wi] * k[i * kSize + j];
    }
  }
  output[index] = value;
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

  const int threads = 256;
  int blocks = (total + threads - 1) / threads;
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
