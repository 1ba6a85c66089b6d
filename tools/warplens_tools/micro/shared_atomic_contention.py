# SPDX-License-Identifier: Apache-2.0
"""shared-atomic-contention

**What.** Many threads of a block do atomics on a few words of shared memory.

**Why it costs.** Lanes that meet at one word take turns. Integer atomics are native and take a pass each;
floating-point atomics in shared memory are a compare-and-swap loop, and every lane that loses tries again.

**Wrong**

```cuda
__shared__ float sum;
...
atomicAdd(&sum, d * d);                        // 32 lanes, one word, a loop of 32 rounds
```

**Right**

```cuda
for (int s = 16; s > 0; s >>= 1) v += __shfl_down_sync(0xffffffff, v, s);
if (threadIdx.x % 32 == 0) atomicAdd(&sum, v); // once a warp
```

**Evidence.** The address of the atomic: a scalar, an index that is the same for all threads, or an array or
index type of few values; where SASS is at hand, the `ATOMS` it became, whether that is a loop, and how many words
masks, shifts and remainders leave it, in functions of the kernel too. Counters tell
how busy L1's data path was, and DRAM and L2, which are what remains: they confirm the finding, bound its gain,
or withdraw it.

**Threshold.** Two lanes of a warp per word on average (a histogram of 256 bins stays silent); with SASS, an
expected gain of 1.1. Up to two words a lane that data chooses among are information where data that all falls on one
would take twice the time; counters tell whether it does.

**References.** CUDA C++ Programming Guide, "Atomic Functions"; N. Sakharnykh, "GPU Pro Tip: Fast Histograms Using
Shared Atomics on Maxwell", NVIDIA Technical Blog; GPUscout's check of shared atomics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.collect import metrics as names
from warplens_tools.cost.contention import Meeting, meetings, serial_gain, skewed_gain
from warplens_tools.cost.gain import make_gain
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import counted, serial_tries
from warplens_tools.micro.common.serial import judge_shared_atomics
from warplens_tools.view import KernelView

#: Lanes of a warp per word from which they queue.
CROWDED = 2.0
#: Expected gain below which a finding would only distract.
WORTH = 1.1
#: Words a lane up to which data is likely to pile up on one, and what that must cost to be worth a word.
FEW, SKEWED = 2, 2.0

#: Turns a warp takes at a shared atomic from which counters alone call it contended. Lanes that draw words at random
#: take about four: the fullest of 32 banks, and those that draw the same.
MANY_TRIES = 8.0


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the costliest atomic."""
    every = [m for m in meetings(view, "shared") if m.lanes >= CROWDED]
    found = [m for m in every if m.places is not None and m.places <= _lanes_of(view) / CROWDED]
    gain = serial_gain(view, "shared atomics")
    if not found or (gain is not None and gain.estimate < WORTH):
        yield from _skewed(view, every)
        return
    worst = found[0]
    name, lanes = worst.atomic.name, round(worst.lanes)
    sure = worst.atomic.index is not None
    yield TOOL.finding(
        view,
        span=worst.atomic.span,
        severity="information" if gain is None else "warning",
        confidence="medium" if gain is None or not sure else "high",
        message=f"About {lanes} lanes of each warp meet at one word of {name}: their atomics take turns.",
        guidance=_guidance(worst),
        evidence=_observations(view, worst),
        gain=gain,
        index_query="warp reduce shuffle",
    )


def _lanes_of(view: KernelView) -> int:
    return view.gpu.limits.warp_size


def _skewed(view: KernelView, every: Sequence[Meeting]) -> Iterator[Finding]:
    """Few words that data chooses among: information, as even data would not queue long enough to show."""
    found = [m for m in every if m.places is not None and 1 < m.places <= FEW * _lanes_of(view)]
    gain = skewed_gain(view, found)
    if not found or gain is None or gain.high < SKEWED:
        return
    worst = found[0]
    yield TOOL.finding(
        view,
        span=worst.atomic.span,
        severity="information",
        confidence="low",
        message=(
            f"Data chooses among {worst.places} words of {worst.atomic.name}: where most of it falls on one, the "
            "atomics of a warp take turns there."
        ),
        guidance=_guidance(worst),
        evidence=_observations(view, worst),
        gain=gain,
        index_query="",
    )


def _guidance(worst: Meeting) -> str:
    name = worst.atomic.name
    if worst.places == 1:
        return (
            "Keep a sum per thread in a register, add the lanes' sums by shuffles after the loop, and do one atomic "
            f"on {name} per warp."
        )
    if worst.places is not None and worst.lanes < worst.places / 2:
        return (
            f"Give each lane its own copy of {name} (index it [place * 32 + lane]) or each warp its own, and add the "
            "copies up once at the end."
        )
    return (
        f"Keep the {worst.places} sums of {name} per thread in registers and reduce them after the loop, or give "
        f"each lane its own column of {name}."
    )


def _observations(view: KernelView, worst: Meeting) -> tuple[Observation, ...]:
    seen = [
        Observation(
            "source", "tree-sitter", "lanes per word", round(worst.lanes, 1), "", CROWDED,
            f"{view.gpu.limits.warp_size} lanes over the words that the index can name",
        )
    ]  # fmt: skip
    binary = view.evidence.binary
    if binary is not None and worst.clocks:
        seen.append(
            Observation("binary", binary.origin, "clocks of a warp at the atomic, weighted", worst.clocks)
        )
    return tuple(seen)


def spot(view: KernelView) -> Iterator[Finding]:
    """Shared atomics that were counted to be tried or replayed many times for each warp that comes to one."""
    found = counted(view)
    atomics = [] if found is None else found.where(lambda x: x.opcode == "ATOMS")
    tries = 0.0 if found is None else serial_tries(found, atomics)
    if found is None or tries < MANY_TRIES:
        return
    yield TOOL.finding(
        view,
        span=view.line_span(found.line_of(atomics, names.SHARED_WAVEFRONTS)),
        severity="warning",
        confidence="high",
        message=f"A warp takes {tries:.0f} turns at this shared atomic: its lanes meet at few words.",
        guidance=(
            "Keep sums per thread in registers and reduce them by shuffles after the loop, or give each lane or warp "
            "its own copy of the words."
        ),
        evidence=(found.seen("wavefronts of a shared atomic", tries, MANY_TRIES),),
        gain=make_gain(tries / MANY_TRIES, 1.0, tries),
    )


TOOL = MicroTool(
    code="WL115",
    slug="shared-atomic-contention",
    title="Lanes of a warp do atomics on few shared words",
    tiers=("source", "binary"),
    relevant=("memory", "latency", "compute"),
    check=check,
    spot=spot,
    judge=judge_shared_atomics,
)
