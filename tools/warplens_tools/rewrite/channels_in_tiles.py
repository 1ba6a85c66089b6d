# SPDX-License-Identifier: Apache-2.0
"""channels-in-tiles

Work out several channels of several outputs a thread.

A layer's thread loads an input and a weight for each product. With four channels of one output
([several-channels](several-channels.md)) it loads five for four products, with four channels of four outputs
([several-outputs](several-outputs.md) behind it) eight for sixteen. What it reads is told to be inside once for all of
them ([inside-without-tests](inside-without-tests.md)), so that no product waits for a test.

```cuda
__global__ void conv(const float* in, const float* weights, float* out, int C, int H, int W, int K, int R) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int k = blockIdx.z;
  if (x >= W || y >= H) return;
  float sum = 0.0f;
  for (int c = 0; c < C; ++c) {
    for (int r = 0; r < R; ++r) {
      int row = y + r - R / 2;
      if (row >= 0 && row < H) sum += in[(c * H + row) * W + x] * weights[(k * C + c) * R + r];
    }
  }
  out[(k * H + y) * W + x] = sum;
}
void run(const float* in, const float* weights, float* out, int C, int H, int W, int K, int R) {
  dim3 block(32, 8), grid((W + 31) / 32, (H + 7) / 8, K);
  conv<<<grid, block>>>(in, weights, out, C, H, W, K, R);
}
```

```cuda
constexpr int kOutputs = 4;  // of a thread

constexpr int kOutputs2 = 4;  // of a thread

__global__ void conv(const float* __restrict__ in, const float* __restrict__ weights, float* __restrict__ out, int C, int H, int W, int K, int R) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int k0 = blockIdx.z * kOutputs;
  if (x >= W) return;
  const int y0 = (blockIdx.y * blockDim.y + threadIdx.y) * kOutputs2;
  float sum[kOutputs2][kOutputs] = {};
  const bool inside = k0 + (kOutputs - 1) < K &&
      y0 + (kOutputs2 - 1) < H &&
      (y0 - R / 2) >= 0 &&
      ((y0 + (kOutputs2 - 1)) + (R - 1) - R / 2) < H;
  if (inside) {
    for (int c = 0; c < C; ++c) {
      for (int r = 0; r < R; ++r) {
        #pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          int k = k0 + o;
          #pragma unroll
          for (int o2 = 0; o2 < kOutputs2; ++o2) {
            int y = y0 + o2;
            int row = y + r - R / 2;
            sum[o2][o] += in[(c * H + row) * W + x] * weights[(k * C + c) * R + r];
          }
        }
      }
    }
    #pragma unroll
    for (int o2 = 0; o2 < kOutputs2; ++o2) {
      int y = y0 + o2;
      {
        #pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          int k = k0 + o;
          out[(k * H + y) * W + x] = sum[o2][o];
        }
      }
    }
  } else {
    for (int c = 0; c < C; ++c) {
      for (int r = 0; r < R; ++r) {
        #pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          int k = k0 + o < K ? k0 + o : K - 1;
          #pragma unroll
          for (int o2 = 0; o2 < kOutputs2; ++o2) {
            int y = y0 + o2 < H ? y0 + o2 : H - 1;
            int row = y + r - R / 2;
            if (row >= 0 && row < H) sum[o2][o] += in[(c * H + row) * W + x] * weights[(k * C + c) * R + r];
          }
        }
      }
    }
    #pragma unroll
    for (int o2 = 0; o2 < kOutputs2; ++o2) {
      int y = y0 + o2;
      if (y < H) {
        #pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          int k = k0 + o;
          if (k < K) out[(k * H + y) * W + x] = sum[o2][o];
        }
      }
    }
  }
}
void run(const float* in, const float* weights, float* out, int C, int H, int W, int K, int R) {
  dim3 block(32, 8), grid((W + 31) / 32, ((H + 7) / 8 + kOutputs2 - 1) / kOutputs2, (K + kOutputs - 1) / kOutputs);
  conv<<<grid, block>>>(in, weights, out, C, H, W, K, R);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import inside_without_tests, several_channels, several_outputs
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(several_channels.REWRITE, several_outputs.REWRITE, inside_without_tests.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Work out several channels of several outputs a thread",
    answers=several_channels.REWRITE.answers,
    useless_at="dram",
    chance=0.5,
    gain=4.0,
    ranges=several_channels.REWRITE.ranges,
)
