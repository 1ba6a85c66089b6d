# SPDX-License-Identifier: Apache-2.0
"""barrier-heavy

**What.** Barriers that are needed, but with hardly any work between them: a tree reduction, a scan or a sort in
shared memory that meets after every step.

**Why it costs.** At each barrier all warps of the block wait for the slowest one and start afresh: the step's reads
of shared memory, its arithmetic and its writes follow each other with nothing beside them. A step of ten
instructions takes some sixty clocks, most of them waiting.

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

**Threshold.** At most 40 instructions from barrier to barrier, at least four such steps, and a gain of 1.2 in
the bounded model. With counters: 30 % of the stalls at barriers confirm it (KernelPro's BarrierStall, Nsight
Compute's stall rule), fewer than 5 % withdraw it.

**References.** Harris, "Optimizing Parallel Reduction in CUDA"; NVIDIA Technical Blog, "Using CUDA Warp-Level
Primitives"; CUDA C++ Programming Guide, "Warp Shuffle Functions".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.stalls import Residency, residency
from warplens_tools.cuda.facts.barriers import excess_barriers
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.memory.traffic import dram_floor
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import SAMPLED, counted
from warplens_tools.micro.common.place import hottest_place
from warplens_tools.micro.common.room import ARITHMETIC, DRAM, L2, judge_by_room, stalled
from warplens_tools.sass.attribution import weights
from warplens_tools.sass.flow import Flow, analyse
from warplens_tools.sass.latency import BARRIER_CLOCKS, SHARED_CLOCKS, waits
from warplens_tools.sass.pipes import is_load, space_of
from warplens_tools.sass.throughput import ISSUE_PER_CLOCK, pipe_cycles
from warplens_tools.view import KernelView

#: Instructions from barrier to barrier up to which a step is short, and steps from which they are worth a word.
SHORT, FEWEST = 40, 4
#: Gain in the bounded model from which it is reported.
REPORTED = 1.2
#: Clocks and warp instructions of a shuffle step that takes a short step's place: exchange and combine.
SHUFFLE_CLOCKS, SHUFFLE_INSTRUCTIONS = SHARED_CLOCKS + 4.0, 2.0


class Step(msgspec.Struct, frozen=True):
    """What stands between two barriers."""

    barrier: int
    indices: tuple[int, ...]
    #: Executions, relative to the kernel's own.
    times: float


#: Share of the stalls from which counters alone name barriers: half.
SPOT_STALLS = 0.5


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the barrier of the steps."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions:
        return
    held = residency(view, compiled)
    if held is None or held.block_warps < 2 or excess_barriers(parse_tree(view.text), view.kernel):
        return
    flow = analyse(compiled.instructions)
    steps = short_steps(compiled, flow, held)
    if sum(s.times for s in steps) < FEWEST:
        return
    gain = _gain(view, compiled, flow, steps, held)
    if gain.estimate < REPORTED:
        return
    most = sum(len(s.indices) for s in steps) / len(steps)
    place = hottest_place(view, compiled, flow, [s.barrier for s in steps])
    yield TOOL.finding(
        view,
        span=view.line_span(place.line),
        severity="warning",
        confidence="medium",
        message=(
            f"The {held.block_warps} warps of a block meet at this barrier after every {most:.0f} instructions: they "
            "wait longer than they work."
        ),
        guidance=(
            "Do the steps inside a warp with shuffles (__shfl_down_sync, __shfl_up_sync, or cooperative groups' "
            "reduce and scan), which need no barrier and no shared memory, and meet once to combine the warps' results."
        ),
        evidence=(
            Observation("binary", binary.origin, "instructions between barriers", round(most, 1), "", float(SHORT)),
            Observation("binary", binary.origin, "such steps", float(round(sum(s.times for s in steps))), "",
                        float(FEWEST)),
        ),
        gain=gain,
        related=place.related,
        index_query="warp shuffle reduction",
    )  # fmt: skip


def short_steps(compiled: CompiledKernel, flow: Flow, held: Residency) -> list[Step]:
    """Stretches from barrier to barrier with little work in them, all of it in shared memory.

    A loop of such steps is taken for one that halves or doubles its distance: it counts log2(threads) times.
    """
    code = compiled.instructions
    rounds = math.log2(max(held.block_warps * 32, 2))
    weight = weights(flow)
    found = []
    for barrier in (i for i, x in enumerate(code) if x.opcode == "BAR"):
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
        if len(since) > SHORT or not _is_light(compiled, since):
            continue
        # The weight of a loop of steps is replaced by its rounds.
        times = weight[barrier] / 32.0 * rounds if loop is not None else 1.0
        found.append(Step(barrier, tuple(since), times))
    return found


def _is_light(compiled: CompiledKernel, indices: list[int]) -> bool:
    spaces = {space_of(compiled.instructions[i]) for i in indices}
    return "shared" in spaces and not spaces & {"global", "generic", "local"}


def _gain(view: KernelView, compiled: CompiledKernel, flow: Flow, steps: list[Step], held: Residency) -> Gain:
    """The rest at the pace of its busiest pipe and the steps as they are, over the rest and shuffles."""
    weight = list(weights(flow))
    costs = view.gpu.costs
    # What stays however the steps are done: loads, and starting the blocks.
    starts = costs.block_start * view.gpu.multiprocessors * held.blocks
    floor = max(dram_floor(compiled, weight, view).values()) * held.warps
    floor = max(
        floor,
        starts,
        0.0 if any(flow.depths[i] for i in _loads(compiled)) else costs.memory_wait + costs.block_life,
    )
    now = later = 0.0
    for step in steps:
        inside = [compiled.instructions[i] for i in step.indices]
        alone = waits(inside, view.gpu, SHARED_CLOCKS).clocks + BARRIER_CLOCKS
        busy = max(pipe_cycles(inside, [1.0] * len(inside), view.gpu).values())
        now += step.times * max(held.warps * busy, held.block_warps * busy + alone)
        exchange = SHUFFLE_INSTRUCTIONS / ISSUE_PER_CLOCK
        later += step.times * max(held.warps * exchange, held.block_warps * exchange + SHUFFLE_CLOCKS)
        for i in (*step.indices, step.barrier):
            weight[i] = 0.0
    rest = max(pipe_cycles(compiled.instructions, weight, view.gpu).values()) * held.warps
    ratio = max(rest + now, floor) / max(rest + later, floor)
    return make_gain(ratio, 1.0, max(ratio, (rest + now) / max(rest, floor, 1.0)))


def _loads(compiled: CompiledKernel) -> list[int]:
    return [i for i, x in enumerate(compiled.instructions) if space_of(x) == "global" and is_load(x)]


def spot(view: KernelView) -> Iterator[Finding]:
    """Warps that were seen to wait at barriers more than for all else."""
    found = counted(view)
    waits = None if found is None else stalled(found.counters, ("barrier",))
    if found is None or waits is None or waits < SPOT_STALLS:
        return
    line = found.line_of(found.where(lambda x: x.opcode == "BAR"), f"{SAMPLED}barrier")
    yield TOOL.finding(
        view,
        span=view.line_span(line),
        severity="warning",
        confidence="high",
        message=f"Warps wait at barriers in {waits:.0%} of their stalls, most of them at this one.",
        guidance=(
            "Synchronise less often: do more work between barriers, exchange values within a warp by shuffles, and "
            "give the warps of a block equal work before they meet; smaller blocks wait for fewer."
        ),
        evidence=(found.seen("stalls at barriers", waits, SPOT_STALLS),),
        gain=make_gain(1.0 / (1.0 - waits / 2.0), 1.0, 1.0 / max(1.0 - waits, 0.05)),
        index_query="warp shuffle reduction",
    )


TOOL = MicroTool(
    code="WL208",
    slug="barrier-heavy",
    title="Barriers with hardly any work between them",
    tiers=("binary",),
    relevant=("latency", "compute", "memory"),
    check=check,
    spot=spot,
    judge=judge_by_room(stalls=("barrier",), kept=(*DRAM, *L2, *ARITHMETIC)),
)
