# SPDX-License-Identifier: Apache-2.0
"""loop-into-grid

Give the iterations of a thread's outer loop to blocks of their own.

Where each thread goes through channels, a batch or another dimension whose parts have nothing to do with each other,
there are fewer threads than work: each part can be another block's. The loop begins at the block's number along an
axis that the grid does not use yet, and steps by how many blocks there are along it; the launch has one for each.

```cuda
__global__ void scale(const float* in, const float* factor, float* out, int channels, int pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pixels) return;
  for (int c = 0; c < channels; ++c) {
    out[c * pixels + i] = in[c * pixels + i] * factor[c];
  }
}

void launch(const float* in, const float* factor, float* out, int channels, int pixels) {
  scale<<<(pixels + 255) / 256, 256>>>(in, factor, out, channels, pixels);
}
```

```cuda
__global__ void scale(const float* in, const float* factor, float* out, int channels, int pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pixels) return;
  for (int c = blockIdx.y; c < channels; c += gridDim.y) {
    out[c * pixels + i] = in[c * pixels + i] * factor[c];
  }
}

void launch(const float* in, const float* factor, float* out, int channels, int pixels) {
  scale<<<dim3((pixels + 255) / 256, channels), 256>>>(in, factor, out, channels, pixels);
}
```

Left alone: a loop that folds into something or whose iterations meet, one beside which the kernel writes memory, one
whose number of iterations the launch does not know, and a grid that uses all its axes. An axis holds at most 65535
blocks: a launch of more fails.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.values.loop_headers import initialised
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import strided
from warplens_tools.rewrite.common.launches import AXES, Launch
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.outer_loops import count_told, outer_loop

_TOGETHER = re.compile(r"\b(?:cooperative_groups|this_grid|__threadfence\w*|grid\.sync)\b")


@opening
def apply(found: Opened) -> RewriteResult:
    """Deal the first outer loop that allows it out to blocks along a free axis."""
    if _TOGETHER.search(found.reader.tree.code_of(found.reader.body)):
        raise Refused("its blocks work together")
    launches = found.launches.read()
    axis = _free_axis(found, launches)
    loop = outer_loop(found)
    begin, update = strided(found.reader.tree, loop, f"blockIdx.{axis}", f"gridDim.{axis}")
    _, first = initialised(loop.node)
    if first is None:
        raise Refused("its loop begins elsewhere")
    found.edits.replace(first, begin)
    found.edits.replace(loop.update, update)
    for launch in launches:
        found.launches.set(launch.grid, {AXES.index(axis): count_told(found, launch, loop)})
    edits = found.all_edits()
    return RewriteResult(edits, title=f"Give the iterations over {loop.variable} to blocks of their own")


def _free_axis(found: Opened, launches: list[Launch]) -> str:
    for axis in AXES[1:]:
        used = Numbering(found.reader, axis, None)
        index = AXES.index(axis)
        if not used.blocks and not used.grids and all(launch.grid.axis(index) == "1" for launch in launches):
            return axis
    raise Refused("its grid uses all axes")


REWRITE = Rewrite(
    slug="loop-into-grid",
    title="Give the iterations of an outer loop to blocks of their own",
    apply=apply,
    answers=("grid-too-small", "low-ilp", "wave-quantization"),
    chance=0.4,
    gain=2.0,
)
