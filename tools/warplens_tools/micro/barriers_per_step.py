# SPDX-License-Identifier: Apache-2.0
"""barriers-per-step

**What.** Each iteration of a loop waits for the whole block three times or more.

**Why it costs.** At every barrier all warps of the block wait for the slowest, and nothing of the next section can hide
what is left of this one. Sections that one thread works in alone make all others wait for it twice.

**Wrong**

```cuda
for (int band = 0; band < bands; ++band) {
    if (threadIdx.x == 0) place[band] = next(place[band - 1]);
    __syncthreads();
    score[threadIdx.x] = cell(before, place[band]);
    __syncthreads();
    before[threadIdx.x] = score[threadIdx.x];
    __syncthreads();
}
```

**Right**

```cuda
for (int band = 0; band < bands; ++band) {
    int at = next(at_before);                          // every thread works it out by itself
    score[band % 3][threadIdx.x] = cell(score[(band + 2) % 3], at);
    __syncthreads();                                   // buffers in turn: one barrier is enough
}
```

**Evidence.** The barriers of the block in a loop of the kernel, those of loops within it left out, and branches between
them that single threads take.

**Threshold.** Three barriers an iteration, in kernels of which barrier-tree, barrier-heavy and excess-barriers have
nothing to say. It is information: how long the sections are is not weighed.

**References.** CUDA C++ Programming Guide, "Synchronization Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.barrier_trees import barrier_trees
from warplens_tools.cuda.facts.looped_barriers import looped_barriers
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.barrier_heavy import BarrierHeavy
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.excess_barriers import ExcessBarriers

#: Barriers of an iteration from which they are told.
MANY = 3
_SHOWN = 4


class BarriersPerStep(MicroTool):
    """Several barriers in each iteration of a loop."""

    code = "WL219"
    slug = "barriers-per-step"
    title = "Each iteration of a loop waits for the block several times"
    rule_words = "barrier"
    tiers = ("source", "binary")
    relevant = ("latency", "compute", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the loop with most of them."""
        loops = looped_barriers(self.view.tree, self.view.kernel, self.view.dim3)
        found = [x for x in loops if len(x.barriers) >= MANY]
        if not found or barrier_trees(self.view.tree, self.view.kernel):
            return
        others = (BarrierHeavy, ExcessBarriers)
        if any(True for tool in others for _ in tool(self.view).check()):
            return
        worst = max(found, key=lambda x: len(x.barriers))
        alone = (
            f", with sections of single threads between them (line {worst.alone[0].line})"
            if worst.alone
            else ""
        )
        yield self.finding(
            self.view.line_span(worst.span.line),
            severity="information",
            confidence="low",
            message=(
                f"{len(worst.barriers)} barriers of the block in each iteration of this loop{alone}: all warps wait "
                "for the slowest at each."
            ),
            guidance=(
                "Use buffers in turn (two or three, by the iteration's number) so that one barrier orders both sides; "
                "let every thread work out what a single one does; give sections that one warp can do to it alone, "
                "with __syncwarp."
            ),
            evidence=(self.view.observe("barriers in an iteration", float(len(worst.barriers)), "", float(MANY),
                                        tier="source"),),
            related=tuple(RelatedSpan(b, "a barrier") for b in worst.barriers[:_SHOWN]),
        )  # fmt: skip
