# SPDX-License-Identifier: Apache-2.0
"""several-outputs

Let each thread work out several outputs at a time, with what they share in registers.

In a convolution, a filter or a weighted sum a thread loads a coefficient and an element for one multiply-add. With
four outputs of a column, it loads the coefficient once for four, works out what is the same for all of them once,
and has four sums under way that do not wait for each other. Elements that neighbours share come from registers where
the window is unrolled.

```cuda
__global__ void filter(const float* in, const float* weights, float* out, int width, int height, int size) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    float sum = 0.0f;
    for (int j = 0; j < size; ++j) {
      for (int i = 0; i < size; ++i) {
        sum += weights[j * size + i] * in[(y + j) * (width + size) + x + i];
      }
    }
    out[y * width + x] = sum;
  }
}
void run(const float* in, const float* weights, float* out, int width, int height, int size) {
  dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
  filter<<<grid, block>>>(in, weights, out, width, height, size);
}
```

```cuda
constexpr int kOutputs = 4;  // of a thread

__global__ void filter(const float* in, const float* weights, float* out, int width, int height, int size) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= width) return;
  const int y0 = (blockIdx.y * blockDim.y + threadIdx.y) * kOutputs;
  float sum[kOutputs] = {};
  for (int j = 0; j < size; ++j) {
    for (int i = 0; i < size; ++i) {
      #pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        int y = y0 + o < height ? y0 + o : height - 1;
        sum[o] += weights[j * size + i] * in[(y + j) * (width + size) + x + i];
      }
    }
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    int y = y0 + o;
    if (y < height) out[y * width + x] = sum[o];
  }
}
void run(const float* in, const float* weights, float* out, int width, int height, int size) {
  dim3 block(32, 8), grid((width + 31) / 32, ((height + 7) / 8 + kOutputs - 1) / kOutputs);
  filter<<<grid, block>>>(in, weights, out, width, height, size);
}
```

Loops may skip what lies outside by `continue` or `if`. Left alone: loops whose length differs from output to output,
that are left early, or that store.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, in_a_plane
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.outputs_writer import OutputsWriter, stores_memory
from warplens_tools.rewrite.common.reading import (
    View,
    refusing,
    require_apart,
)


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    launches, outputs = launched_outputs(view)
    if outputs.early or outputs.others or not outputs.axes or any(not a.letter for a in outputs.axes):
        raise Refused("its outputs are not numbered along the axes of the launch alone")
    if not any(n.type == "for_statement" and not stores_memory(view, n) for n in outputs.work):
        raise Refused("no loop works out an output")
    return OutputsWriter(view, outputs, launches).result()


REWRITE = Rewrite(
    slug="several-outputs",
    title="Work out several outputs a thread",
    apply=refusing(_apply),
    answers=("low-ilp", "missing-cache-reuse"),
    useless_at="dram",
    likely=in_a_plane,
    chance=0.35,
    gain=1.6,
    ranges={"kOutputs": (2, 4, 8)},
    spares=True,
)
