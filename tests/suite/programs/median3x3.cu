// SPDX-License-Identifier: Apache-2.0
// Median of three by three pixels, against salt-and-pepper noise; the border is repeated.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int BLOCK_X = 16;
const int BLOCK_Y = 16;

__global__ void medianFilter(const float* input, float* output, int width, int height) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= width || row >= height) return;

  float window[9];
  int n = 0;
  for (int i = -1; i <= 1; i++) {
    for (int j = -1; j <= 1; j++) {
      int r = min(max(row + i, 0), height - 1);
      int c = min(max(col + j, 0), width - 1);
      window[n++] = input[r * width + c];
    }
  }

  // bubble sort
  for (int i = 0; i < 9; i++) {
    for (int j = 0; j < 8 - i; j++) {
      if (window[j] > window[j + 1]) {
        float temp = window[j];
        window[j] = window[j + 1];
        window[j + 1] = temp;
      }
    }
  }
  output[row * width + col] = window[4];
}

int main(int argc, char* argv[]) {
  int width = argc > 1 ? atoi(argv[1]) : 8192;
  int height = argc > 2 ? atoi(argv[2]) : 4096;
  size_t pixels = (size_t)width * height;
  std::vector<float> image(pixels), result(pixels);
  unsigned int seed = 99;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      seed = seed * 1664525u + 1013904223u;
      unsigned int noise = seed >> 24;
      image[(size_t)y * width + x] = noise < 12 ? 0.0f : noise > 243 ? 255.0f : 100.0f + x * 0.01f + noise * 0.25f;
    }

  float *d_input, *d_output;
  cudaMalloc(&d_input, pixels * sizeof(float));
  cudaMalloc(&d_output, pixels * sizeof(float));
  cudaMemcpy(d_input, image.data(), pixels * sizeof(float), cudaMemcpyHostToDevice);

  dim3 block(BLOCK_X, BLOCK_Y);
  dim3 grid((width + BLOCK_X - 1) / BLOCK_X, (height + BLOCK_Y - 1) / BLOCK_Y);
  for (int frame = 0; frame < 20; frame++) medianFilter<<<grid, block>>>(d_input, d_output, width, height);
  cudaMemcpy(result.data(), d_output, pixels * sizeof(float), cudaMemcpyDeviceToHost);

  int mismatches = 0;
  auto check = [&](int x, int y) {
    float w[9];
    int n = 0;
    for (int i = -1; i <= 1; i++)
      for (int j = -1; j <= 1; j++)
        w[n++] = image[(size_t)std::min(std::max(y + i, 0), height - 1) * width + std::min(std::max(x + j, 0), width - 1)];
    std::nth_element(w, w + 4, w + 9);
    if (w[4] != result[(size_t)y * width + x]) mismatches++;
  };
  for (int y = 0; y < height; y += 1 + height / 256)
    for (int x = 0; x < width; x += 1 + width / 500) check(x, y);
  for (int x = 0; x < width; x++) {
    check(x, 0);
    check(x, height - 1);
  }
  double total = 0;
  for (float v : result) total += v;
  printf("mean %.4f mismatches %d\n", total / pixels, mismatches);
  return mismatches != 0;
}
