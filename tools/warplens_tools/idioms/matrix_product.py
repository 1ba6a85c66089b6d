# SPDX-License-Identifier: Apache-2.0
"""matrix-product

Multiply matrices in tiles, a block of outputs a thread, with the next tiles on their way meanwhile.

Rows of one array folded with columns of another, most often `C = A * B`: vectors of 16 bytes go from memory into registers
while the tiles before them are multiplied, then into shared memory, where two stages take turns. A thread reads vectors
there and keeps 8 by 8 outputs. What begins a sum and what is done with it stay the kernel's own: `alpha * sum + beta * C`,
a bias, an activation, a condition of its own, as does what the loop does with a pair: differences, minima, complex
numbers. Results go out in vectors where they are stored as they are. Elements that lie apart, or are not aligned, go one
by one; sizes may be any. A loop over tiles of shared memory is read as the plain loop that it stands for, and a loop over
the outputs of a row is made an axis of the threads first.

```cuda
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K, float beta) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum + beta * C[row * N + col];
  }
}
void run(const float* a, const float* b, float* c, int m, int n, int k) {
  dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);
  matmul<<<grid, block>>>(a, b, c, m, n, k, 0.5f);
}
```

```cuda
constexpr int kProductDepth = 16;  // steps of k held at a time
constexpr int kProductThreadsX = 16;  // threads of a block along col
constexpr int kProductOutputsX = 8;  // outputs of a thread along col
constexpr int kProductTileX = kProductThreadsX * kProductOutputsX;
constexpr int kProductThreadsY = 16;  // threads of a block along row
constexpr int kProductOutputsY = 8;  // outputs of a thread along row
constexpr int kProductTileY = kProductThreadsY * kProductOutputsY;
constexpr int kProductBlocks = 2;  // of a multiprocessor at a time, at least

__global__ void __launch_bounds__(kProductThreadsX * kProductThreadsY, kProductBlocks) matmul(const float* A, const float* B, float* C, int M, int N, int K, float beta) {
  __shared__ __align__(16) float tileA[2][kProductDepth][kProductTileY + 4];
  __shared__ __align__(16) float tileB[2][kProductDepth][kProductTileX];
  const int thread = threadIdx.y * kProductThreadsX + threadIdx.x;
  const int row0 = blockIdx.y * kProductTileY;
  const int col0 = blockIdx.x * kProductTileX;
  float sum[kProductOutputsY][kProductOutputsX] = {};
  constexpr int partsA = (kProductTileY * kProductDepth / 4 + kProductThreadsX * kProductThreadsY - 1) / (kProductThreadsX * kProductThreadsY);
  alignas(16) float nextA[partsA][4];
  constexpr int partsB = (kProductTileX * kProductDepth / 4 + kProductThreadsX * kProductThreadsY - 1) / (kProductThreadsX * kProductThreadsY);
  alignas(16) float nextB[partsB][4];
  auto fetch = [&](int k0) {
    #pragma unroll
    for (int p = 0; p < partsA; ++p) {
      const int t = thread + p * (kProductThreadsX * kProductThreadsY);
      {
        int row = row0 + t / (kProductDepth / 4);
        int k = k0 + t % (kProductDepth / 4) * 4;
        if (t < kProductTileY * kProductDepth / 4 && row < M && k + 3 < K && reinterpret_cast<size_t>(&A[row * K + k]) % 16 == 0) {
          *reinterpret_cast<float4*>(nextA[p]) = *reinterpret_cast<const float4*>(&A[row * K + k]);
          continue;
        }
      }
      #pragma unroll
      for (int e = 0; e < 4; ++e) {
        int row = row0 + t / (kProductDepth / 4);
        int k = k0 + t % (kProductDepth / 4) * 4 + e;
        nextA[p][e] = t < kProductTileY * kProductDepth / 4 && row < M && k < K ? A[row * K + k] : 0.0f;
      }
    }
    #pragma unroll
    for (int p = 0; p < partsB; ++p) {
      const int t = thread + p * (kProductThreadsX * kProductThreadsY);
      {
        int col = col0 + t % (kProductTileX / 4) * 4;
        int k = k0 + t / (kProductTileX / 4);
        if (t < kProductTileX * kProductDepth / 4 && col + 3 < N && k < K && reinterpret_cast<size_t>(&B[k * N + col]) % 16 == 0) {
          *reinterpret_cast<float4*>(nextB[p]) = *reinterpret_cast<const float4*>(&B[k * N + col]);
          continue;
        }
      }
      #pragma unroll
      for (int e = 0; e < 4; ++e) {
        int col = col0 + t % (kProductTileX / 4) * 4 + e;
        int k = k0 + t / (kProductTileX / 4);
        nextB[p][e] = t < kProductTileX * kProductDepth / 4 && col < N && k < K ? B[k * N + col] : 0.0f;
      }
    }
  };
  auto keep = [&](int stage) {
    #pragma unroll
    for (int p = 0; p < partsA; ++p) {
      const int t = thread + p * (kProductThreadsX * kProductThreadsY);
      if (t < kProductTileY * kProductDepth / 4) {
        #pragma unroll
        for (int e = 0; e < 4; ++e) tileA[stage][t % (kProductDepth / 4) * 4 + e][t / (kProductDepth / 4)] = nextA[p][e];
      }
    }
    #pragma unroll
    for (int p = 0; p < partsB; ++p) {
      const int t = thread + p * (kProductThreadsX * kProductThreadsY);
      if (t < kProductTileX * kProductDepth / 4) {
        *reinterpret_cast<float4*>(&tileB[stage][t / (kProductTileX / 4)][t % (kProductTileX / 4) * 4]) = *reinterpret_cast<float4*>(nextB[p]);
      }
    }
  };
  fetch(0);
  keep(0);
  __syncthreads();
  int now = 0;
  for (int k0 = 0; k0 < K; k0 += kProductDepth) {
    const bool more = k0 + kProductDepth < K;
    if (more) fetch(k0 + kProductDepth);
    #pragma unroll
    for (int kk = 0; kk < kProductDepth; ++kk) {
      alignas(16) float ownA[kProductOutputsY];
      #pragma unroll
      for (int i = 0; i < kProductOutputsY; i += 4) {
        *reinterpret_cast<float4*>(&ownA[i]) = *reinterpret_cast<const float4*>(&tileA[now][kk][i / 4 * (kProductThreadsY * 4) + threadIdx.y * 4]);
      }
      alignas(16) float ownB[kProductOutputsX];
      #pragma unroll
      for (int j = 0; j < kProductOutputsX; j += 4) {
        *reinterpret_cast<float4*>(&ownB[j]) = *reinterpret_cast<const float4*>(&tileB[now][kk][j / 4 * (kProductThreadsX * 4) + threadIdx.x * 4]);
      }
      #pragma unroll
      for (int i = 0; i < kProductOutputsY; ++i) {
        #pragma unroll
        for (int j = 0; j < kProductOutputsX; ++j) {
          sum[i][j] += ownA[i] * ownB[j];
        }
      }
    }
    if (more) keep(now ^ 1);
    __syncthreads();
    now ^= 1;
  }
  #pragma unroll
  for (int i = 0; i < kProductOutputsY; ++i) {
    #pragma unroll
    for (int j = 0; j < kProductOutputsX; j += 4) {
      int row = row0 + i / 4 * (kProductThreadsY * 4) + threadIdx.y * 4 + i % 4;
      {
        int col = col0 + j / 4 * (kProductThreadsX * 4) + threadIdx.x * 4;
        if (row < M && col + 3 < N && reinterpret_cast<size_t>(&C[row * N + col]) % 16 == 0) {
          alignas(16) float out[4];
          #pragma unroll
          for (int e = 0; e < 4; ++e) {
            int col = col0 + j / 4 * (kProductThreadsX * 4) + threadIdx.x * 4 + e;
            out[e] = sum[i][j + e] + beta * C[row * N + col];
          }
          *reinterpret_cast<uint4*>(&C[row * N + col]) = *reinterpret_cast<uint4*>(out);
          continue;
        }
      }
      #pragma unroll
      for (int e = 0; e < 4; ++e) {
        int col = col0 + j / 4 * (kProductThreadsX * 4) + threadIdx.x * 4 + e;
        if (row < M && col < N) C[row * N + col] = sum[i][j + e] + beta * C[row * N + col];
      }
    }
  }
}
void run(const float* a, const float* b, float* c, int m, int n, int k) {
  dim3 block(kProductThreadsX, kProductThreadsY), grid((n + kProductTileX - 1) / kProductTileX, (m + kProductTileY - 1) / kProductTileY);
  matmul<<<grid, block>>>(a, b, c, m, n, k, 0.5f);
}
```

How many outputs a thread has, how many threads a block, how deep a tile is, and for how many blocks at a time registers
must do, are constants that may be tuned. A sum keeps its order, so that results stay the same bit for bit, unless the
compiler fuses other multiplications and additions than before. Left alone: operands that rest on both axes of the outputs
or on none, loops that are left early, and matrices whose launch is not in the file. A loop that goes up to the output's row or
column, or begins there, as in a product with a triangle, goes as far as any row of the block needs.
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.idioms.common.product_forms import product_forms
from warplens_tools.idioms.common.product_writer import ProductWriter
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, of_shared_operands
from warplens_tools.rewrite.common.operand_tiles import read_product
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.ragged import ragged_axis
from warplens_tools.rewrite.common.reading import View, has_barrier, refusing

TITLE = "Multiply matrices in tiles, eight by eight outputs a thread"


def _written(view: View, target: Target) -> RewriteResult:
    del target
    if has_barrier(view) or view.kernel.arrays:
        raise Refused("the kernel shares memory already, or has arrays of its own")
    launches, outputs = launched_outputs(view, strided=True)
    product = read_product(view, outputs, ragged=ragged_axis(view, outputs, outputs.work[0]))
    return ProductWriter(view, product, launches).result(TITLE, "")


REWRITE = Rewrite(
    slug="matrix-product",
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
    likely=of_shared_operands,
    chance=0.7,
    gain=6.0,
    ranges={
        "kProductBlocks": (1, 2),
        "kProductDepth": (8, 16, 32),
        "kProductThreadsX": (8, 16),
        "kProductThreadsY": (8, 16),
        "kProductOutputsX": (4, 8),
        "kProductOutputsY": (4, 8),
    },
)
