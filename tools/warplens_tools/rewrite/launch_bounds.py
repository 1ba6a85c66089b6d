# SPDX-License-Identifier: Apache-2.0
"""launch-bounds

Tell the compiler how large a block is.

Without that the compiler weighs registers against occupancy for a block of any size, and a block of 1024 threads
cannot be launched if it took more than 64. With the true size it knows how many registers are there to be had; a
second number, the blocks that should fit on an SM, is then a limit that may be tuned.

```cuda
__global__ void step(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
void run(float* x, int n) {
  step<<<(n + 255) / 256, 256>>>(x, n);
}
```

```cuda
__global__ void __launch_bounds__(256) step(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
void run(float* x, int n) {
  step<<<(n + 255) / 256, 256>>>(x, n);
}
```

Where launches differ the largest block is told. Left alone: a kernel whose blocks are not constant.
"""

from __future__ import annotations

import math

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, refusing
from warplens_tools.text import TextEdit

_MOST = 1024


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if view.kernel.launch_bounds is not None:
        raise Refused("it has launch bounds")
    sites = view.model.launches_of(view.kernel)
    extents = [site.block_value for site in sites]
    if not extents or any(n is None for e in extents for n in e):
        raise Refused("its block is not constant")
    threads = max(math.prod(n or 1 for n in e) for e in extents)
    if not 1 <= threads < _MOST:
        raise Refused("its block is as large as the compiler takes it to be")
    start = view.text.offset(view.kernel.name_span.line, view.kernel.name_span.column)
    edit = TextEdit(view.text.span(start, start), f"__launch_bounds__({_said(view, threads)}) ")
    return RewriteResult((edit,), title=f"Launch bounds of {threads} threads")


def _said(view: View, threads: int) -> str:
    """The number, by the name that every launch gives it, where it stands above the kernel."""
    blocks = {site.block.strip() for site in view.model.launches_of(view.kernel)}
    name = blocks.pop() if len(blocks) == 1 else ""
    known = [
        c for c in view.model.constants if c.name == name and c.span < view.kernel.span and c.value == threads
    ]
    return name if len(known) == 1 else str(threads)


REWRITE = Rewrite(
    slug="launch-bounds",
    title="Tell the compiler how large a block is",
    apply=refusing(_apply),
    answers=("register-spills", "occupancy-registers"),
    chance=0.1,
    gain=1.1,
)
