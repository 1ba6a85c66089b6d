# SPDX-License-Identifier: Apache-2.0
"""register-tile-again

Let each thread of a product in shared tiles compute several outputs, with tiles of other sizes.

A product in shared tiles with one output a thread reads shared memory twice for each multiply-add, and is bound by
that. The tiles are read back into the loop that they stand for, and that is tiled anew, with several outputs a thread
in registers, as [register-tile](register-tile.md) does.

```cuda
#define TILE 16
__global__ void matmul(const float* A, const float* B, float* C, int n) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < n / TILE; ++t) {
    As[threadIdx.y][threadIdx.x] = A[row * n + t * TILE + threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = B[(t * TILE + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    __syncthreads();
  }
  C[row * n + col] = sum;
}
void run(const float* a, const float* b, float* c, int n) {
  dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
  matmul<<<grid, block>>>(a, b, c, n);
}
```

```cuda
#define TILE 16

#define TILE_DEPTH 16  // steps of k held at a time
#define THREADS_X 16  // threads of a block along col
#define OUTPUTS_X 4  // outputs of a thread along col
#define TILE_X (THREADS_X * OUTPUTS_X)
#define THREADS_Y 16  // threads of a block along row
#define OUTPUTS_Y 4  // outputs of a thread along row
#define TILE_Y (THREADS_Y * OUTPUTS_Y)

__global__ void matmul(const float* A, const float* B, float* C, int n) {
  __shared__ float tileA[TILE_DEPTH][TILE_Y + 4];
  __shared__ float tileB[TILE_DEPTH][TILE_X];
  const int thread = threadIdx.y * THREADS_X + threadIdx.x;
  const int row0 = blockIdx.y * TILE_Y;
  const int col0 = blockIdx.x * TILE_X;
  float sum[OUTPUTS_Y][OUTPUTS_X] = {};
  for (int k0 = 0; k0 < n; k0 += TILE_DEPTH) {
    for (int t = thread; t < TILE_Y * TILE_DEPTH; t += THREADS_X * THREADS_Y) {
      int row = row0 + t / TILE_DEPTH;
      int k = k0 + t % TILE_DEPTH;
      tileA[t % TILE_DEPTH][t / TILE_DEPTH] = row < n && k < n ? A[row * n + k] : 0.0f;
    }
    for (int t = thread; t < TILE_DEPTH * TILE_X; t += THREADS_X * THREADS_Y) {
      int col = col0 + t % TILE_X;
      int k = k0 + t / TILE_X;
      tileB[t / TILE_X][t % TILE_X] = col < n && k < n ? B[k * n + col] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < TILE_DEPTH; ++kk) {
      #pragma unroll
      for (int i = 0; i < OUTPUTS_Y; ++i) {
        #pragma unroll
        for (int j = 0; j < OUTPUTS_X; ++j) {
          sum[i][j] += tileA[kk][threadIdx.y * OUTPUTS_Y + i] * tileB[kk][threadIdx.x * OUTPUTS_X + j];
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < OUTPUTS_Y; ++i) {
    #pragma unroll
    for (int j = 0; j < OUTPUTS_X; ++j) {
      int row = row0 + threadIdx.y * OUTPUTS_Y + i;
      int col = col0 + threadIdx.x * OUTPUTS_X + j;
      if (row < n && col < n) C[row * n + col] = sum[i][j];
    }
  }
}
void run(const float* a, const float* b, float* c, int n) {
  dim3 block(THREADS_X, THREADS_Y), grid((n + TILE_X - 1) / TILE_X, (n + TILE_Y - 1) / TILE_Y);
  matmul<<<grid, block>>>(a, b, c, n);
}
```

Tiles may be flat, `tile[ty * TILE + tx]`, as wide as a template says, or as their block where launches say that. Tiles
of shortest paths may be filled with what their minimum ignores (`INF`) instead of zeros. Left alone: tiles that
are filled by more than one element a thread, or hold what is no row and no column, and fills that may change a result.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite import register_tile
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.flat_tiles import untiled
from warplens_tools.rewrite.common.reading import View, refusing, squeezed
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText, TextEdit

#: The constant that says how deep tiles are.
_DEPTH = re.compile(
    r"^[ \t]*(?:constexpr int (\w+) = |#define (\w+) )\d+;?[ \t]+// steps of [^\n]*\n", re.MULTILINE
)
TITLE = "Tile anew, several outputs a thread"


def _apply(view: View, target: Target) -> RewriteResult:
    found = untiled(view)
    edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), found.text)
    plain = view.text.apply([edit])
    model = parse(plain, "")
    kernel = model.same(view.kernel, view.model)
    if kernel is None or kernel.broken:
        raise Refused("the loop over tiles is not understood")
    tiled = register_tile.REWRITE.apply(plain, model, kernel, target)
    if not tiled.edits:
        raise Refused(tiled.refused)
    after = _as_deep(view, plain.apply(list(tiled.edits)))
    return RewriteResult(between(view.text, after), TITLE, caveat=tiled.caveat)


def _as_deep(view: View, after: SourceText) -> SourceText:
    """The text with tiles as deep as those of a template were: other instantiations go by its number too."""
    extents = {squeezed(e) for a in view.kernel.arrays if a.space == "shared" for e in a.extents}
    sides = extents & set(view.kernel.template_parameters)
    depth = _DEPTH.search(after.text)
    if len(sides) != 1 or depth is None:
        return after
    rest = after.text[: depth.start()] + after.text[depth.end() :]
    return SourceText(re.sub(rf"\b{depth[1] or depth[2]}\b", sides.pop(), rest))


REWRITE = Rewrite(
    slug="register-tile-again",
    title="Tile shared operands anew, several outputs a thread",
    apply=refusing(_apply),
    answers=(
        "missing-cache-reuse",
        "small-register-tile",
        "low-ilp",
        "barrier-heavy",
        "shared-bank-conflicts",
    ),
    useless_at="dram",
    chance=0.5,
    gain=3.0,
    ranges=register_tile.REWRITE.ranges,
)
