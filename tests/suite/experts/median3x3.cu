// SPDX-License-Identifier: Apache-2.0
// Median of three by three pixels, against salt-and-pepper noise; the border is repeated.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int BLOCK_X = 32;
const int BLOCK_Y = 8;

constexpr int kRowsPerThread = 8;

__device__ __forceinline__ float median_of(float a, float b, float c) {
  return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
}

// Six numbers of a row, for four results at col.
__device__ __forceinline__ void load_row(float (&v)[6], const float* __restrict__ input, int row, int col, int width,
                                         int height) {
  const float* from = input + (size_t)min(max(row, 0), height - 1) * width;
  v[0] = from[max(col - 1, 0)];
  v[5] = from[min(col + 4, width - 1)];
  if (width % 4 == 0) {
    float4 m = *reinterpret_cast<const float4*>(from + col);
    v[1] = m.x;
    v[2] = m.y;
    v[3] = m.z;
    v[4] = m.w;
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) v[1 + j] = from[min(col + j, width - 1)];
  }
}

// Four results from the sorted pairs of the two middle rows and one row more.
__device__ __forceinline__ void median_row(float* __restrict__ output, const float (&low)[6], const float (&high)[6],
                                           const float (&v)[6], int row, int col, int width) {
  float least[6], middle[6], most[6], m[4];
#pragma unroll
  for (int j = 0; j < 6; j++) {
    float t = fmaxf(low[j], v[j]);
    least[j] = fminf(low[j], v[j]);
    middle[j] = fminf(t, high[j]);
    most[j] = fmaxf(t, high[j]);
  }
#pragma unroll
  for (int j = 0; j < 4; j++)
    m[j] = median_of(fmaxf(fmaxf(least[j], least[j + 1]), least[j + 2]), median_of(middle[j], middle[j + 1], middle[j + 2]),
                     fminf(fminf(most[j], most[j + 1]), most[j + 2]));
  float* to = output + (size_t)row * width + col;
  if (width % 4 == 0) {
    __stcs(reinterpret_cast<float4*>(to), make_float4(m[0], m[1], m[2], m[3]));
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (col + j < width) to[j] = m[j];
  }
}

// A thread walks down eight rows of four columns, two rows at a time; sorted columns are shared by neighbouring results.
__global__ void __launch_bounds__(256) medianFilter(const float* __restrict__ input, float* __restrict__ output,
                                                    int width, int height) {
  int col = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  int row = (blockIdx.y * blockDim.y + threadIdx.y) * kRowsPerThread;
  if (col >= width || row >= height) return;

  float above[6], first[6], second[6], below[6];
  load_row(above, input, row - 1, col, width, height);
  load_row(first, input, row, col, width, height);
#pragma unroll
  for (int r = 0; r < kRowsPerThread; r += 2) {
    if (row + r >= height) return;
    load_row(second, input, row + r + 1, col, width, height);
    load_row(below, input, row + r + 2, col, width, height);
    float low[6], high[6];
#pragma unroll
    for (int j = 0; j < 6; j++) {
      low[j] = fminf(first[j], second[j]);
      high[j] = fmaxf(first[j], second[j]);
    }
    median_row(output, low, high, above, row + r, col, width);
    if (row + r + 1 < height) median_row(output, low, high, below, row + r + 1, col, width);
#pragma unroll
    for (int j = 0; j < 6; j++) {
      above[j] = second[j];
      first[j] = below[j];
    }
  }
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
  dim3 grid((width + BLOCK_X * 4 - 1) / (BLOCK_X * 4), (height + BLOCK_Y * kRowsPerThread - 1) / (BLOCK_Y * kRowsPerThread));
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
