# SPDX-License-Identifier: Apache-2.0
"""occupancy-block-size

**What.** The block size leaves warp slots of an SM empty: blocks so small that their number is the limit,
or so large that a second one does not fit.

**Why it costs.** An SM holds a limited number of blocks. With 32 threads a block, the block limit is
reached at half or less of the warp limit; with 768 threads, one of the remaining warp slots in four
stays empty whatever else the kernel does. And the card starts one block after the other: small ones that
do little are done before the next have started.

**Wrong**

```cuda
scale<<<n / 32, 32>>>(out, in, n);
```

**Right**

```cuda
scale<<<n / 256, 256>>>(out, in, n);
```

**Evidence.** The block size of the launches, the architecture's limits on blocks, warps and threads per
SM; the bytes of the loads in the hot loop. The time to start a block against that of its work.

**Threshold.** As for occupancy-registers, with the number of blocks or of warps as the limit; information where the
number of blocks allows half of the warps at most, and the resident ones have less to do than each of them waits. For
block starts (fewer than 256 threads), a gain of 1.5 in the bounded model; an H200 starts a block every 1.2 cycles;
information where the grid is not known, as a grid that the card holds at once waits for no start. Device memory
measured at 80 % of its peak or more withdraws it: enough was in flight. Blocks of half a warp and less are told as
partial-warps.

**References.** CUDA C++ Programming Guide, "Compute Capabilities" (technical specifications); CUDA C++ Best
Practices Guide, "Thread and Block Heuristics".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.arch.occupancy import Occupancy
from warplens_tools.finding import Finding, Gain, count
from warplens_tools.machine.waiting import LOW_OCCUPANCY
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_occupancy
from warplens_tools.micro.partial_warps import HALF_IDLE

#: Threads of a block from which starting it is no matter, and the gain from which fewer are worth a word.
ENOUGH, WORTH = 256, 1.5


class OccupancyBlockSize(MicroTool):
    """The block size leaves warp slots empty."""

    code = "WL203"
    slug = "occupancy-block-size"
    title = "The block size leaves warp slots empty"
    avoid = "Do not change the block's size in the launch alone where the kernel's text has it as a number."
    family = "the size of the block"
    rule_words = "occupancy.*(?:block size|warps within)"
    of_launch = True
    tiers = ("binary",)
    relevant = ("latency", "memory")
    judges = (judge_occupancy,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first launch."""
        threads = self.view.threads
        if threads is not None and HALF_IDLE * threads <= self.gpu.limits.warp_size:
            return  # idle lanes are the nearer cause, as partial-warps says
        if threads is not None and threads > self.gpu.limits.max_threads_per_block:
            return  # no such block is launched, as occupancy-registers says
        found = self.view.waiting.shortage("blocks") or self.view.waiting.shortage("warps")
        starts = list(self._slow_starts())
        loads = self.sass.where(lambda x: x.opcode == "LDG")
        if starts or found is None or self.view.evidence.binary is None or not loads:
            yield from starts or self._few_slots()
            return
        if not self._is_filled(found.occupancy):
            return
        sites = self.view.sites
        yield self.finding(
            sites[0].block_span if sites else self.view.kernel.name_span,
            severity="warning" if found.occupancy.occupancy <= 0.25 else "information",
            confidence="medium",
            message=(
                f"Blocks of {count(threads or 0, 'thread')} let an SM hold {found.occupancy.blocks} blocks, "
                f"{found.occupancy.occupancy:.0%} of its warps, and the loads of {self.view.kernel.name} do "
                "not fill the "
                "memory pipeline at that."
            ),
            guidance="Launch blocks of 128 to 256 threads, a multiple of 32 that divides the SM's thread limit.",
            evidence=self.view.waiting.shortage_seen(found),
            gain=found.gain,
        )

    def _is_filled(self, found: Occupancy) -> bool:
        """Whether the launch has as many blocks as the card holds, as far as its grid is known: fewer leave slots empty
        whatever their size."""
        shape = self.view.shape
        return shape is None or shape.blocks >= found.blocks * self.gpu.multiprocessors

    def _few_slots(self) -> Iterator[Finding]:
        """Blocks so small that an SM holds no more of them, while its warps wait longer than they have to do."""
        found, threads, sites = self.view.occupancy, self.view.threads, self.view.launches.sites
        if not self.sass or found is None or threads is None or not sites or "blocks" not in found.limiters:
            return
        shape, held = self.view.shape, self.view.waiting.residency
        if found.occupancy > LOW_OCCUPANCY or not self._is_filled(found) or held is None:
            return
        if not self._waits(held.warps):
            return
        own = self.view.sites
        place = "" if own or shape is None else f" (launched at {shape.place})"
        yield self.finding(
            own[0].block_span if own else self.view.kernel.name_span,
            severity="information",
            confidence="low",
            message=(
                f"Blocks of {count(threads, 'thread')} let an SM hold {found.blocks} blocks, {found.occupancy:.0%} of "
                f"its warps, and these do not hide what each of them waits for{place}."
            ),
            guidance=(
                "Put several such blocks into one of 128 to 256 threads, a warp for each piece of work; what a block "
                "shared then belongs to its warp, and __syncwarp() does for a barrier."
            ),
            evidence=(
                self.view.observe("theoretical occupancy", round(found.occupancy, 3), "", LOW_OCCUPANCY),
                self.view.observe("threads per block", float(threads), tier="source"),
            ),
        )

    def _waits(self, warps: int) -> bool:
        """Whether one warp's wait is longer than what all resident ones have to do meanwhile, in its deepest loops."""
        passes = self.view.waiting.innermost_passes
        deepest = max((p.depth for p in passes), default=0)
        return any(warps * p.busy < p.alone for p in passes if p.depth == deepest)

    def _is_seen(self) -> bool:
        """Whether the sectors of half of the global accesses are known, as often as each runs: what the others move may
        take the block far longer than it counts for."""
        told = {n for w in self.view.warp_accesses for n in w.lines_used}
        known = {p.index for p in self.sass.patterns if p.space == "global" and p.sectors is not None}
        every = self.sass.where(lambda x: x.opcode in ("LDG", "STG", "LD", "ST"))
        known |= {i for i in every if self.sass.lines[i] in told}
        return self.sass.weigh([i for i in every if i in known]) >= 0.5 * self.sass.weigh(every)

    def _slow_starts(self) -> Iterator[Finding]:
        """Blocks that are done before the card has started the next ones."""
        threads, sites = self.view.threads, self.view.sites
        if not self.sass or threads is None or threads >= ENOUGH or not sites or not self._is_seen():
            return
        floor = self.view.waiting.floor
        demand = self.view.demand
        rest = max(floor.get("waiting", 0.0), demand.dram_lower, *demand.pipes.values())
        ratio = floor.get("blocks", 0.0) / max(rest, floor.get("blocks", 0.0) * threads / ENOUGH)
        held, shape = self.view.occupancy, self.view.shape
        if ratio < self.worth or (held is not None and not self._is_filled(held)):
            return
        where = "" if shape is not None else ", where the grid has more blocks than the card holds at once"
        yield self.finding(
            sites[0].block_span,
            # Only where more blocks wait than the card holds at once does their start rate bind.
            severity="warning" if shape is not None else "information",
            confidence="medium" if shape is not None else "low",
            missing=() if shape is not None else ("the blocks of the grid",),
            message=(
                f"Block-launch bound: blocks of {threads} threads finish sooner than the card starts others, about one "
                f"every {self.gpu.costs.block_start:.1f} cycles whatever its size{where}."
            ),
            guidance=(
                f"Launch blocks of {ENOUGH} threads, or let each thread work on several elements (a grid-stride loop)."
            ),
            evidence=(
                self.view.observe("block starts over the SM's other work", round(ratio, 2), "", WORTH),
            ),
            gain=Gain.of(ratio, ratio) if shape is not None else None,
        )
