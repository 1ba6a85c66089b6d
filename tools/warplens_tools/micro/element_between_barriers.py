# SPDX-License-Identifier: Apache-2.0
"""element-between-barriers

**What.** A block goes through several barriers, of one reduction after the other, for an element or two that each of
its threads loads.

**Why it costs.** A barrier waits for the slowest warp, and a reduction over the block for the shuffles of two rounds
and for shared memory between them: some hundred cycles each, in which the block loads nothing. With one element a
thread that is most of the block's life. Rows as short as a block are shorter still for its last warps.

**Wrong**

```cuda
float v = in[row * n + threadIdx.x];                    // one element
float mean = block_sum(v) / n;                          // barrier, barrier
float rest = block_sum((v - mean) * (v - mean)) / n;    // barrier, barrier
```

**Right**

```cuda
float4 v = in4[row * n4 + lane];                        // a warp for each row, several elements a lane
float sum = warp_sum(v.x + v.y + v.z + v.w);            // shuffles alone, no barrier
// or both sums of one pass (sum and sum of squares) in one reduction
```

**Evidence.** SASS: barriers outside loops, shuffles, and global loads of which none stands in a loop; or a tree over
the block that leaves its last steps to a warp, and such loads.

**Threshold.** Three barriers, and no more than two loads that each add to what a barrier is waited for. It is
information: how long rows are is not known. Where barrier-heavy, barrier-tree or barriers-per-step speak, nothing is
said.

**References.** CUDA C++ Programming Guide, "Synchronization Functions", "Warp Shuffle Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.barrier_trees import barrier_trees
from warplens_tools.finding import Finding
from warplens_tools.micro.barrier_heavy import BarrierHeavy
from warplens_tools.micro.barrier_tree import BarrierTrees
from warplens_tools.micro.barriers_per_step import BarriersPerStep
from warplens_tools.micro.base import MicroTool

#: Barriers, shuffles, and loads before the first barrier, from and up to which it is told.
BARRIERS, SHUFFLES, LOADS = 3, 5, 4
_OTHERS = (BarrierHeavy, BarrierTrees, BarriersPerStep)


class ElementBetweenBarriers(MicroTool):
    """Several barriers for the few elements of each thread."""

    code = "WL226"
    slug = "element-between-barriers"
    title = "A block waits at several barriers for an element or two of each thread"
    avoid = (
        "Do not give a warp a row that is longer than its registers hold; do not subtract large sums of "
        "squares where digits are lost."
    )
    rule_words = "barrier"
    tiers = ("binary",)
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line of its first load."""
        if (
            not self.sass
            or (self.view.threads or BARRIERS * self.gpu.limits.warp_size) <= self.gpu.limits.warp_size
        ):
            return
        depths = self.sass.flow.depths
        barriers, shuffles, loads = self._usual("BAR"), self._usual("SHFL"), self._usual("LDG")
        ahead = [i for i in loads if barriers and i < barriers[0]]
        if not 0 < len(ahead) <= LOADS or any(depths[i] for i in loads):
            return
        several = len(barriers) >= BARRIERS and len(shuffles) >= SHUFFLES
        straight = several and not any(depths[i] for i in barriers)
        if not (straight or self._has_tree()) or any(tool.told(self.view) for tool in _OTHERS):
            return
        many = f"{len(barriers)} barriers for its reductions"
        waits = many if straight else "a barrier for each halving of its tree"
        place = self.hottest_place(ahead)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"One element between barriers: the block waits at {waits}, and "
                f"each thread has {'one load' if len(ahead) == 1 else f'{len(ahead)} loads'} to show for it."
            ),
            guidance=(
                "Let each thread take several elements (vectors of 16 bytes, or a loop over the row) before the block "
                "reduces, or a warp a whole row by shuffles alone, without a barrier; take what two reductions find "
                "(mean and variance, maximum and sum) in one pass."
            ),
            evidence=(
                self.view.observe(
                    "barriers", float(len(barriers)), "", float(BARRIERS) if straight else None
                ),
                self.view.observe("global loads before the first", float(len(ahead)), "", float(LOADS)),
            ),
            index_query="warp shuffle reduction",
        )

    def _has_tree(self) -> bool:
        """Whether the block reduces by a tree that stops at a warp, in more blocks than are waited for one by one."""
        shape = self.view.shape
        many = shape is None or shape.blocks > self.gpu.multiprocessors
        return many and bool(barrier_trees(self.view.tree, self.view.kernel, down_to_warp=True))

    def _usual(self, opcode: str) -> list[int]:
        """Indices of the instructions that ordinary operands come to."""
        return [i for i in self.sass.where(lambda x: x.opcode == opcode) if i not in self.sass.flow.rare]
