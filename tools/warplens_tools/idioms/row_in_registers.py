# SPDX-License-Identifier: Apache-2.0
"""row-in-registers

Read each row once, in vectors that the threads of its block keep.

Softmax, layer and RMS norm, cross entropy, quantisation by rows and their like walk a row several times: for its maximum, its
sum, its variance, and for what is stored. A block has each row: its threads load vectors of up to 16 bytes, keep them, and
join what they fold by shuffles; later passes read registers, and results go out in vectors. Rows longer than what is kept
go on in memory, and elements that are not aligned go one by one. A thread a row, one thread of a block that folds its row,
outputs that fold their row each, and blocks that share a row already are all read.

```cuda
__global__ void rmsNorm(const float* in, const float* weight, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = 0; j < cols; ++j) sum += in[row * cols + j] * in[row * cols + j];
  float scale = rsqrtf(sum / cols + 1e-5f);
  for (int j = 0; j < cols; ++j) out[row * cols + j] = in[row * cols + j] * scale * weight[j];
}

void run(const float* in, const float* weight, float* out, int rows, int cols) {
  rmsNorm<<<(rows + 255) / 256, 256>>>(in, weight, out, rows, cols);
}
```

```cuda
__device__ float warpSum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

__device__ float blockSum(float value) {
  __shared__ float partial[32];
  const int warps = (blockDim.x + 31) / 32;
  value = warpSum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = warpSum(threadIdx.x % 32 < warps ? partial[threadIdx.x % 32] : 0.0f);
  __syncthreads();
  return value;
}

constexpr int kHeldVectors = 4;  // vectors of a row that a thread keeps
constexpr int kElements = 4;  // elements of a vector

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void rmsNorm(const float* __restrict__ in, const float* __restrict__ weight, float* __restrict__ out, int rows, int cols) {
  int row = blockIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  alignas(16) float inHeld[kHeldVectors * kElements];
  #pragma unroll
  for (int h = 0; h < kHeldVectors; ++h) {
    const int first = kElements * (threadIdx.x + h * blockDim.x);
    if (first + kElements <= cols && reinterpret_cast<size_t>(&in[row * cols + first]) % 16 == 0) {
      *reinterpret_cast<float4*>(&inHeld[h * kElements]) = *reinterpret_cast<const float4*>(&in[row * cols + first]);
    } else {
      #pragma unroll
      for (int v = 0; v < kElements; ++v) {
        int j = first + v;
        if (j < cols) {
          inHeld[h * kElements + v] = in[row * cols + j];
        }
      }
    }
    #pragma unroll
    for (int v = 0; v < kElements; ++v) {
      int j = first + v;
      if (j < cols) {
        sum += inHeld[h * kElements + v] * inHeld[h * kElements + v];
      }
    }
  }
  for (int first2 = kHeldVectors * kElements * blockDim.x + kVector * threadIdx.x; first2 < cols; first2 += kVector * blockDim.x) {
    if (first2 + kVector <= cols &&
        reinterpret_cast<size_t>(&in[row * cols + first2]) % 16 == 0) {
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * cols + first2]);
      #pragma unroll
      for (int v2 = 0; v2 < kVector; ++v2) {
        sum += inPart[v2] * inPart[v2];
      }
    } else {
      for (int j = first2; j < cols && j < first2 + kVector; ++j) {
        sum += in[row * cols + j] * in[row * cols + j];
      }
    }
  }
  sum = blockSum(sum);
  float scale = rsqrtf(sum / cols + 1e-5f);
  #pragma unroll
  for (int h = 0; h < kHeldVectors; ++h) {
    const int first = kElements * (threadIdx.x + h * blockDim.x);
    alignas(16) float outPart[kElements];
    alignas(16) float weightPart[kElements];
    if (first + kElements <= cols && reinterpret_cast<size_t>(&weight[first]) % 16 == 0) {
      *reinterpret_cast<float4*>(&weightPart[0]) = *reinterpret_cast<const float4*>(&weight[first]);
    } else {
      #pragma unroll
      for (int v = 0; v < kElements; ++v) {
        int j = first + v;
        if (j < cols) {
          weightPart[v] = weight[j];
        }
      }
    }
    #pragma unroll
    for (int v = 0; v < kElements; ++v) {
      int j = first + v;
      if (j < cols) {
        outPart[v] = inHeld[h * kElements + v] * scale * weightPart[v];
      }
    }
    if (first + kElements <= cols && reinterpret_cast<size_t>(&out[row * cols + first]) % 16 == 0) {
      *reinterpret_cast<float4*>(&out[row * cols + first]) = *reinterpret_cast<float4*>(&outPart[0]);
    } else {
      #pragma unroll
      for (int v = 0; v < kElements; ++v) {
        int j = first + v;
        if (j < cols) {
          out[row * cols + j] = outPart[v];
        }
      }
    }
  }
  for (int first2 = kHeldVectors * kElements * blockDim.x + kVector * threadIdx.x; first2 < cols; first2 += kVector * blockDim.x) {
    if (first2 + kVector <= cols &&
        reinterpret_cast<size_t>(&out[row * cols + first2]) % 16 == 0 &&
        reinterpret_cast<size_t>(&in[row * cols + first2]) % 16 == 0 &&
        reinterpret_cast<size_t>(&weight[first2]) % 16 == 0) {
      alignas(16) float outPart2[kVector];
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * cols + first2]);
      alignas(16) float weightPart2[kVector];
      *reinterpret_cast<float4*>(weightPart2) = *reinterpret_cast<const float4*>(&weight[first2]);
      #pragma unroll
      for (int v2 = 0; v2 < kVector; ++v2) {
        outPart2[v2] = inPart[v2] * scale * weightPart2[v2];
      }
      *reinterpret_cast<float4*>(&out[row * cols + first2]) = *reinterpret_cast<float4*>(outPart2);
    } else {
      for (int j = first2; j < cols && j < first2 + kVector; ++j) {
        out[row * cols + j] = in[row * cols + j] * scale * weight[j];
      }
    }
  }
}

void run(const float* in, const float* weight, float* out, int rows, int cols) {
  rmsNorm<<<rows, 256>>>(in, weight, out, rows, cols);
}
```

How many vectors a thread keeps is a constant that may be tuned; threads of a block are tuned as ever. Sums are added up in
another order. Left alone: rows that no later pass reads again, passes that are left early, and rows whose elements do not
lie side by side.
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.idioms.common.first_of import first_of
from warplens_tools.idioms.common.rows_in_vectors import RANGES, VECTORS_KEPT
from warplens_tools.rewrite import block_per_row, row_for_block, share_serial_section, widen_loop
from warplens_tools.rewrite.base import Rewrite, of_long_rows
from warplens_tools.rewrite.common.chains import Chain

TITLE = "Read each row once, in vectors that its block keeps"
_FORMS = (
    Chain(VECTORS_KEPT, widen_loop.REWRITE, alone=True),
    Chain(share_serial_section.REWRITE, VECTORS_KEPT, widen_loop.REWRITE),
    Chain(row_for_block.REWRITE, VECTORS_KEPT, widen_loop.REWRITE),
    Chain(block_per_row.REWRITE, VECTORS_KEPT, widen_loop.REWRITE),
)

REWRITE = Rewrite(
    slug="row-in-registers",
    title=TITLE,
    apply=first_of(_FORMS, "kHeldVectors", TITLE, __name__),
    answers=("missing-cache-reuse", "repeated-work", "scalar-access", *block_per_row.REWRITE.answers),
    likely=of_long_rows,
    chance=0.6,
    gain=12.0,
    ranges={**block_per_row.REWRITE.ranges, **row_for_block.REWRITE.ranges, **RANGES},
)
