# SPDX-License-Identifier: Apache-2.0
"""tensor-tile

Multiply matrices of half, bfloat16 or bytes on tensor cores.

Where a product's operands are half or bfloat16 and its sum is float, tensor cores do the same: products are exact,
and are added up in float, 16 by 16 by 16 of them at a time. Each block fills tiles of both operands in shared memory,
each of its eight warps multiplies 32 by 64 outputs of them, and what the kernel does with a sum stays as it is.

```cuda
#include <cuda_fp16.h>

__global__ void matmul(const half* A, const half* B, half* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
      sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    }
    C[row * N + col] = __float2half(sum);
  }
}
void run(const half* A, const half* B, half* C, int M, int N, int K) {
  dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
  matmul<<<grid, block>>>(A, B, C, M, N, K);
}
```

```cuda
#include <cuda_fp16.h>
#include <mma.h>

constexpr int kTensorDepth = 32;  // steps of k held at a time
constexpr int kTensorThreadsX = 32;  // threads of a block along col
constexpr int kTensorOutputsX = 4;  // outputs of a thread along col
constexpr int kTensorTileX = kTensorThreadsX * kTensorOutputsX;
constexpr int kTensorThreadsY = 8;  // threads of a block along row
constexpr int kTensorOutputsY = 16;  // outputs of a thread along row
constexpr int kTensorTileY = kTensorThreadsY * kTensorOutputsY;

__global__ void matmul(const half* A, const half* B, half* C, int M, int N, int K) {
  __shared__ __align__(32) half tileA[kTensorTileY][kTensorDepth + 8];
  __shared__ __align__(32) half tileB[kTensorDepth][kTensorTileX + 8];
  const int thread = threadIdx.y * kTensorThreadsX + threadIdx.x;
  const int row0 = blockIdx.y * kTensorTileY;
  const int col0 = blockIdx.x * kTensorTileX;
  const int warpRow = threadIdx.y / 2 * (kTensorTileY / 4);
  const int warpColumn = threadIdx.y % 2 * (kTensorTileX / 2);
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sumTiles[kTensorTileY / 64][kTensorTileX / 32];
  #pragma unroll
  for (int i = 0; i < kTensorTileY / 64; ++i) {
    #pragma unroll
    for (int j = 0; j < kTensorTileX / 32; ++j) {
      nvcuda::wmma::fill_fragment(sumTiles[i][j], 0.0f);
    }
  }
  for (int k0 = 0; k0 < K; k0 += kTensorDepth) {
    for (int t = thread; t < kTensorTileY * (kTensorDepth / 8); t += kTensorThreadsX * kTensorThreadsY) {
      {
        int row = row0 + t / (kTensorDepth / 8);
        int k = k0 + t % (kTensorDepth / 8) * 8;
        if (row < M && k + 7 < K && reinterpret_cast<size_t>(&A[row * K + k]) % 16 == 0) {
          *reinterpret_cast<uint4*>(&tileA[t / (kTensorDepth / 8)][t % (kTensorDepth / 8) * 8]) = *reinterpret_cast<const uint4*>(&A[row * K + k]);
          continue;
        }
      }
      for (int e = 0; e < 8; ++e) {
        int row = row0 + t / (kTensorDepth / 8);
        int k = k0 + t % (kTensorDepth / 8) * 8 + e;
        tileA[t / (kTensorDepth / 8)][t % (kTensorDepth / 8) * 8 + e] = row < M && k < K ? A[row * K + k] : half{};
      }
    }
    for (int t = thread; t < kTensorDepth * (kTensorTileX / 8); t += kTensorThreadsX * kTensorThreadsY) {
      {
        int col = col0 + t % (kTensorTileX / 8) * 8;
        int k = k0 + t / (kTensorTileX / 8);
        if (col + 7 < N && k < K && reinterpret_cast<size_t>(&B[k * N + col]) % 16 == 0) {
          *reinterpret_cast<uint4*>(&tileB[t / (kTensorTileX / 8)][t % (kTensorTileX / 8) * 8]) = *reinterpret_cast<const uint4*>(&B[k * N + col]);
          continue;
        }
      }
      for (int e = 0; e < 8; ++e) {
        int col = col0 + t % (kTensorTileX / 8) * 8 + e;
        int k = k0 + t / (kTensorTileX / 8);
        tileB[t / (kTensorTileX / 8)][t % (kTensorTileX / 8) * 8 + e] = col < N && k < K ? B[k * N + col] : half{};
      }
    }
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < kTensorDepth; kk += 16) {
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> aPart[kTensorTileY / 64];
      #pragma unroll
      for (int i = 0; i < kTensorTileY / 64; ++i) nvcuda::wmma::load_matrix_sync(aPart[i], &tileA[warpRow + i * 16][kk], kTensorDepth + 8);
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> bPart[kTensorTileX / 32];
      #pragma unroll
      for (int j = 0; j < kTensorTileX / 32; ++j) nvcuda::wmma::load_matrix_sync(bPart[j], &tileB[kk][warpColumn + j * 16], kTensorTileX + 8);
      #pragma unroll
      for (int i = 0; i < kTensorTileY / 64; ++i) {
        #pragma unroll
        for (int j = 0; j < kTensorTileX / 32; ++j) {
          nvcuda::wmma::mma_sync(sumTiles[i][j], aPart[i], bPart[j], sumTiles[i][j]);
        }
      }
    }
    __syncthreads();
  }
  __shared__ __align__(32) float staged[kTensorThreadsY][16][20];
  #pragma unroll
  for (int i = 0; i < kTensorTileY / 64; ++i) {
    #pragma unroll
    for (int j = 0; j < kTensorTileX / 32; ++j) {
      nvcuda::wmma::store_matrix_sync(&staged[threadIdx.y][0][0], sumTiles[i][j], 20, nvcuda::wmma::mem_row_major);
      __syncwarp();
      for (int e = threadIdx.x; e < 256; e += 32) {
        int row = row0 + warpRow + i * 16 + e / 16;
        int col = col0 + warpColumn + j * 16 + e % 16;
        if (row < M && col < N) {
          float sum = staged[threadIdx.y][e / 16][e % 16];
          C[row * N + col] = __float2half(sum);
        }
      }
      __syncwarp();
    }
  }
}
void run(const half* A, const half* B, half* C, int M, int N, int K) {
  dim3 block(kTensorThreadsX, kTensorThreadsY), grid((N + kTensorTileX - 1) / kTensorTileX, (M + kTensorTileY - 1) / kTensorTileY);
  matmul<<<grid, block>>>(A, B, C, M, N, K);
}
```

Bytes are multiplied and added up in `int`, bit for bit as before. Sums that a kernel keeps in half or bfloat16, and
rounds at every step, are kept in float. Left alone: products that are rounded to half before they are added up in
float, that are scaled inside the loop, and other types, which tensor cores would round.
"""  # noqa: E501

from __future__ import annotations

import msgspec

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.operand_tiles import read_product
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.reading import View, has_barrier, refusing
from warplens_tools.rewrite.common.tensor_sums import caveat_of
from warplens_tools.rewrite.common.tensor_writer import TensorWriter, including


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if has_barrier(view) or view.kernel.arrays:
        raise Refused("the kernel shares memory already")
    launches, outputs = launched_outputs(view, strided=True)
    writer = TensorWriter(view, read_product(view, outputs), launches)
    result = writer.result("Multiply on tensor cores", caveat_of(writer.kind))
    return msgspec.structs.replace(result, edits=(*including(view.text, "mma.h"), *result.edits))


REWRITE = Rewrite(
    slug="tensor-tile",
    title="Multiply matrices of half, bfloat16 or bytes on tensor cores",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "small-register-tile"),
    useless_at="dram",
    chance=0.6,
    gain=16.0,
    ranges={
        "kTensorDepth": (16, 32, 64),
        "kTensorOutputsX": (1, 2, 4),
        "kTensorOutputsY": (8, 16),
        "kTensorThreadsX": (),
        "kTensorThreadsY": (),
    },
)
