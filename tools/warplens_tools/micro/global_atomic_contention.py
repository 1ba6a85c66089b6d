# SPDX-License-Identifier: Apache-2.0
"""global-atomic-contention

**What.** Many threads do atomics on a few addresses of global memory: one running total, or a histogram
of a few bins.

**Why it costs.** Atomics on one address are done one after the other in one slice of the L2. All SMs wait
for that slice while the others idle.

**Wrong**

```cuda
atomicAdd(total, x[i]);                        // every thread of the grid, one address
```

**Right**

```cuda
for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
if (threadIdx.x % 32 == 0) atomicAdd(&block_total, v);      // shared memory
...
if (threadIdx.x == 0) atomicAdd(total, block_total);        // one a block
```

**Evidence.** The address of the atomic: an index that is the same for all threads, or one that types, `%`, `&`
or the array's extent bound to a few values; whether one thread was chosen before; where SASS is at hand,
whether the compiler already lets each warp add up first. Counters tell how busy the atomic unit of the busiest
L2 slice was, and all else, which is what remains: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** On average 64 resident threads of the GPU per address; with SASS, an expected gain of 1.1.
An index that data decides and nothing bounds is left alone. An atomic after a loop that loads is information
only: what it costs beside the loop hangs on a trip count.

**References.** CUDA C++ Programming Guide, "Atomic Functions"; N. Sakharnykh, "GPU Pro Tip: Fast Histograms Using
Shared Atomics on Maxwell", NVIDIA Technical Blog; GPUscout's check of global atomics.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.collect import metrics as names
from warplens_tools.cost.contention import Meeting, is_aggregated, meetings, serial_gain
from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.hidden_atomics import GLOBAL_ATOMICS
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding
from warplens_tools.memory.coalescing import warp_accesses
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import counted
from warplens_tools.micro.common.serial import judge_global_atomics
from warplens_tools.roofline.measured import SLICE_BUSY, SLICE_LEAD
from warplens_tools.view import KernelView

#: Resident threads per address from which their atomics queue up behind each other.
CROWDED = 64
#: Expected gain below which a finding would only distract.
WORTH = 1.1


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the costliest atomic."""
    threads = view.gpu.limits.max_threads * view.gpu.multiprocessors
    found = [m for m in meetings(view, "global") if m.places is None or threads / m.places >= CROWDED]
    found = [m for m in found if m.places is not None or m.lanes > 1.0]
    if not found:
        return
    gain = serial_gain(view, "global atomics")
    if gain is not None and gain.estimate < WORTH:
        return
    worst = found[0]
    sure = worst.atomic.index is not None
    rare = _is_rare(view, worst)
    if rare and worst.places is None:
        return
    yield TOOL.finding(
        view,
        span=worst.atomic.span,
        severity="information" if gain is None or rare else "warning",
        confidence="low" if rare else "medium" if gain is None or not sure else "high",
        message=f"{_who(worst)}: its atomics are done one after the other.",
        guidance=_guidance(worst),
        evidence=_observations(view, worst),
        gain=gain,
        index_query="block reduce warp shuffle" if worst.places == 1 else "",
    )


def _is_rare(view: KernelView, worst: Meeting) -> bool:
    """Whether loads stand in a deeper loop than the atomic: how much it weighs hangs on a trip count."""
    deepest = max((len(w.access.loops) for w in warp_accesses(view)), default=0)
    return len(worst.atomic.loops) < deepest


def _who(worst: Meeting) -> str:
    name = worst.atomic.name
    if worst.places is None:
        return f"All threads of a block add to one place of {name}"
    if worst.places == 1:
        return f"Every thread of the grid adds to one place of {name}"
    return f"All threads of the grid meet at {worst.places} places of {name}"


def _guidance(worst: Meeting) -> str:
    name = worst.atomic.name
    if worst.places is None or worst.places == 1:
        return (
            "Add up within the warp by shuffles and within the block in shared memory, and let one thread of each "
            f"block do the atomic on {name}."
        )
    return (
        f"Let each block count into its own copy of {name} in shared memory (one copy a warp where the data is "
        "skewed), and add the copies to global memory once at the end."
    )


def _observations(view: KernelView, worst: Meeting) -> tuple[Observation, ...]:
    threads = float(view.gpu.limits.max_threads * view.gpu.multiprocessors)
    places = worst.places or 1
    crowd = threads / places if worst.places else float(view.gpu.limits.warp_size)
    seen = [
        Observation(
            "source", "tree-sitter", "threads per address", round(crowd), "", CROWDED,
            f"resident threads of {view.gpu.name} over the addresses that the index can name",
        )
    ]  # fmt: skip
    binary = view.evidence.binary
    if binary is not None and view.evidence.worst is not None and view.evidence.worst.instructions:
        how = "added up in the warp first" if is_aggregated(view, worst.atomic.span) else "one per lane"
        seen.append(Observation("binary", binary.origin, "atomics of a warp", how))
    return tuple(seen)


def spot(view: KernelView) -> Iterator[Finding]:
    """One L2 slice that was seen to do the atomics while the others idle: they meet at few addresses."""
    found = counted(view)
    slices = None if found is None else names.busiest_slice(found.counters)
    if found is None or slices is None or slices[0] < max(SLICE_BUSY, SLICE_LEAD * slices[1]):
        return
    atomics = found.where(lambda x: x.opcode in GLOBAL_ATOMICS)
    line = found.line_of(atomics, names.PER_INSTRUCTION[1])
    yield TOOL.finding(
        view,
        span=view.line_span(line),
        severity="warning",
        confidence="high",
        message="The atomics of this line meet at few addresses: one slice of L2 does them one after the other.",
        guidance=(
            "Add up within the warp by shuffles or within the block in shared memory first, and do one atomic a "
            "block for each address."
        ),
        evidence=(
            found.seen("mean busy share of the slices' atomic units", slices[1], SLICE_LEAD * slices[1]),
        ),
        gain=make_gain(1.0, 1.0, 1.0),
    )


TOOL = MicroTool(
    code="WL114",
    slug="global-atomic-contention",
    title="Many threads do atomics on few global addresses",
    tiers=("source", "binary"),
    relevant=("memory", "latency", "compute"),
    check=check,
    spot=spot,
    judge=judge_global_atomics,
)
