# SPDX-License-Identifier: Apache-2.0
"""partial-warps

**What.** The threads of a block are no multiple of 32, so that its last warp has lanes without a thread.

**Why it costs.** A warp takes its issue slots, registers and pipes whole: blocks of 33 threads take two warps, with
31 of 64 lanes idle.

**Wrong**

```cuda
scale<<<blocks, 33>>>(x);                 // 2 warps, 31 idle lanes
```

**Right**

```cuda
scale<<<blocks, 64>>>(x);                 // or 32: the grid makes up for it
```

**Evidence.** The block of the launches; from SASS, the cycles of the pipes against those of device memory, which idle
lanes do not load.

**Threshold.** A tenth more lanes than threads, and a tenth of the time in the bounded model; information without that
where half of the lanes idle and more. Information too of blocks of 256 threads and more of which those alone go to
memory whose index is below a number of the launch's, such as a row's length. Blocks of one thread are information, for
what its lanes could share is not known. Information too where the kernel does not read `blockDim`: it is then written
for blocks of this very size, and more threads of a block find nothing to do.

**References.** CUDA C++ Best Practices Guide, "Thread and Block Heuristics".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warplens_tools.cuda.facts.conditions import Comparison
from warplens_tools.cuda.values.forms import describe, variable
from warplens_tools.finding import Finding, Gain, count
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, ISSUE, L1, L2, judge_by_room

#: Lanes for each thread from which it is told whatever bounds the kernel: the SM's places for blocks and warps, which
#: hide its waits, are then held by half as many threads.
HALF_IDLE = 2.0
#: Threads of a block from which those that a row leaves idle may be most of it.
WIDE = 256


def _is_row(met: Comparison) -> bool:
    """`threadIdx.x < columns`, with a number that the launch passes."""
    left, right = met.left, met.right
    own = [s.name for s in left.symbols] == ["threadIdx.x"] and left == variable(left.symbols[0])
    return own and met.kind in ("<", "<=") and {s.kind for s in right.symbols} == {"parameter"}


class PartialWarps(MicroTool):
    """Blocks whose last warp has idle lanes."""

    code = "WL211"
    slug = "partial-warps"
    title = "Blocks that are no whole number of warps"
    avoid = (
        "Do not round the block's size where the kernel's indices rest on it, without a guard for the added "
        "threads."
    )
    family = "the size of the block"
    rule_words = "multiple of 32|partial warp|block size"
    of_launch = True
    tiers = ("source", "binary")
    relevant = ("latency", "compute", "memory")
    judges = (judge_by_room(own=(*ARITHMETIC, *ISSUE, *L1), kept=(*DRAM, *L2)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first launch."""
        block, size = self.view.block, self.gpu.limits.warp_size
        threads = math.prod(block) if block is not None else 0
        if not threads or (threads == 1 and self._is_alone):
            return
        if not threads % size:
            yield from self._short_rows(threads)
            return
        lanes = -(-threads // size) * size
        ratio = lanes / threads
        gain = self._gain(ratio) if self.sass and threads > 1 else None
        if ratio < self.worth:
            return
        if gain is not None and gain.estimate < self.worth:
            if ratio < HALF_IDLE:
                return
            gain = None  # What bounds the launch is not told by the lanes; that half of them idle is.
        sites = self.view.sites
        free = "blockDim" in self.view.body
        yield self.finding(
            sites[0].block_span if sites else self.view.kernel.name_span,
            severity="warning" if gain is not None and free else "information",
            confidence="medium",
            message=(
                f"Blocks of {count(threads, 'thread')} take {count(lanes // size, 'warp')}: {lanes - threads} of "
                f"{lanes} lanes are idle."
            ),
            guidance=self._guidance(threads, free=free),
            evidence=(
                self.view.observe(
                    "threads per block",
                    float(threads),
                    "",
                    float(size),
                    "a multiple of the warp",
                    tier="source",
                ),
            ),
            gain=gain,
        )

    def _short_rows(self, threads: int) -> Iterator[Finding]:
        """Wide blocks of which only as many threads as a number of the launch's go to memory."""
        accesses = self.view.global_accesses
        if threads < WIDE or not accesses or "blockIdx" not in self.view.body:
            return
        limits = [next((c for c in a.come if _is_row(c)), None) for a in accesses]
        first = limits[0]
        if first is None or None in limits or self.view.launches.sites == ():
            return
        length = describe(first.right)
        sites = self.view.sites
        yield self.finding(
            sites[0].block_span if sites else self.view.kernel.name_span,
            severity="information",
            confidence="low",
            message=(
                f"Wide block for a row: of its {threads} threads only those below {length} have work, whatever "
                f"{length} is: the others hold an SM's warps and registers until the block is done."
            ),
            guidance=(
                f"Number the elements of all rows through (blockIdx.x * blockDim.x + threadIdx.x, with quotient and "
                f"remainder by {length}), or let a warp take a row, so that blocks are full for short rows too."
            ),
            evidence=(self.view.observe("threads per block", float(threads), tier="source"),),
        )

    @property
    def _is_alone(self) -> bool:
        """Whether the launch is of one thread in all: work that is written to be done in order."""
        shape = self.view.shape
        return "blockIdx" not in self.view.body or (shape is not None and shape.blocks == 1)

    def _guidance(self, threads: int, *, free: bool) -> str:
        size = self.gpu.limits.warp_size
        if threads == 1:
            return (
                f"Launch blocks of 128 threads with one piece of work for each thread (blockIdx.x * blockDim.x + "
                f"threadIdx.x), or let the {size} lanes of a warp share the work of one piece."
            )
        if free:
            whole = max(size, round(threads / size) * size)
            return (
                f"Launch blocks of a multiple of {size} threads, such as {whole}, and size the grid to match."
            )
        return (
            f"Let a block do several pieces of {threads} threads, so that together they fill whole warps: the kernel "
            "counts on the size of its blocks."
        )

    def _gain(self, ratio: float) -> Gain:
        """Fewer warps for the same elements: their pipes' cycles shrink, the bytes of device memory do not; and where
        the launch is known, an SM's share of it lasts as long as one warp alone, however few there are."""
        demand = self.view.demand
        moved = max(demand.dram_lower, demand.pipes.get("l2", 0.0))
        own = max(demand.pipes.values(), default=0.0)
        if not own:
            return Gain.of(1.0, ratio)
        held, shape = self.view.waiting.residency, self.view.shape
        if held is None or shape is None:
            return Gain.of(max(own, moved) / max(own / ratio, moved), ratio)
        own = max(own, self.view.waiting.floor.get("blocks", 0.0))
        alone, warps = self.view.waiting.single_warp_cycles, shape.warps / self.gpu.multiprocessors
        before, after = (
            max(n * own, max(n / held.warps, 1.0) * alone, warps * moved) for n in (warps, warps / ratio)
        )
        return Gain.of(min(before / after, ratio), ratio)
