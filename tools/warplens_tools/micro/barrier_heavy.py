# SPDX-License-Identifier: Apache-2.0
"""barrier-heavy

**What.** Barriers that are needed, but with hardly any work between them: a tree reduction, a scan or a sort in
shared memory with a barrier after every step.

**Why it costs.** At each barrier all warps of the block wait for the slowest one and start afresh: the step's reads
of shared memory, its arithmetic and its writes follow each other with nothing beside them. A step of ten
instructions takes some sixty cycles, most of them waiting.

**Wrong**

```cuda
for (int s = blockDim.x / 2; s > 0; s >>= 1) {           // eight barriers for 256 threads
    if (threadIdx.x < s) sum[threadIdx.x] += sum[threadIdx.x + s];
    __syncthreads();
}
```

**Right**

```cuda
for (int s = 16; s > 0; s >>= 1) v += __shfl_down_sync(~0u, v, s);   // within the warp: no barrier, no memory
if (lane == 0) sum[warp] = v;
__syncthreads();                                                    // one barrier; the first warp adds the rest
```

**Evidence.** The SASS between successive barriers: few instructions, shared memory, no global memory; the time
of these steps in the bounded model against that of the rest. Counters tell the share of stalls at barriers: they
confirm the finding or withdraw it.

Where no launch tells the block, one of 256 threads is taken, and what is more than one tree is information.
Where every step reads the same places, as a relaxation of a neighbourhood does, shuffles are no cure: information.

**Threshold.** At most 40 instructions from barrier to barrier, at least four such steps, and a gain of 1.2 in
the bounded model. With counters: 30 % of the stalls at barriers confirm it (KernelPro's BarrierStall, Nsight
Compute's stall rule), fewer than 5 % withdraw it.

**References.** Harris, "Optimizing Parallel Reduction in CUDA"; NVIDIA Technical Blog, "Using CUDA Warp-Level
Primitives"; CUDA C++ Programming Guide, "Warp Shuffle Functions".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import msgspec

from warplens_tools.cuda.facts.barriers import excess_barriers
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.counted import SAMPLED
from warplens_tools.machine.waiting import Residency
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, L2, judge_by_room, stalled
from warplens_tools.micro.common.of_elements import of_elements
from warplens_tools.sass.latency import waits
from warplens_tools.sass.listing import TRIPS_PER_LEVEL
from warplens_tools.sass.pipes import is_load, space_of
from warplens_tools.sass.registers import registers_of

#: Instructions from barrier to barrier up to which a step is short, and steps from which they are worth a word.
SHORT, FEWEST = 40, 4
#: Warp instructions of a shuffle step that takes a short step's place, exchange and combine, and cycles of the latter.
SHUFFLE_INSTRUCTIONS, COMBINE_CLOCKS = 2.0, 4.0
#: Steps from which a kernel whose block is not known does several trees, not one at its end.
TREES = 24
#: Share of the stalls from which counters alone name barriers: half.
SPOT_STALLS = 0.5


#: What an SM is taken to hold where no launch tells: blocks of 256 threads, all that fit.
USUAL = Residency(8, 8)
#: The head of a loop that halves a distance down to a number.
_HALVED = re.compile(r"\bfor\s*\([^;]*;\s*\w+\s*(>=?)\s*(\d+)\s*;[^;)]*(?:>>=\s*1|/=\s*2)")


class Step(msgspec.Struct, frozen=True):
    """What stands between two barriers."""

    barrier: int
    indices: tuple[int, ...]
    #: Executions, relative to the kernel's own.
    times: float


class BarrierHeavy(MicroTool):
    """Barriers with hardly any work between them."""

    code = "WL208"
    slug = "barrier-heavy"
    title = "Barriers with hardly any work between them"
    avoid = (
        "Do not remove a barrier between a write to shared memory and another thread's read; do not put one "
        "where part of the block has left."
    )
    rule_words = "barrier"
    tiers = ("binary",)
    relevant = ("latency", "compute", "memory")
    #: Gain in the bounded model from which it is reported.
    worth = 1.2
    judges = (judge_by_room(stalls=("barrier",), kept=(*DRAM, *L2, *ARITHMETIC)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the barrier of the steps."""
        if not self.sass:
            return
        told = self.view.waiting.residency
        held = told or USUAL
        if held.block_warps < 2 or excess_barriers(self.view.tree, self.view.kernel):
            return
        steps = self.short_steps(held)
        if sum(s.times for s in steps) < (FEWEST if told else TREES):
            return
        gain = self._gain(steps, held)
        if gain.estimate < self.worth:
            return
        most = sum(len(s.indices) for s in steps) / len(steps)
        place = self.hottest_place([s.barrier for s in steps])
        sweeps = self._are_sweeps(steps)
        unsure = sweeps or told is None
        yield self.finding(place.line,
            severity="information" if unsure else "warning",
            confidence="low" if unsure else "medium",
            message=(
                f"Barrier every {most:.0f} instructions: the {f'{held.block_warps} ' if told else ''}warps of a block "
                "wait longer than they compute."
            ),
            guidance=(
                "Each step reads the same places again, as a relaxation does: leave the loop when no thread changed "
                "anything (__syncthreads_or), or do several steps per barrier on a tile with a wider halo."
                if sweeps
                else "Do the steps inside a warp with shuffles (__shfl_down_sync, __shfl_up_sync, or cooperative "
                "groups' reduce and scan), which need no barrier and no shared memory, and synchronise once to "
                f"combine the warps' results.{of_elements(self.sass)}"
            ),
            evidence=(
                self.view.observe("instructions between barriers", round(most, 1), "", float(SHORT)),
                self.view.observe("such steps", float(round(sum(s.times for s in steps))), "",
                            float(FEWEST)),
            ),
            gain=None if unsure else gain,
            related=place.related,
            index_query="" if sweeps else "warp shuffle reduction",
        )  # fmt: skip

    def _gain(self, steps: list[Step], held: Residency) -> Gain:
        """The rest at the pace of its busiest pipe and the steps as they are, over the rest and shuffles.

        A block comes to its steps when what it loads is there: however few others run, it lasts as long as both.
        """
        weight = list(self.sass.weights)
        costs = self.gpu.costs
        # What stays however the steps are done: loads, and starting the blocks.
        starts = costs.block_start * self.gpu.multiprocessors * held.blocks
        moved = max(self.view.traffic.cycles().values()) * held.warps
        loads = self.sass.where(lambda x: space_of(x) == "global" and is_load(x))
        looped = any(self.sass.flow.depths[i] for i in loads)
        floor = max(moved, starts, 0.0 if looped else costs.memory_wait + costs.block_life)
        now = later = own_now = own_later = 0.0
        for step in steps:
            inside = [self.sass.instructions[i] for i in step.indices]
            alone = waits(inside, self.gpu, costs.shared_wait).cycles + costs.barrier_clocks(held.block_warps)
            busy = max(self.sass.cycles_of(dict.fromkeys(step.indices, 1.0)).values())
            once = held.block_warps * busy + alone
            now += step.times * max(held.warps * busy, once)
            own_now += step.times * once
            exchange = SHUFFLE_INSTRUCTIONS / self.gpu.limits.schedulers
            once = held.block_warps * exchange + costs.shared_wait + COMBINE_CLOCKS
            later += step.times * max(held.warps * exchange, once)
            own_later += step.times * once
            for i in (*step.indices, step.barrier):
                weight[i] = 0.0
        rest = max(self.sass.cycles_at(weight).values()) * held.warps
        loading = 0.0 if looped else self._loading(steps)
        ratio = max(rest + now, floor, loading + own_now) / max(rest + later, floor, loading + own_later)
        return Gain.of(ratio, max(ratio, (rest + now) / max(rest, floor, 1.0)))

    def _loading(self, steps: list[Step]) -> float:
        """Cycles in which one block starts, does what is no step, each load waiting for those that lead to it, and
        ends."""
        inside = {i for s in steps for i in (*s.indices, s.barrier)} | self.sass.flow.rare
        rest = [x for i, x in enumerate(self.sass.instructions) if i not in inside]
        return self.gpu.costs.block_life + waits(rest, self.gpu, self.gpu.costs.memory_wait).cycles

    def short_steps(self, held: Residency) -> list[Step]:
        """Stretches from barrier to barrier with little work in them, all of it in shared memory.

        A loop of such steps is taken for one that halves or doubles its distance: it counts log2(threads) times, less
        those that its head leaves to a warp's own steps (`s > 32`).
        """
        code, flow = self.sass.instructions, self.sass.flow
        found = []
        for barrier in self.sass.where(lambda x: x.opcode == "BAR"):
            loop = flow.innermost(barrier)
            members = flow.instructions_of(loop) if loop is not None else list(range(len(code)))
            at = members.index(barrier)
            before = next((k for k in range(at - 1, -1, -1) if code[members[k]].opcode == "BAR"), None)
            if before is None and loop is None:
                continue
            since = members[before + 1 : at] if before is not None else members[:at]
            if before is None:
                last = max(k for k in range(len(members)) if code[members[k]].opcode == "BAR")
                since = members[last + 1 :] + since
            if len(since) > SHORT or not self._is_light(since):
                continue
            # The weight of a loop of steps is replaced by its rounds.
            rounds = self._rounds(self.sass.lines[barrier], held.block_warps * 32)
            times = self.sass.weights[barrier] / TRIPS_PER_LEVEL * rounds if loop is not None else 1.0
            found.append(Step(barrier, tuple(since), times))
        # A step of a tree, a scan or a sort leaves something in shared memory; what only reads a tile is a product.
        leaving = {flow.innermost(s.barrier) for s in found if self._stores(s)}
        return [s for s in found if flow.innermost(s.barrier) in leaving]

    def _rounds(self, line: int | None, threads: int) -> float:
        """Rounds of the loop around a line, which halves its distance from half the block until its head ends it."""
        every = math.log2(max(threads, 2))
        heads = range(line or 0, self.view.kernel.body.line, -1)
        head = next((f for n in heads if (f := _HALVED.search(self.view.text.line_text(n)))), None)
        if head is None:
            return every
        last = int(head[2]) + (head[1] == ">")
        return max(every - math.ceil(math.log2(max(last, 1))), 0.0)

    def _are_sweeps(self, steps: list[Step]) -> bool:
        """Whether the steps read the same places of shared memory each time: sweeps over a neighbourhood. Those of a
        tree, a scan or a sort reach another distance with each step."""
        reads = [self._read(s) for s in steps]
        known = [r for r in reads if r]
        looped = [s for s in steps if self.sass.flow.innermost(s.barrier) is not None]
        alike = len(known) > 2 and max(known.count(r) for r in known) > len(known) / 2
        if looped:
            # A whole tree in a loop starts over with the same distances, which are several; two are a pair of buffers.
            return all(self._stay(s) for s in looped) and (alike or len(set(known)) <= 2)
        return alike

    def _read(self, step: Step) -> tuple[str, ...]:
        loads = (x for i in step.indices if (x := self.sass.instructions[i]).opcode == "LDS")
        return tuple(sorted(o for x in loads for o in x.operands if "[" in o))

    def _stay(self, step: Step) -> bool:
        """Whether a looped step loads from registers that the loop leaves alone."""
        loop = self.sass.flow.innermost(step.barrier)
        code = self.sass.instructions
        inside = self.sass.flow.instructions_of(loop) if loop is not None else []
        written = {name for i in inside for name in registers_of(code[i])[0]}
        loads = [code[i] for i in step.indices if code[i].opcode == "LDS"]
        return bool(loads) and all(not registers_of(x)[1] & written for x in loads)

    def _stores(self, step: Step) -> bool:
        return any(self.sass.instructions[i].opcode in ("STS", "ATOMS") for i in step.indices)

    def _is_light(self, indices: list[int]) -> bool:
        spaces = {space_of(self.sass.instructions[i]) for i in indices}
        return "shared" in spaces and not spaces & {"global", "generic", "local"}

    def check_counters(self) -> Iterator[Finding]:
        """Warps that were seen to wait at barriers more than for all else."""
        found = self.view.counted
        waits = None if found is None else stalled(found.counters, ("barrier",))
        if found is None or waits is None or waits < SPOT_STALLS:
            return
        line = found.line_of(found.where(lambda x: x.opcode == "BAR"), f"{SAMPLED}barrier")
        yield self.finding(
            line,
            confidence="high",
            message=f"Barrier stalls are {waits:.0%} of all stalls, most of them at this barrier.",
            guidance=(
                "Synchronise less often: do more work between barriers, exchange values within a warp by shuffles, and "
                "give the warps of a block equal work before each barrier; smaller blocks wait for fewer warps."
            ),
            evidence=(found.counters.seen("stalls at barriers", waits, SPOT_STALLS),),
            gain=Gain.of(1.0 / (1.0 - waits / 2.0), 1.0 / max(1.0 - waits, 0.05)),
            index_query="warp shuffle reduction",
        )
