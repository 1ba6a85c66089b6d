# SPDX-License-Identifier: Apache-2.0
"""march-inside

Work out several outputs of a column one after another, without tests where all they read is inside.

[march-outputs](march-outputs.md), and [inside-without-tests](inside-without-tests.md) behind it: between tests the
compiler does not see that an element which two outputs read is one, and loads it for each; without them it stays in a
register.

```cuda
__global__ void step(const float* u, float* next, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1) return;
  next[y * width + x] = u[(y - 1) * width + x] + u[(y + 1) * width + x] - u[y * width + x];
}
void run(const float* u, float* next, int width, int height) {
  step<<<dim3((width + 31) / 32, (height + 7) / 8), dim3(32, 8)>>>(u, next, width, height);
}
```

```cuda
constexpr int kOutputs = 4;  // of a thread

__global__ void step(const float* __restrict__ u, float* __restrict__ next, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y0 = (blockIdx.y * blockDim.y + threadIdx.y) * kOutputs;
  const bool inside = x >= 1 &&
      x < width - 1 &&
      y0 >= 1 &&
      (y0 + (kOutputs - 1)) < height - 1;
  if (inside) {
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      int y = y0 + o;
      next[y * width + x] = u[(y - 1) * width + x] + u[(y + 1) * width + x] - u[y * width + x];
    }
  } else {
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      int y = y0 + o;
      if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1) continue;
      next[y * width + x] = u[(y - 1) * width + x] + u[(y + 1) * width + x] - u[y * width + x];
    }
  }
}
void run(const float* u, float* next, int width, int height) {
  step<<<dim3((width + 31) / 32, ((height + 7) / 8 + kOutputs - 1) / kOutputs), dim3(32, 8)>>>(u, next, width, height);
}
```

Where one number is divided into the indices, it is numbered along the axes of the launch first
([index-into-axes](index-into-axes.md)).
"""

from __future__ import annotations

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.rewrite import index_into_axes, inside_without_tests, march_outputs
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target, in_a_divided_plane
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.text import SourceText

_TITLE = "Work out several outputs of a column, without tests inside"
_MARCHED = Chain(march_outputs.REWRITE, inside_without_tests.REWRITE)


def _marched(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    return _MARCHED.result(_TITLE, text, model, kernel, target)


def _apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Of outputs along several axes, or of those that one number is divided into."""
    found = _marched(text, model, kernel, target)
    if found.edits:
        return found
    numbered = Chain(index_into_axes.REWRITE, Rewrite(march_outputs.REWRITE.slug, _TITLE, _marched))
    after = numbered.result(_TITLE, text, model, kernel, target)
    return after if after.edits else found


REWRITE = Rewrite(
    slug="march-inside",
    title=_TITLE,
    apply=_apply,
    answers=("low-ilp", "missing-cache-reuse", "elements-read-again"),
    likely=in_a_divided_plane,
    chance=0.45,
    gain=1.9,
    ranges={"kOutputs": (2, 4, 8)},
)
