# SPDX-License-Identifier: Apache-2.0
"""barrier-tree

**What.** A reduction or a scan over the block in shared memory waits for the whole block after each of its steps.

**Why it costs.** A tree over 256 threads is eight steps, each a store, a barrier and a load that nothing hides, and in
the last five of them one warp has work while all others wait. Lanes of a warp exchange registers by a shuffle, without
memory and without a barrier: two barriers are enough for any block.

**Wrong**

```cuda
for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + s]);
    __syncthreads();
}
```

**Right**

```cuda
for (int s = 16; s > 0; s >>= 1) v = fmaxf(v, __shfl_down_sync(~0u, v, s));
if (lane == 0) best[warp] = v;
__syncthreads();                       // then the first warp does the same with the warps' values
```

**Evidence.** A loop by powers of two with a barrier of the block in it, or such steps written one by one, in the kernel
or in a device function of its file that it calls.

**Threshold.** None. It is information: what the steps cost beside the rest is not known from the text. Where SASS tells
it, barrier-heavy has the word. Loops that stop at a warp (`s > 32`) and sorting networks are left alone.

**References.** Harris, "Optimizing Parallel Reduction in CUDA"; CUDA C++ Programming Guide, "Warp Shuffle Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.barrier_trees import BarrierTree, barrier_trees
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.barrier_heavy import BarrierHeavy
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.of_elements import of_elements

#: Arrays that a message names.
_NAMED = 3


class BarrierTrees(MicroTool):
    """A tree or scan in shared memory with a barrier after every step."""

    code = "WL216"
    slug = "barrier-tree"
    title = "A tree over the block waits for all of it after every step"
    avoid = (
        "Do not drop a barrier between warps: shuffles replace those within a warp alone; do not use shuffles"
        " under a branch that some lanes skip."
    )
    rule_words = "barrier"
    tiers = ("source", "binary")
    relevant = ("latency", "compute", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the tree in the deepest loop."""
        found = barrier_trees(self.view.tree, self.view.kernel)
        if not found or BarrierHeavy.told(self.view):
            return
        worst = max(found, key=lambda t: t.around is not None)
        again = f", in every iteration of the loop of line {worst.around.line}" if worst.around else ""
        yield self.finding(
            self.view.line_span(worst.span.line),
            severity="information",
            confidence="low",
            message=(
                f"Tree or scan over the block with a barrier after every step{self._of(worst)}{again}: "
                f"{self._steps()}, the last five steps within one warp."
            ),
            guidance=(
                "Exchange within the warp by shuffles (__shfl_down_sync for a sum or a maximum with its place, "
                "__shfl_up_sync for a scan, or cub's BlockReduce and BlockScan), and go through shared memory once for "
                f"the warps' results: two barriers in all.{of_elements(self.sass)}"
            ),
            evidence=(self.view.observe("trees with a barrier a step", float(len(found)), tier="source"),),
            related=(RelatedSpan(worst.around, "repeated by this loop"),) if worst.around else (),
            index_query="warp shuffle reduction",
        )

    def _of(self, worst: BarrierTree) -> str:
        place = f" in {worst.function}" if worst.function else ""
        return f"{place} ({', '.join(worst.names[:_NAMED])})" if worst.names else place

    def _steps(self) -> str:
        threads = self.view.threads
        if not threads or threads <= self.gpu.limits.warp_size:
            return "a barrier for each halving of the block"
        return f"{(threads - 1).bit_length()} barriers"
