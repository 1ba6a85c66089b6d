# SPDX-License-Identifier: Apache-2.0
"""grid-too-small

**What.** The launch has fewer blocks than the GPU has SMs, or fewer warps than it has schedulers.

**Why it costs.** A block runs on one SM. SMs without a block do nothing for the whole kernel, and a
scheduler with a single warp waits whenever that warp waits.

**Wrong**

```cuda
integrate<<<8, 256>>>(state, n);            // 8 of 132 SMs work, each on n / 8 elements
```

**Right**

```cuda
integrate<<<(n + 255) / 256, 256>>>(state, n);
```

**Evidence.** Grid and block of every launch, measured or fixed by the file's constants, against the SMs and
schedulers of the GPU; a loop in the kernel, so that there is work to spread. Counters tell which part of the
card's warp slots stayed empty, and the busiest unit: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** Fewer blocks than SMs, or at most one warp per scheduler; or, whatever the occupancy, half of the
warps that the card could hold and a gain of 1.3 for its loads in flight by the bounded model. Information where
neither a measurement nor the text says that there is more work than the launch has threads for: threads with elements
of their own, or a count of elements that only the caller knows; and where the grid is that of a run without
arguments, which may be told another size. A block for each of a count that the text does not tell is information where
loops nest in the kernel, a hint where it has loops; a thread for each where loops that load nest, follow a chain, or go
through a row more than once, and a hint where they go through it once; neither where a run without arguments has
as many as the card takes at once. A grid that is a number times the card's SMs is
information where that leaves an SM a quarter of its warps and loops load. Fewer blocks than SMs, of a size that only
the run knows, are information, and so is a launch whose threads spin on an atomic, as for a lock: nothing is promised
of more of them. The second stage of a reduction (one block that takes the number of blocks of another launch) is left
alone. A grid of a thread for each item of which each block takes one at a time is information. A kernel that no launch
here is of is told, as information, where its nested loops go by the threads of a block
and nothing in it asks which block that is.

**References.** CUDA C++ Best Practices Guide, "Thread and Block Heuristics"; CUDA C++ Programming Guide,
"Maximize Utilization".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warplens_tools.cuda.model import LaunchSite, SourceModel
from warplens_tools.finding import Finding, Gain, count
from warplens_tools.launches import Geometry
from warplens_tools.lazily import cached_property
from warplens_tools.micro.common.one_block import is_of_one_block
from warplens_tools.micro.common.serial import judge_small_grid
from warplens_tools.micro.common.spins import spins
from warplens_tools.micro.common.untold_grids import NESTED, UntoldGrids

#: How a launch spells the stream that it need not name.
_DEFAULT_STREAMS = frozenset({"", "0", "nullptr", "NULL"})


#: Share of the warps that the card could hold, up to which a launch is thin, and the gain from which it is told.
THIN, ENOUGH = 0.5, 1.3


class GridTooSmall(UntoldGrids):
    """The grid leaves SMs or schedulers without work."""

    code = "WL204"
    slug = "grid-too-small"
    title = "The grid leaves SMs or schedulers without work"
    avoid = "Do not only make blocks smaller: the threads in flight stay as few."
    rule_words = "grid"
    of_launch = True
    tiers = ("source", "binary", "timing", "counters")
    relevant = ("latency", "memory", "compute")
    judges = (judge_small_grid,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its largest launch."""
        shape = self.view.shape
        sms = self.gpu.multiprocessors
        if shape is None:
            yield from (
                list(self._of_one_block())
                or list(self.per_block())
                or list(self._untold())
                or list(self._few_blocks())
                or list(self.per_sm())
                or list(self.per_item())
                or self.per_thread()
            )
            return
        if shape.blocks >= sms and shape.warps > self.gpu.schedulers:
            yield from self._thin(shape)
            return
        if not self.view.runs_long or self._is_second_stage(shape) or _is_phase(self.view.model, shape.site):
            return
        site = shape.site
        measured = shape.tier != "source"
        own = self.view.is_thread_bound and (shape.blocks >= sms or not measured)
        gain, doubts = self._gain(shape), () if measured else self._doubts(shape)
        # A few blocks may well be all that there is work for.
        unsure = not measured and (own or gain is None or not self._has_elements()) and bool(doubts)
        yield self.finding(
            site.grid_span if site is not None else self.view.kernel.name_span,
            severity="information" if unsure else "warning",
            confidence="low" if own or unsure else "medium" if doubts else "high",
            missing=doubts,
            message=self._message(shape),
            guidance=(
                "Each thread has its own elements already: let several threads share the work of one and combine their "
                "parts, or give each thread independent chains of work."
                if own
                else "Launch a block for every part of the work: derive the grid from the number of elements, or give "
                "each block a smaller part and combine the parts afterwards."
            ),
            evidence=shape.observations(self.gpu),
            gain=None if unsure else gain,
        )

    def _untold(self) -> Iterator[Finding]:
        """A launch that leaves SMs idle at the sizes that the program has unless it is told others."""
        shape = self.view.launches.untold
        if shape is None or not self.view.runs_long or self._is_second_stage(shape):
            return
        idle = shape.blocks < self.gpu.multiprocessors or shape.warps <= self.gpu.schedulers
        if not idle:
            return
        site = shape.site
        yield self.finding(
            site.grid_span if site is not None else self.view.kernel.name_span,
            severity="information",
            confidence="low",
            message=f"{self._message(shape).rstrip('.')}, where the program is told no other size.",
            guidance=(
                "For sizes like this one let smaller blocks, or several threads or blocks for one piece of work, fill "
                "the card, and combine their parts."
            ),
            evidence=shape.observations(self.gpu),
        )

    def _of_one_block(self) -> Iterator[Finding]:
        """A kernel that nothing here launches, whose threads share loops within loops out among one block: it asks for
        no number of a block."""
        deep, sms = max(self.sass.flow.depths, default=0), self.gpu.multiprocessors
        if self.view.sites or deep < NESTED or not is_of_one_block(self.sass.instructions, self.view.body):
            return
        yield self.finding(
            self.view.kernel.name_span,
            severity="information",
            confidence="low",
            message=(
                f"{self.view.kernel.name} is written for a single block: it asks for no block's number, and its loops "
                f"within loops go by the threads of one, on one of the {sms} SMs of {self.gpu.name}."
            ),
            guidance=(
                "Let blockIdx choose a part of the outer loop for each block (a row, an item), and combine the parts "
                "in a second launch where they meet."
            ),
            evidence=(
                self.view.observe("deepest loops of the kernel", float(deep)),
                self.view.observe("SMs of the card", float(sms)),
            ),
        )

    def _few_blocks(self) -> Iterator[Finding]:
        """A launch of fewer blocks than there are SMs, of a size that only the run knows."""
        sms = self.gpu.multiprocessors
        grids = {math.prod(n for n in s.grid_value if n) for s in self.view.sites if None not in s.grid_value}
        # Other launches may be larger.
        if len(grids) != 1 or any(None in s.grid_value for s in self.view.sites) or not self.view.runs_long:
            return
        blocks, site = grids.pop(), self.view.sites[0]
        if (
            blocks >= sms
            or self.is_serial()
            or self._combines(blocks, site)
            or _is_phase(self.view.model, site)
        ):
            return
        yield self.finding(
            site.grid_span,
            severity="information",
            confidence="low",
            message=(
                f"{self.view.kernel.name} is launched with {'1 block' if blocks == 1 else f'{blocks} blocks'}, of "
                f"whatever size: {sms - blocks} of the {sms} SMs of {self.gpu.name} stay idle."
            ),
            guidance=(
                "Launch a block for every part of the work, and combine the parts afterwards; where the steps hang on "
                "one another, several problems at once, or blocks that meet by cooperative groups' grid barrier or in "
                "a cluster, use more of the card."
            ),
            evidence=(self.view.observe("blocks launched", float(blocks), "", float(sms), tier="source"),),
        )

    def _has_elements(self) -> bool:
        """Whether the text says how many elements a loop deals out: one thread's turns, or all threads' together."""
        loops = [loop for access in self.view.accesses for loop in access.loops]
        return self.view.launching.most_trips is not None or any(
            x.bound is not None and x.bound.value is not None and x.step is not None and not x.step.value
            for x in loops
        )

    def _thin(self, shape: Geometry) -> Iterator[Finding]:
        """Every scheduler has warps, but the card could hold twice as many and the loads in flight are too few."""
        found, trips = self.view.occupancy, self.view.launching.most_trips
        room = found.warps * self.gpu.multiprocessors if found is not None else 0
        if not self.sass or not self.view.runs_long or shape.warps > THIN * room:
            return
        if self.is_serial() or self._waits_for_others:
            return
        if self.view.demand.dram_lower < max(self.view.demand.pipes.values(), default=0.0):
            return  # other things than loads in flight bound it
        gain = self.view.waiting.idle_ratio(shape)
        most = room / shape.warps
        if trips is not None:
            most = min(most, float(trips))
        doubts = () if shape.tier != "source" else self._doubts(shape)
        if min(gain, most) < ENOUGH or (shape.tier == "source" and self._is_streamed(shape)):
            return
        yield self.finding(
            shape.site.grid_span if shape.site is not None else self.view.kernel.name_span,
            confidence="medium",
            missing=doubts,
            message=(
                f"{self.view.kernel.name} is launched with {count(shape.warps, 'warp')}, {shape.warps / room:.0%} of "
                f"the {room} that {self.gpu.name} holds of it: its loads in flight do not fill the memory pipeline."
            ),
            guidance=(
                "Share the work out among more threads: a larger grid, or several threads to an element's work, until "
                "the card is full; or let each thread have several independent loads in flight."
            ),
            evidence=(
                *shape.observations(self.gpu),
                self.view.observe("resident warps that the card could hold", float(room)),
            ),
            gain=Gain.of(min(gain, most), most),
        )

    def _is_streamed(self, shape: Geometry) -> bool:
        return shape.site is not None and shape.site.stream.strip() not in _DEFAULT_STREAMS

    def _message(self, shape: Geometry) -> str:
        sms = self.gpu.multiprocessors
        blocks = "1 block" if shape.blocks == 1 else f"{shape.blocks} blocks"
        threads = "1 thread" if shape.threads == 1 else f"{shape.threads} threads"
        launch = f"{self.view.kernel.name} is launched with {blocks} of {threads}"
        if shape.blocks < sms:
            return f"{launch}: {sms - shape.blocks} of the {sms} SMs of {self.gpu.name} stay idle."
        return (
            f"{launch}: {count(shape.warps, 'warp')} for {self.gpu.schedulers} schedulers, at most one each."
        )

    def _is_second_stage(self, shape: Geometry) -> bool:
        """One block that is told the grid of another launch combines that launch's partial results."""
        return shape.site is not None and self._combines(shape.blocks, shape.site)

    def _combines(self, blocks: int, site: LaunchSite) -> bool:
        if blocks != 1:
            return False
        grids = {s.grid.strip() for s in self.view.model.launches if s.kernel_name != site.kernel_name}
        return bool(grids & {argument.strip() for argument in site.arguments})

    def _doubts(self, shape: Geometry) -> tuple[str, ...]:
        """What is not known of the work that a larger grid would share out."""
        doubts = []
        if not self.view.evidence.compiled:
            doubts.append("the compiled code")
        if self.is_serial():
            doubts.append("whether the loop can run in parallel")
        elif self.view.launching.most_trips is None:
            doubts.append("the trip counts of the loops")
        if self._waits_for_others:
            doubts.append("how long threads wait for each other")
        if self._is_streamed(shape):
            doubts.append("what runs beside it on other streams")
        return tuple(doubts)

    @cached_property
    def _waits_for_others(self) -> bool:
        """Whether threads spin on an atomic, as for a lock: what one of them holds no larger launch makes shorter."""
        return bool(self.sass) and next(spins(self.sass), None) is not None

    def _gain(self, shape: Geometry) -> Gain | None:
        """None where nothing says that the work can be shared out, threads wait for each other, or other streams may
        fill the card meanwhile."""
        if not self.sass or self.is_serial() or self._waits_for_others:
            return None
        if self._is_streamed(shape) and shape.tier == "source":
            return None
        most = max(4.0 * self.gpu.schedulers / max(shape.warps, 1), 1.0)
        trips = self.view.launching.most_trips
        if trips is not None and trips > 1:
            # A thread for each iteration is all that the loops have to share out.
            most = min(most, float(trips))
        return Gain.of(min(self.view.waiting.idle_ratio(shape), self._waiting_ratio(shape), most), most)

    def _waiting_ratio(self, shape: Geometry) -> float:
        """Where every SM has work: what one warp needs for a pass of its loops, over what the pipes need for all
        there are.

        With more warps to switch to, the pipes' time remains. Infinite where the loops are not known, or SMs are idle.
        """
        held = self.view.waiting.residency
        passes = [p for p in self.view.waiting.innermost_passes if p.depth and p.busy]
        if held is None or not passes or shape.blocks < self.gpu.multiprocessors:
            return float("inf")
        return max(p.alone / (held.warps * p.busy) for p in passes)


def _is_phase(model: SourceModel, site: LaunchSite | None) -> bool:
    """Whether a launch of a constant grid is one phase of a step whose other phases, of grids that follow the data, a
    loop hands the same: the tile of the diagonal before its row, its column and all others."""
    if site is None or not site.loop_depth or None in site.grid_value:
        return False
    return any(
        other.kernel_name != site.kernel_name
        and other.host_function == site.host_function
        and other.loop_depth == site.loop_depth
        and other.arguments == site.arguments
        and None in other.grid_value
        for other in model.launches
    )
