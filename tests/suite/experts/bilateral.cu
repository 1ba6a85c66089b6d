// SPDX-License-Identifier: Apache-2.0
// Bilateral filter of a grey image with values in 0..1; pixels over the border repeat the last one.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTileX = 64, kTileY = 16;

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Four pixels of a row a thread, a tile and its border in shared memory. The pixels are scaled so that the weight of a
// difference d is 2^(-d*d); the weight of a row is taken once for all of it.
template <int kRadius>
__device__ __forceinline__ void bilateral_tile(const float* src, float* dst, int width, int height, float sigma_space,
                                               float sigma_range) {
  constexpr int kPitch = (kTileX + 2 * kRadius + 3) / 4 * 4 + 4, kRows = kTileY + 2 * kRadius;
  constexpr int kSpan = (4 + 2 * kRadius + 3) / 4 * 4;
  __shared__ __align__(16) float tile[kRows][kPitch];
  const float log2e = 1.44269504f;
  float space = log2e / (2.0f * sigma_space * sigma_space);
  float scale = sqrtf(log2e / (2.0f * sigma_range * sigma_range));
  int x0 = blockIdx.x * kTileX, y0 = blockIdx.y * kTileY;
  for (int r = threadIdx.y; r < kRows; r += blockDim.y) {
    int y = min(max(y0 + r - kRadius, 0), height - 1);
    for (int c = threadIdx.x; c < kPitch; c += blockDim.x)
      tile[r][c] = src[(size_t)y * width + min(max(x0 + c - kRadius, 0), width - 1)] * scale;
  }
  __syncthreads();

  float across[kRadius + 1];
#pragma unroll
  for (int d = 0; d <= kRadius; d++) across[d] = -(float)(d * d) * space;
  float center[4], sum[4] = {}, norm[4] = {};
#pragma unroll
  for (int j = 0; j < 4; j++) center[j] = tile[threadIdx.y + kRadius][threadIdx.x * 4 + kRadius + j];
#pragma unroll 1
  for (int dy = -kRadius; dy <= kRadius; dy++) {
    float v[kSpan];
    const float* row = &tile[threadIdx.y + kRadius + dy][threadIdx.x * 4];
#pragma unroll
    for (int i = 0; i < kSpan; i += 4) *reinterpret_cast<float4*>(v + i) = *reinterpret_cast<const float4*>(row + i);
    float down = exp2_fast(-(float)(dy * dy) * space);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float row_sum = 0.0f, row_norm = 0.0f;
#pragma unroll
      for (int i = 0; i <= 2 * kRadius; i++) {
        float diff = v[i + j] - center[j];
        float weight = exp2_fast(across[i < kRadius ? kRadius - i : i - kRadius] - diff * diff);
        row_sum += weight * v[i + j];
        row_norm += weight;
      }
      sum[j] += down * row_sum;
      norm[j] += down * row_norm;
    }
  }
  int x = x0 + threadIdx.x * 4, y = y0 + threadIdx.y;
  float back = 1.0f / scale;
  if (y < height) {
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (x + j < width) dst[(size_t)y * width + x + j] = __fdividef(sum[j], norm[j]) * back;
  }
}

__device__ __noinline__ void bilateral_any(const float* src, float* dst, int width, int height, int radius,
                                           float sigma_space, float sigma_range) {
  int y = blockIdx.y * kTileY + threadIdx.y;
  float space = -1.44269504f / (2.0f * sigma_space * sigma_space);
  float range = -1.44269504f / (2.0f * sigma_range * sigma_range);
  if (y >= height) return;
  for (int j = 0; j < 4; j++) {
    int x = blockIdx.x * kTileX + threadIdx.x + j * 16;
    if (x >= width) return;
    float center = src[(size_t)y * width + x], sum = 0.0f, norm = 0.0f;
    for (int dy = -radius; dy <= radius; dy++) {
      const float* row = src + (size_t)min(max(y + dy, 0), height - 1) * width;
      for (int dx = -radius; dx <= radius; dx++) {
        float v = row[min(max(x + dx, 0), width - 1)], diff = v - center;
        float weight = exp2_fast((dx * dx + dy * dy) * space + diff * diff * range);
        sum += weight * v;
        norm += weight;
      }
    }
    dst[(size_t)y * width + x] = sum / norm;
  }
}

__global__ void __launch_bounds__(256) bilateral_filter(const float* __restrict__ src, float* __restrict__ dst,
                                                        int width, int height, int radius, float sigma_space,
                                                        float sigma_range) {
  if (radius == 5)
    bilateral_tile<5>(src, dst, width, height, sigma_space, sigma_range);
  else
    bilateral_any(src, dst, width, height, radius, sigma_space, sigma_range);
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
  dim3 grid((width + kTileX - 1) / kTileX, (height + kTileY - 1) / kTileY);
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
