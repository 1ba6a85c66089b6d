# SPDX-License-Identifier: Apache-2.0
"""register-tile

Tile shared operands through shared memory, and let each thread compute several outputs of a product.

A thread with one output loads two operands for each multiply-add, and loads take longer than the arithmetic even
from shared memory. A thread with four by four outputs loads eight operands for sixteen. The grid shrinks with it.
How many outputs a thread has, how many threads a block, and how deep a tile is, are constants that may be tuned.

```cuda
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
      sum += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = sum;
  }
}
void run(const float* a, const float* b, float* c, int n) {
  dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
  matmul<<<grid, block>>>(a, b, c, n, n, n);
}
```

```cuda
constexpr int kTileDepth = 16;  // steps of k held at a time
constexpr int kThreadsX = 16;  // threads of a block along col
constexpr int kOutputsX = 4;  // outputs of a thread along col
constexpr int kTileX = kThreadsX * kOutputsX;
constexpr int kThreadsY = 16;  // threads of a block along row
constexpr int kOutputsY = 4;  // outputs of a thread along row
constexpr int kTileY = kThreadsY * kOutputsY;

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float tileA[kTileDepth][kTileY + 4];
  __shared__ float tileB[kTileDepth][kTileX];
  const int thread = threadIdx.y * kThreadsX + threadIdx.x;
  const int row0 = blockIdx.y * kTileY;
  const int col0 = blockIdx.x * kTileX;
  float sum[kOutputsY][kOutputsX] = {};
  for (int k0 = 0; k0 < K; k0 += kTileDepth) {
    for (int t = thread; t < kTileY * kTileDepth; t += kThreadsX * kThreadsY) {
      int row = row0 + t / kTileDepth;
      int k = k0 + t % kTileDepth;
      tileA[t % kTileDepth][t / kTileDepth] = row < M && k < K ? A[row * K + k] : 0.0f;
    }
    for (int t = thread; t < kTileDepth * kTileX; t += kThreadsX * kThreadsY) {
      int col = col0 + t % kTileX;
      int k = k0 + t / kTileX;
      tileB[t / kTileX][t % kTileX] = col < N && k < K ? B[k * N + col] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < kTileDepth; ++kk) {
      #pragma unroll
      for (int i = 0; i < kOutputsY; ++i) {
        #pragma unroll
        for (int j = 0; j < kOutputsX; ++j) {
          sum[i][j] += tileA[kk][threadIdx.y * kOutputsY + i] * tileB[kk][threadIdx.x * kOutputsX + j];
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < kOutputsY; ++i) {
    #pragma unroll
    for (int j = 0; j < kOutputsX; ++j) {
      int row = row0 + threadIdx.y * kOutputsY + i;
      int col = col0 + threadIdx.x * kOutputsX + j;
      if (row < M && col < N) C[row * N + col] = sum[i][j];
    }
  }
}
void run(const float* a, const float* b, float* c, int n) {
  dim3 block(kThreadsX, kThreadsY), grid((n + kTileX - 1) / kTileX, (n + kTileY - 1) / kTileY);
  matmul<<<grid, block>>>(a, b, c, n, n, n);
}
```

It takes any loop of that kind, as [shared-tile](shared-tile.md) does; all bodies acting on one get two of them a
thread. A sum keeps its order, so that results stay the same bit for bit, unless the compiler fuses other
multiplications and additions than before. A loop that goes up to the output's row or column, or begins there, as in a
product with a triangle, goes as far as any row of the block needs; elements beyond the diagonal are zero.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, of_shared_operands
from warplens_tools.rewrite.common.operand_tiles import read_product
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.ragged import ragged_axis
from warplens_tools.rewrite.common.reading import View, has_barrier, refusing
from warplens_tools.rewrite.common.tile_sides import Shape
from warplens_tools.rewrite.common.tile_writer import TileWriter

#: Sixteen by sixteen threads with four by four outputs: eight reads of shared memory, in two 16-byte loads, feed
#: sixteen multiply-adds.
_PLANE = Shape(threads=(16, 16), outputs=(4, 4), depth=16)
_LINE = Shape(threads=(128,), outputs=(2,), depth=128)


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if has_barrier(view) or view.kernel.arrays:
        raise Refused("the kernel shares memory already")
    launches, outputs = launched_outputs(view, strided=True)
    product = read_product(view, outputs, ragged=ragged_axis(view, outputs, outputs.work[0]))
    shape = _PLANE if len(product.outputs.axes) > 1 else _LINE
    return TileWriter(view, product, launches, shape).result("Tile through registers", "")


REWRITE = Rewrite(
    slug="register-tile",
    title="Tile the operands through shared memory, several outputs a thread",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "small-register-tile"),
    useless_at="dram",
    likely=of_shared_operands,
    chance=0.5,
    gain=4.0,
    ranges={
        "kTileDepth": (8, 16, 32),
        "kThreadsX": (8, 16, 32),
        "kThreadsY": (8, 16, 32),
        "kOutputsX": (1, 2, 4, 8),
        "kOutputsY": (1, 2, 4, 8),
        "kThreads": (64, 128, 256),
        "kOutputs": (1, 2, 4, 8),
    },
)
