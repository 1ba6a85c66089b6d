# SPDX-License-Identifier: Apache-2.0
"""shared-tile

Bring operands that the threads of a block share into shared memory, a tile at a time.

In the plain loop of a matrix product every thread loads both of its operands for one multiply-add. The threads of
a block read the same rows and columns, so one of them can load an element for all. Each block then loads a tile of
each operand together, and every thread takes its own from there. What lies outside the matrices is filled with
zeros. The launch keeps its shape.

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
constexpr int kThreadsY = 16;  // threads of a block along row

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float tileA[kTileDepth][kThreadsY + 4];
  __shared__ float tileB[kTileDepth][kThreadsX];
  const int thread = threadIdx.y * kThreadsX + threadIdx.x;
  const int row0 = blockIdx.y * kThreadsY;
  const int col0 = blockIdx.x * kThreadsX;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += kTileDepth) {
    for (int t = thread; t < kThreadsY * kTileDepth; t += kThreadsX * kThreadsY) {
      int row = row0 + t / kTileDepth;
      int k = k0 + t % kTileDepth;
      tileA[t % kTileDepth][t / kTileDepth] = row < M && k < K ? A[row * K + k] : 0.0f;
    }
    for (int t = thread; t < kTileDepth * kThreadsX; t += kThreadsX * kThreadsY) {
      int col = col0 + t % kThreadsX;
      int k = k0 + t / kThreadsX;
      tileB[t / kThreadsX][t % kThreadsX] = col < N && k < K ? B[k * N + col] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < kTileDepth; ++kk) {
      sum += tileA[kk][threadIdx.y] * tileB[kk][threadIdx.x];
    }
    __syncthreads();
  }
  int row = row0 + threadIdx.y;
  int col = col0 + threadIdx.x;
  if (row < M && col < N) C[row * N + col] = sum;
}
void run(const float* a, const float* b, float* c, int n) {
  dim3 block(kThreadsX, kThreadsY), grid((n + kThreadsX - 1) / kThreadsX, (n + kThreadsY - 1) / kThreadsY);
  matmul<<<grid, block>>>(a, b, c, n, n, n);
}
```

It takes any loop of that kind: transposed and batched products, pairwise distances, min-plus, all bodies acting on
one. Left alone: a loop that is left early, that stores, or in which a thread reads what no other one does; and
kernels whose launch is not in the file.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, of_shared_operands
from warplens_tools.rewrite.common.operand_tiles import read_product
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.ragged import ragged_axis
from warplens_tools.rewrite.common.reading import View, refusing, shares_memory
from warplens_tools.rewrite.common.tile_sides import Shape
from warplens_tools.rewrite.common.tile_writer import TileWriter

#: Where the launch does not fix its block.
_PLANE, _LINE = (16, 16), (256,)
#: A warp's width of the loop, where each thread has a row of the tile.
_DEEPEST = 32


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if shares_memory(view):
        raise Refused("the kernel shares memory already")
    launches, outputs = launched_outputs(view, strided=True)
    product = read_product(view, outputs, ragged=ragged_axis(view, outputs, outputs.work[0]))
    count = len(product.outputs.axes)
    threads = tuple(launches.block_value(axis) or 0 for axis in range(count))
    if 0 in threads or (count == 2 and threads[1] == 1):
        threads = _PLANE if count == 2 else _LINE
    is_line = count == 1 and all(o.axis is None for o in product.operands)
    depth = threads[0] if is_line else min(max(threads), _DEEPEST)
    shape = Shape(threads=threads, outputs=(1,) * count, depth=depth)
    return TileWriter(view, product, launches, shape).result("Tile the operands through shared memory", "")


REWRITE = Rewrite(
    slug="shared-tile",
    title="Tile the operands through shared memory",
    apply=refusing(_apply),
    answers=("missing-cache-reuse",),
    useless_at="dram",
    likely=of_shared_operands,
    chance=0.4,
    gain=2.0,
    ranges={
        "kTileDepth": (8, 16, 32, 64),
        "kThreadsX": (8, 16, 32),
        "kThreadsY": (8, 16, 32),
        "kThreads": (64, 128, 256, 512),
    },
)
