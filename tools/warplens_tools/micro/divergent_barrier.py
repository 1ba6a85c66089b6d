# SPDX-License-Identifier: Apache-2.0
"""divergent-barrier

**What.** A `__syncthreads()` stands in a branch that only a part of a block takes.

**Why it costs.** The barrier waits for all threads of the block. Where some never come to it, the kernel hangs, or
warps meet at different barriers and read what is not written yet: the behaviour is undefined, and a kernel that
happens to work pays for waiting.

**Wrong**

```cuda
if (i < n) {
    tile[threadIdx.x] = in[i];
    __syncthreads();                       // the last block's threads beyond n never come
    out[i] = tile[255 - threadIdx.x];
}
```

**Right**

```cuda
if (i < n) tile[threadIdx.x] = in[i];
__syncthreads();                           // by every thread of the block
if (i < n) out[i] = tile[255 - threadIdx.x];
```

**Evidence.** The conditions around the barrier, worked out for every thread of a block.

**Threshold.** One setting of what all threads share (parameters, block indices) for which some threads of a block pass
and others do not. Threads that returned before do not count: the hardware leaves them out. Where the other side of the
branch has as many barriers it is information: the language leaves it undefined, the hardware counts arrivals alone.
So is a barrier that orders nothing, which may go, and one of a kernel that is launched nowhere.

**References.** CUDA C++ Programming Guide, "Synchronization Functions"; compute-sanitizer, synccheck.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.divergent_barriers import DivergentBarrier as Barrier
from warplens_tools.cuda.facts.divergent_barriers import divergent_barriers
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool

_CLOSE = (
    "Close the branch before the barrier and open it again behind it, so that every thread of the block comes to the "
    "barrier; delete it where each thread of the branch reads nothing but what it wrote itself, or what was complete "
    "before."
)
_IDLE = "Delete it: no thread of the branch reads what another one wrote since the barrier before it."


class DivergentBarrier(MicroTool):
    """Barriers that a part of a block may never reach."""

    code = "WL212"
    slug = "divergent-barrier"
    title = "A barrier that only a part of the block reaches"
    avoid = (
        "Do not remove the barrier where other threads read what was written before it; move the branch "
        "instead."
    )
    tiers = ("source",)
    relevant = ("memory", "latency", "compute", "launch")

    def check(self) -> Iterator[Finding]:
        """One finding per condition, on its first barrier that orders something, else its first one."""
        found: dict[str, list[Barrier]] = {}
        for barrier in divergent_barriers(self.view.tree, self.view.kernel, self.view.dim3):
            found.setdefault(" ".join(self.view.said(barrier.condition).split()), []).append(barrier)
        for condition, barriers in found.items():
            first = min(barriers, key=lambda b: (b.idle, b.matched))
            quiet = first.matched or first.idle or not self.view.launches.sites
            yield self.finding(
                first.span,
                severity="information" if quiet else "warning",
                confidence="high" if first.always else "medium",
                message=(
                    f"Barrier in a divergent branch: threads for which {condition} does not hold never reach this "
                    "__syncthreads(), which is undefined behaviour"
                    + ("" if first.always else ", in a block that the condition divides")
                    + _aside(first)
                ),
                guidance=_IDLE if first.idle else _CLOSE,
                evidence=(self.view.observe("condition that divides a block", condition, tier="source"),),
                related=tuple(
                    RelatedSpan(b.span, "and this one in a branch of the same condition")
                    for b in barriers
                    if b is not first
                ),
            )


def _aside(barrier: Barrier) -> str:
    if barrier.idle:
        return "; and it orders nothing, as each thread keeps to its own elements before and behind it."
    if barrier.matched:
        return ": the other side has as many barriers, which cards of today count alike."
    return "."
