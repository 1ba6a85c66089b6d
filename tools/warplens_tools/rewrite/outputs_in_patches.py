# SPDX-License-Identifier: Apache-2.0
"""outputs-in-patches

Give each block a patch of outputs, and share in it what they read.

[index-into-axes](index-into-axes.md) where one number is divided into column and row, and behind it the first that
applies of register tiles, rows folded once, several outputs a thread, a halo in shared memory and marched columns.

```cuda
__global__ void multiply(const float* A, const float* B, float* C, int count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count * n * n) return;
  int col = i % n;
  int row = i / n % n;
  int b = i / (n * n);
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) sum += A[(b * n + row) * n + k] * B[(b * n + k) * n + col];
  C[i] = sum;
}
void run(const float* A, const float* B, float* C, int count, int n) {
  multiply<<<(count * n * n + 255) / 256, 256>>>(A, B, C, count, n);
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

__global__ void multiply(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int count, int n) {
  __shared__ float tileA[kTileDepth][kTileY + 4];
  __shared__ float tileB[kTileDepth][kTileX];
  int b = blockIdx.x;
  const int thread = threadIdx.y * kThreadsX + threadIdx.x;
  const int row0 = blockIdx.z * kTileY;
  const int col0 = blockIdx.y * kTileX;
  float sum[kOutputsY][kOutputsX] = {};
  for (int k0 = 0; k0 < n; k0 += kTileDepth) {
    for (int t = thread; t < kTileY * kTileDepth; t += kThreadsX * kThreadsY) {
      int row = row0 + t / kTileDepth;
      int k = k0 + t % kTileDepth;
      tileA[t % kTileDepth][t / kTileDepth] = row < n && k < n ? A[(b * n + row) * n + k] : 0.0f;
    }
    for (int t = thread; t < kTileDepth * kTileX; t += kThreadsX * kThreadsY) {
      int col = col0 + t % kTileX;
      int k = k0 + t / kTileX;
      tileB[t / kTileX][t % kTileX] = col < n && k < n ? B[(b * n + k) * n + col] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < kTileDepth; ++kk) {
      #pragma unroll
      for (int i2 = 0; i2 < kOutputsY; ++i2) {
        #pragma unroll
        for (int j = 0; j < kOutputsX; ++j) {
          sum[i2][j] += tileA[kk][threadIdx.y * kOutputsY + i2] * tileB[kk][threadIdx.x * kOutputsX + j];
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i2 = 0; i2 < kOutputsY; ++i2) {
    #pragma unroll
    for (int j = 0; j < kOutputsX; ++j) {
      int row = row0 + threadIdx.y * kOutputsY + i2;
      int col = col0 + threadIdx.x * kOutputsX + j;
      int i = (b * n + row) * n + col;
      if (row < n && col < n) C[i] = sum[i2][j];
    }
  }
}
void run(const float* A, const float* B, float* C, int count, int n) {
  multiply<<<dim3(count, (n + kTileX - 1) / kTileX, (n + kTileY - 1) / kTileY), dim3(kThreadsX, kThreadsY)>>>(A, B, C, count, n);
}
```
"""  # noqa: E501

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form
from warplens_tools.rewrite import (
    channels_in_tiles,
    fold_rows_once,
    halo_tile,
    index_into_axes,
    march_outputs,
    register_tile,
    several_channels,
    several_outputs,
    swap_thread_axes,
    tensor_tile,
    transpose_tile,
)
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target, of_single_outputs
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.text import SourceText

#: Fewer reads of an array than this are no window: outputs of a column share nothing.
_LEAST_READS = 3


def _march(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """March columns of a stencil."""
    reads = [a for a in accesses(parse_tree(text), kernel) if not a.writes]
    shared = (name for name, count in Counter(a.name for a in reads).items() if count >= _LEAST_READS)
    if not any(_follows([a.traced for a in reads if a.name == name]) for name in shared):
        return RewriteResult(refused="outputs of a column share nothing")
    return march_outputs.REWRITE.apply(text, model, kernel, target)


def _follows(places: Sequence[Form | None]) -> bool:
    """Whether an output reads near what one of the next ones of its column does, or nothing tells."""
    for one, other in itertools.combinations(places, 2):
        difference = forms.subtract(one, other) if one is not None and other is not None else None
        growth = one.growth("threadIdx.y") if one is not None else None
        if difference is None or growth is None:
            return True
        for rows in (-2, -1, 1, 2):
            away = forms.multiply(growth, forms.number(rows))
            rest = forms.subtract(difference, away) if away is not None else None
            if rest is None or rest.value is not None:
                return True
    return False


def _halo(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """A tile with zeros around it: each place of a window was a condition for every output before."""
    result = halo_tile.REWRITE.apply(text, model, kernel, target)
    return result if result.caveat else RewriteResult(refused="its window has no condition to lose")


_SHARED = (
    tensor_tile.REWRITE,
    register_tile.REWRITE,
    transpose_tile.REWRITE,
    channels_in_tiles.REWRITE,
    several_channels.REWRITE,
    fold_rows_once.REWRITE,
    Rewrite(halo_tile.REWRITE.slug, halo_tile.REWRITE.title, _halo),
    several_outputs.REWRITE,
    halo_tile.REWRITE,
    Rewrite(march_outputs.REWRITE.slug, march_outputs.REWRITE.title, _march),
)
_CHAIN = Chain(index_into_axes.REWRITE, swap_thread_axes.REWRITE, _SHARED)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Give each block a patch of outputs and share what they read",
    answers=("missing-cache-reuse", "uncoalesced-global-read", "uncoalesced-global-write"),
    likely=of_single_outputs,
    chance=0.5,
    gain=6.0,
    ranges={**register_tile.REWRITE.ranges, **several_outputs.REWRITE.ranges},
)
