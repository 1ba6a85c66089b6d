# SPDX-License-Identifier: Apache-2.0
"""alike-loops

**What.** Nothing in a loop differs between the threads of a block, or between those along one of its axes: each of them
goes through all iterations, and they come to the same values.

**Why it costs.** What one thread could work out, or all of them together, each works out alone: the sum of a row takes
as long as the row, in every thread of every block, with one load in flight that all lanes share. What nothing in the
launch changes is worked out anew by all its threads, and by each launch.

**Wrong**

```cuda
float sum = 0.f;
for (int k = 0; k < n; ++k) sum += x[blockIdx.x * n + k];       // the same in all threads of the block
y[blockIdx.x * n + threadIdx.x] = x[blockIdx.x * n + threadIdx.x] / sum;
```

**Right**

```cuda
float part = 0.f;
for (int k = threadIdx.x; k < n; k += blockDim.x) part += x[blockIdx.x * n + k];
float sum = block_sum(part);                                    // shuffles, one barrier
```

**Evidence.** Where the names of a loop come from, in the source: no assignment, test, address or call in it goes back
to `threadIdx` (to one of its axes; to its x but by a quotient, which neighbours share). Loops in which threads wait
for each other, exchange values or store what others see are left out, and those of few threads.

**Threshold.** A warp's worth of iterations, where their number is known, and a tenth of the kernel's instructions in
SASS. It is information: how long the loop is beside the rest is not always known.

**References.** CUDA C++ Best Practices Guide, "Parallelizing Sequential Code"; Harris, "Optimizing Parallel Reduction
in CUDA"."""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.alike_loops import AlikeLoop, alike_loops
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool

#: Part of the kernel's instructions from which a loop is told.
SHARE = 0.1
_DEAL = (
    "Deal the iterations out to those threads (from threadIdx.x on, in steps of blockDim.x) and put their parts "
    "together by shuffles, or let a pass before this kernel work the values out once into an array that it reads."
)


class AlikeLoops(MicroTool):
    """A loop that threads go through alike."""

    code = "WL318"
    slug = "alike-loops"
    title = "Every thread goes through the same loop for itself"
    avoid = (
        "Do not deal out iterations that rest on one another; do not add parts in another order where the bits must "
        "stay."
    )
    rule_words = "uniform|issue|L1"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the loop that weighs most."""
        if self.view.launches.is_of_one_thread or self.view.threads == 1:
            return
        found = alike_loops(self.view.tree, self.view.kernel, self.view.dim3)
        weighed = [(self._share(loop), loop) for loop in found]
        share, first = max(weighed, key=lambda w: w[0] if w[0] is not None else 0.0, default=(None, None))
        if first is None or (share is not None and share < SHARE):
            return
        who, guidance = self._words(first)
        often = f", {first.trips} iterations each" if first.trips is not None else ""
        seen = [self.view.observe("loops in which no thread differs", float(len(found)), tier="source")]
        if share is not None:
            seen.append(self.view.observe("part of the kernel's instructions", round(share, 2), "", SHARE))
        yield self.finding(
            self.view.line_span(first.span.line),
            severity="information",
            confidence="medium",
            message=(
                f"The same loop in every thread: nothing in it differs between {who}, and each of them goes through it "
                f"alone{often}, to come to the same values."
            ),
            guidance=guidance,
            evidence=tuple(seen),
            index_query="block reduce warp shuffle",
        )

    def _words(self, loop: AlikeLoop) -> tuple[str, str]:
        if loop.of == "launch":
            return "the threads of the launch", (
                "Work it out once, on the host or in a kernel before this one, and hand the result in as an argument "
                "or a table; or give each thread several elements, so that the loop serves them all."
            )
        if loop.of == "axis":
            return f"the threads along {loop.axis} of a block", (
                f"Let the threads along {loop.axis} share the iterations and put their parts together (by shuffles "
                "where they are lanes of one warp, else in shared memory), or work them out once in a pass before."
            )
        if loop.of == "neighbours":
            return "neighbouring threads (those with one quotient of their number)", (
                "Let the threads that share it deal the iterations out (a warp or a block for each such group) and put "
                "their parts together by shuffles, or work the values out once into an array in a pass before."
            )
        return "the threads of a block", _DEAL

    def _share(self, loop: AlikeLoop) -> float | None:
        """The part of the kernel's instructions that stand on the loop's lines; None where nothing was compiled."""
        if not self.sass:
            return None
        inside = frozenset(
            i for i, line in enumerate(self.sass.lines) if line is not None and loop.span.contains_line(line)
        )
        every = self.sass.weigh(frozenset(range(len(self.sass.instructions))))
        return self.sass.weigh(inside) / every if every else None
