// SPDX-License-Identifier: Apache-2.0
// Bilateral filter of a grey image with values in 0..1; pixels over the border repeat the last one.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void bilateral_filter(const float* src, float* dst, int width, int height, int radius, float sigma_space,
                                 float sigma_range) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;

  float center = src[y * width + x];
  float sum = 0.0f;
  float norm = 0.0f;
  for (int dy = -radius; dy <= radius; dy++) {
    for (int dx = -radius; dx <= radius; dx++) {
      int xx = min(max(x + dx, 0), width - 1);
      int yy = min(max(y + dy, 0), height - 1);
      float v = src[yy * width + xx];
      float diff = v - center;
      float weight = expf(-(dx * dx + dy * dy) / (2.0f * sigma_space * sigma_space)) *
                     expf(-(diff * diff) / (2.0f * sigma_range * sigma_range));
      sum += weight * v;
      norm += weight;
    }
  }
  dst[y * width + x] = sum / norm;
}

float bilateral_cpu(const std::vector<float>& src, int width, int height, int x, int y, int radius, float sigma_space,
                    float sigma_range) {
  double sum = 0, norm = 0, center = src[y * width + x];
  for (int dy = -radius; dy <= radius; dy++)
    for (int dx = -radius; dx <= radius; dx++) {
      int xx = std::min(std::max(x + dx, 0), width - 1), yy = std::min(std::max(y + dy, 0), height - 1);
      double v = src[yy * width + xx];
      double w = std::exp(-(dx * dx + dy * dy) / (2.0 * sigma_space * sigma_space) -
                          (v - center) * (v - center) / (2.0 * sigma_range * sigma_range));
      sum += w * v;
      norm += w;
    }
  return (float)(sum / norm);
}

int main(int argc, char** argv) {
  int width = argc > 1 ? atoi(argv[1]) : 2048;
  int height = argc > 2 ? atoi(argv[2]) : 2048;
  int radius = argc > 3 ? atoi(argv[3]) : 5;
  float sigma_space = 3.0f, sigma_range = 0.15f;

  std::vector<float> image(width * height), filtered(width * height);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      unsigned int noise = (x * 374761393u + y * 668265263u) * 1274126177u;
      float shade = ((x / 64 + y / 48) % 2) ? 0.7f : 0.2f;
      image[y * width + x] = shade + (noise >> 24) / 255.0f * 0.2f;
    }

  size_t bytes = image.size() * sizeof(float);
  float *d_src, *d_dst;
  cudaMalloc(&d_src, bytes);
  cudaMalloc(&d_dst, bytes);
  cudaMemcpy(d_src, image.data(), bytes, cudaMemcpyHostToDevice);

  dim3 block(16, 16);
  dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
  for (int i = 0; i < 10; i++)
    bilateral_filter<<<grid, block>>>(d_src, d_dst, width, height, radius, sigma_space, sigma_range);
  cudaMemcpy(filtered.data(), d_dst, bytes, cudaMemcpyDeviceToHost);

  int wrong = 0;
  for (int y = 0; y < height; y += 1 + height / 60)
    for (int x = 0; x < width; x += 1 + width / 60) {
      float want = bilateral_cpu(image, width, height, x, y, radius, sigma_space, sigma_range);
      if (std::fabs(want - filtered[y * width + x]) > 1e-4f) wrong++;
    }
  double average = 0;
  for (float v : filtered) average += v;
  printf("average %.4f, wrong pixels %d\n", average / filtered.size(), wrong);
  cudaFree(d_src);
  cudaFree(d_dst);
  return wrong > 0;
}
