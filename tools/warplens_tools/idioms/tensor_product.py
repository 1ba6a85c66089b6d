# SPDX-License-Identifier: Apache-2.0
"""tensor-product

Multiply matrices of half, bfloat16 or bytes on tensor cores, with the next tiles on their way meanwhile.

What [tensor-tile](../rewrites/tensor-tile.md) does, whose conditions hold here too, with tiles in several stages: while one
stage is multiplied, asynchronous copies of 16 bytes fill the next, and one barrier a step is enough. Elements that lie apart,
or are not aligned, go one by one. A loop over tiles of shared memory is read as the plain loop that it stands for, and a
loop over the outputs of a row is made an axis of the threads first.

```cuda
#include <cuda_fp16.h>

__global__ void linear(const half* x, const half* w, const float* bias, half* y, int rows, int cols, int inner) {
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows || c >= cols) return;
  float sum = 0.0f;
  for (int i = 0; i < inner; ++i) sum += __half2float(x[r * inner + i]) * __half2float(w[c * inner + i]);
  y[r * cols + c] = __float2half(fmaxf(sum + bias[c], 0.0f));
}
void run(const half* x, const half* w, const float* bias, half* y, int rows, int cols, int inner) {
  dim3 block(16, 16), grid((cols + 15) / 16, (rows + 15) / 16);
  linear<<<grid, block>>>(x, w, bias, y, rows, cols, inner);
}
```

```cuda
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

constexpr int kTensorDepth = 32;  // steps of i held at a time
constexpr int kTensorThreadsX = 32;  // threads of a block along c
constexpr int kTensorOutputsX = 4;  // outputs of a thread along c
constexpr int kTensorTileX = kTensorThreadsX * kTensorOutputsX;
constexpr int kTensorThreadsY = 8;  // threads of a block along r
constexpr int kTensorOutputsY = 16;  // outputs of a thread along r
constexpr int kTensorTileY = kTensorThreadsY * kTensorOutputsY;
constexpr int kTensorStages = 2;  // tiles of either operand that are held

__global__ void __launch_bounds__(kTensorThreadsX * kTensorThreadsY) linear(const half* x, const half* w, const float* bias, half* y, int rows, int cols, int inner) {
  constexpr int bytesX = sizeof(half) * kTensorStages * kTensorTileY * (kTensorDepth + 8);
  constexpr int bytesW = sizeof(half) * kTensorStages * kTensorTileX * (kTensorDepth + 8);
  __shared__ __align__(32) unsigned char memory[bytesX + bytesW > kTensorThreadsY * 1280 ? bytesX + bytesW : kTensorThreadsY * 1280];
  auto tileX = reinterpret_cast<half (*)[kTensorTileY][kTensorDepth + 8]>(memory);
  auto tileW = reinterpret_cast<half (*)[kTensorTileX][kTensorDepth + 8]>(memory + bytesX);
  const int thread = threadIdx.y * kTensorThreadsX + threadIdx.x;
  const int r0 = blockIdx.y * kTensorTileY;
  const int c0 = blockIdx.x * kTensorTileX;
  const int warpRow = threadIdx.y / 2 * (kTensorTileY / 4);
  const int warpColumn = threadIdx.y % 2 * (kTensorTileX / 2);
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sumTiles[kTensorTileY / 64][kTensorTileX / 32];
  #pragma unroll
  for (int i2 = 0; i2 < kTensorTileY / 64; ++i2) {
    #pragma unroll
    for (int j = 0; j < kTensorTileX / 32; ++j) {
      nvcuda::wmma::fill_fragment(sumTiles[i2][j], 0.0f);
    }
  }
  auto fetch = [&](int stage, int i0) {
    for (int t = thread; t < kTensorTileY * (kTensorDepth / 8); t += kTensorThreadsX * kTensorThreadsY) {
      {
        int r = r0 + t / (kTensorDepth / 8);
        int i = i0 + t % (kTensorDepth / 8) * 8;
        if (r < rows && i + 7 < inner && reinterpret_cast<size_t>(&x[r * inner + i]) % 16 == 0) {
          __pipeline_memcpy_async(&tileX[stage][t / (kTensorDepth / 8)][t % (kTensorDepth / 8) * 8], &x[r * inner + i], 16);
          continue;
        }
      }
      for (int e = 0; e < 8; ++e) {
        int r = r0 + t / (kTensorDepth / 8);
        int i = i0 + t % (kTensorDepth / 8) * 8 + e;
        tileX[stage][t / (kTensorDepth / 8)][t % (kTensorDepth / 8) * 8 + e] = r < rows && i < inner ? x[r * inner + i] : half{};
      }
    }
    for (int t = thread; t < kTensorTileX * (kTensorDepth / 8); t += kTensorThreadsX * kTensorThreadsY) {
      {
        int c = c0 + t / (kTensorDepth / 8);
        int i = i0 + t % (kTensorDepth / 8) * 8;
        if (c < cols && i + 7 < inner && reinterpret_cast<size_t>(&w[c * inner + i]) % 16 == 0) {
          __pipeline_memcpy_async(&tileW[stage][t / (kTensorDepth / 8)][t % (kTensorDepth / 8) * 8], &w[c * inner + i], 16);
          continue;
        }
      }
      for (int e = 0; e < 8; ++e) {
        int c = c0 + t / (kTensorDepth / 8);
        int i = i0 + t % (kTensorDepth / 8) * 8 + e;
        tileW[stage][t / (kTensorDepth / 8)][t % (kTensorDepth / 8) * 8 + e] = c < cols && i < inner ? w[c * inner + i] : half{};
      }
    }
  };
  for (int stage = 0; stage + 1 < kTensorStages; ++stage) {
    const int next = stage * kTensorDepth;
    if (next < inner) fetch(stage, next);
    __pipeline_commit();
  }
  int now = 0;
  for (int i0 = 0; i0 < inner; i0 += kTensorDepth) {
    __pipeline_wait_prior(kTensorStages - 2);
    __syncthreads();
    const int next = i0 + (kTensorStages - 1) * kTensorDepth;
    if (next < inner) fetch((now + kTensorStages - 1) % kTensorStages, next);
    __pipeline_commit();
    #pragma unroll
    for (int ii = 0; ii < kTensorDepth; ii += 16) {
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> aPart[kTensorTileY / 64];
      #pragma unroll
      for (int i2 = 0; i2 < kTensorTileY / 64; ++i2) nvcuda::wmma::load_matrix_sync(aPart[i2], &tileX[now][warpRow + i2 * 16][ii], kTensorDepth + 8);
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> bPart[kTensorTileX / 32];
      #pragma unroll
      for (int j = 0; j < kTensorTileX / 32; ++j) nvcuda::wmma::load_matrix_sync(bPart[j], &tileW[now][warpColumn + j * 16][ii], kTensorDepth + 8);
      #pragma unroll
      for (int i2 = 0; i2 < kTensorTileY / 64; ++i2) {
        #pragma unroll
        for (int j = 0; j < kTensorTileX / 32; ++j) {
          nvcuda::wmma::mma_sync(sumTiles[i2][j], aPart[i2], bPart[j], sumTiles[i2][j]);
        }
      }
    }
    now = (now + 1) % kTensorStages;
  }
  __syncthreads();
  auto staged = reinterpret_cast<float (*)[16][20]>(memory);
  #pragma unroll
  for (int i2 = 0; i2 < kTensorTileY / 64; ++i2) {
    #pragma unroll
    for (int j = 0; j < kTensorTileX / 32; ++j) {
      nvcuda::wmma::store_matrix_sync(&staged[threadIdx.y][0][0], sumTiles[i2][j], 20, nvcuda::wmma::mem_row_major);
      __syncwarp();
      for (int e = threadIdx.x; e < 256; e += 32) {
        int r = r0 + warpRow + i2 * 16 + e / 16;
        int c = c0 + warpColumn + j * 16 + e % 16;
        if (r < rows && c < cols) {
          float sum = staged[threadIdx.y][e / 16][e % 16];
          y[r * cols + c] = __float2half(fmaxf(sum + bias[c], 0.0f));
        }
      }
      __syncwarp();
    }
  }
}
void run(const half* x, const half* w, const float* bias, half* y, int rows, int cols, int inner) {
  dim3 block(kTensorThreadsX, kTensorThreadsY), grid((cols + kTensorTileX - 1) / kTensorTileX, (rows + kTensorTileY - 1) / kTensorTileY);
  linear<<<grid, block>>>(x, w, bias, y, rows, cols, inner);
}
```

Products of two such numbers are exact in float, in which they are added up, in another order than before; bytes are added
up in `int`, bit for bit as before.
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.idioms.common.product_forms import product_forms
from warplens_tools.idioms.common.staged_writer import StagedWriter
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.operand_tiles import read_product
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.reading import View, has_barrier, refusing
from warplens_tools.rewrite.common.tensor_sums import caveat_of

TITLE = "Multiply on tensor cores, the next tiles on their way"


def _written(view: View, target: Target) -> RewriteResult:
    del target
    if has_barrier(view) or view.kernel.arrays:
        raise Refused("the kernel shares memory already")
    launches, outputs = launched_outputs(view, strided=True)
    writer = StagedWriter(view, read_product(view, outputs), launches)
    return writer.result(TITLE, caveat_of(writer.kind))


REWRITE = Rewrite(
    slug="tensor-product",
    title=TITLE,
    apply=product_forms(refusing(_written), __name__),
    answers=(
        "missing-cache-reuse",
        "small-register-tile",
        "low-ilp",
        "shared-bank-conflicts",
        "barrier-heavy",
    ),
    useless_at="dram",
    chance=0.7,
    gain=24.0,
    ranges={
        "kTensorDepth": (16, 32),
        "kTensorStages": (2, 3),
        "kTensorOutputsX": (1, 2, 4, 8),
        "kTensorOutputsY": (8, 16),
        "kTensorThreadsX": (),
        "kTensorThreadsY": (),
    },
)
