// SPDX-License-Identifier: Apache-2.0
// Direct convolution of images with several channels (NCHW).
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

constexpr int kTileX = 32, kTileY = 16, kFilters = 8, kMostTaps = 5;

// An output tile of 32 by 16 for eight filters a block: the input's tile is staged once a channel.
__global__ void __launch_bounds__(128) conv2d_nchw(const float* __restrict__ input, const float* __restrict__ filters,
                                                   const float* __restrict__ bias, float* __restrict__ output, int C,
                                                   int H, int W, int K, int R, int S) {
  __shared__ float tile[kTileY + kMostTaps - 1][kTileX + kMostTaps - 1];
  __shared__ float taps[kFilters][kMostTaps * kMostTaps];
  int OH = H - R + 1, OW = W - S + 1, groups = (K + kFilters - 1) / kFilters;
  int n = blockIdx.z / groups, k0 = blockIdx.z % groups * kFilters;
  int x0 = blockIdx.x * kTileX, y0 = blockIdx.y * kTileY, tx = threadIdx.x, ty = threadIdx.y;
  int thread = ty * 32 + tx;
  float sum[4][kFilters] = {};
  for (int c = 0; c < C; c++) {
    const float* plane = input + ((size_t)n * C + c) * H * W;
    for (int y = ty; y < kTileY + R - 1; y += 4)
      for (int x = tx; x < kTileX + S - 1; x += 32)
        tile[y][x] = y0 + y < H && x0 + x < W ? plane[(y0 + y) * W + x0 + x] : 0.0f;
    for (int i = thread; i < kFilters * R * S; i += 128) {
      int k = i / (R * S);
      taps[k][i % (R * S)] = k0 + k < K ? filters[((size_t)(k0 + k) * C + c) * R * S + i % (R * S)] : 0.0f;
    }
    __syncthreads();
    for (int r = 0; r < R; r++)
      for (int s = 0; s < S; s++) {
        float v[4];
#pragma unroll
        for (int q = 0; q < 4; q++) v[q] = tile[ty + 4 * q + r][tx + s];
#pragma unroll
        for (int k = 0; k < kFilters; k++) {
          float f = taps[k][r * S + s];
#pragma unroll
          for (int q = 0; q < 4; q++) sum[q][k] += v[q] * f;
        }
      }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < kFilters; k++)
#pragma unroll
    for (int q = 0; q < 4; q++) {
      int ow = x0 + tx, oh = y0 + ty + 4 * q;
      if (ow < OW && oh < OH && k0 + k < K) output[(((size_t)n * K + k0 + k) * OH + oh) * OW + ow] = sum[q][k] + bias[k0 + k];
    }
}

static float noise(int i) { return ((i * 1103515245u + 12345u) >> 16 & 0x7fff) / 32768.0f - 0.5f; }

int main(int argc, char** argv) {
  int N = 16, C = 32, H = 128, W = 128, K = 32, R = 3, S = 3;
  if (argc > 4) { N = atoi(argv[1]); C = atoi(argv[2]); H = W = atoi(argv[3]); K = atoi(argv[4]); }
  int OH = H - R + 1, OW = W - S + 1;
  size_t ni = (size_t)N * C * H * W, nf = (size_t)K * C * R * S, no = (size_t)N * K * OH * OW;
  float *in = (float*)malloc(ni * 4), *f = (float*)malloc(nf * 4), *b = (float*)malloc(K * 4), *out = (float*)malloc(no * 4);
  for (size_t i = 0; i < ni; i++) in[i] = noise(i);
  for (size_t i = 0; i < nf; i++) f[i] = noise(i + 77);
  for (int i = 0; i < K; i++) b[i] = noise(i + 5);
  float *d_in, *d_f, *d_b, *d_out;
  cudaMalloc(&d_in, ni * 4);
  cudaMalloc(&d_f, nf * 4);
  cudaMalloc(&d_b, K * 4);
  cudaMalloc(&d_out, no * 4);
  cudaMemcpy(d_in, in, ni * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(d_f, f, nf * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(d_b, b, K * 4, cudaMemcpyHostToDevice);
  dim3 block(32, 4, 1), grid((OW + kTileX - 1) / kTileX, (OH + kTileY - 1) / kTileY, N * ((K + kFilters - 1) / kFilters));
  for (int i = 0; i < 3; i++) conv2d_nchw<<<grid, block>>>(d_in, d_f, d_b, d_out, C, H, W, K, R, S);
  cudaMemcpy(out, d_out, no * 4, cudaMemcpyDeviceToHost);
  int errors = 0;
  for (size_t o = 0; o < no; o += 4099) {
    int ow = o % OW, oh = o / OW % OH, k = o / OW / OH % K, n = o / OW / OH / K;
    double want = b[k];
    for (int c = 0; c < C; c++)
      for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++)
          want += (double)in[((n * C + c) * H + oh + r) * W + ow + s] * f[((k * C + c) * R + r) * S + s];
    errors += fabs(want - out[o]) > 1e-4;
  }
  printf("errors %d\n", errors);
  return errors != 0;
}
