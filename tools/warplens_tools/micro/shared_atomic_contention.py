# SPDX-License-Identifier: Apache-2.0
"""shared-atomic-contention

**What.** Many threads of a block do atomics on a few words of shared memory.

**Why it costs.** Lanes that update one word are serialized. Integer atomics are native and take a wavefront each;
floating-point atomics in shared memory are a compare-and-swap loop, and every lane that loses tries again.

**Wrong**

```cuda
__shared__ float sum;
...
atomicAdd(&sum, d * d);                        // 32 lanes, one word, a loop of 32 iterations
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
would take twice the time; counters tell whether it does. So are, from SASS, integer atomics of a loop at places that
data choose in a table of any size, from 3 % of the instructions executed, where they are as many as the loads.

**References.** CUDA C++ Programming Guide, "Atomic Functions"; N. Sakharnykh, "GPU Pro Tip: Fast Histograms Using
Shared Atomics on Maxwell", NVIDIA Technical Blog; GPUscout's check of shared atomics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.collect import metrics as names
from warplens_tools.evidence import Instruction, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.atomics import AtomicConflict
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_shared_atomics
from warplens_tools.sass.varying import gathering

#: Lanes of a warp per word from which they queue.
CROWDED = 2.0
#: Words a lane up to which data is likely to pile up on one, and what that must cost to be worth a word.
FEW, SKEWED = 2, 2.0
#: Share of the instructions executed from which atomics at places that data choose are told.
SHARE = 0.03
#: Turns a warp takes at a shared atomic from which counters alone call it contended. Lanes that draw words at random
#: take about four: the fullest of 32 banks, and those that draw the same.
MANY_TRIES = 8.0


class SharedAtomicContention(MicroTool):
    """Lanes of a warp do atomics on few shared words."""

    code = "WL115"
    slug = "shared-atomic-contention"
    title = "Contention of shared atomics for few words"
    avoid = "Do not give each thread its own copy where shared memory does not hold them."
    rule_words = "atomic"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")
    judges = (judge_shared_atomics,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the costliest atomic."""
        every = [m for m in self.view.contention.atomics.in_shared if m.lanes >= CROWDED]
        found = [m for m in every if m.places is not None and m.places <= self._lanes_of() / CROWDED]
        gain = self.view.contention.gain("shared atomics")
        if not found or (gain is not None and gain.estimate < self.worth):
            yield from list(self._skewed(every)) or self._by_data()
            return
        worst = found[0]
        name, lanes = worst.atomic.name, round(worst.lanes)
        sure = worst.atomic.index is not None
        yield self.finding(
            worst.atomic.span,
            severity="information" if gain is None or worst.chosen else "warning",
            confidence="low" if worst.chosen else "medium" if gain is None or not sure else "high",
            message=f"Atomic contention: about {lanes} lanes of each warp update one word of {name}, serialized.",
            guidance=_guidance(worst),
            evidence=self._observations(worst),
            gain=gain,
            index_query="warp reduce shuffle",
        )

    def _lanes_of(self) -> int:
        return self.gpu.limits.warp_size

    def _skewed(self, every: Sequence[AtomicConflict]) -> Iterator[Finding]:
        """Few words that data chooses among: information, as even data would not queue long enough to show."""
        found = [m for m in every if m.places is not None and 1 < m.places <= FEW * self._lanes_of()]
        gain = self.view.contention.skewed_gain(found)
        if not found or gain is None or gain.high < SKEWED:
            return
        worst = found[0]
        yield self.finding(
            worst.atomic.span,
            severity="information",
            confidence="low",
            message=(
                f"Data-dependent index over {worst.places} words of {worst.atomic.name}: skewed data serializes the "
                "atomics of a warp."
            ),
            guidance=_guidance(worst),
            evidence=self._observations(worst),
            gain=gain,
            index_query="",
        )

    def _by_data(self) -> Iterator[Finding]:
        """A table of any size that a loop updates at places that data choose: only a run shows how often lanes meet."""
        if not self.sass:
            return
        apart = gathering(self.sass.instructions) & self.sass.lane_dependent
        found = [i for i in self.sass.where(_is_native) if i in apart and self.sass.flow.depths[i]]
        every = self.sass.weigh(range(len(self.sass.instructions)))
        loads = [i for i in self.sass.where(lambda x: x.opcode == "LDG") if self.sass.flow.depths[i]]
        if self.sass.weigh(found) < max(SHARE * every, self.sass.weigh(loads)) or not found:
            return  # loads of global memory are the longer part, where they are more
        place = self.hottest_place(found)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"Shared atomics at places that data choose{self.written_in(found)}: lanes of a warp that meet at a "
                "word or in a bank take turns, so that skewed data serializes them."
            ),
            guidance=(
                "Give each warp (or every second one) a copy of the table, padded by a word so that equal keys lie in "
                "different banks, and add the copies up once at the end; or add up runs of equal keys in a register "
                "before they go to the table."
            ),
            evidence=(
                self.view.observe("shared atomics in loops", float(len(found))),
                self.view.observe(
                    "their share of what is executed", round(self.sass.weigh(found) / every, 3), "", SHARE
                ),
            ),
        )

    def _observations(self, worst: AtomicConflict) -> tuple[Observation, ...]:
        seen = [
            self.view.observe("lanes per word", round(worst.lanes, 1), "", CROWDED,
                f"{self.gpu.limits.warp_size} lanes over the words that the index can name", tier="source")
        ]  # fmt: skip
        binary = self.view.evidence.binary
        if binary is not None and worst.cycles:
            seen.append(self.view.observe("cycles of a warp at the atomic, weighted", worst.cycles))
        return tuple(seen)

    def check_counters(self) -> Iterator[Finding]:
        """Shared atomics that were counted to be tried or replayed many times for each warp that comes to one."""
        found = self.view.counted
        atomics = [] if found is None else found.where(lambda x: x.opcode == "ATOMS")
        tries = 0.0 if found is None else found.serial_tries(atomics)
        if found is None or tries < MANY_TRIES:
            return
        yield self.finding(
            (found.line_of(atomics, names.SHARED_WAVEFRONTS)),
            confidence="high",
            message=(
                f"Atomic contention: {tries:.0f} wavefronts per request of this shared atomic, its lanes "
                "update few words."
            ),
            guidance=(
                "Keep sums per thread in registers and reduce them by shuffles after the loop, or give each "
                "lane or warp "
                "its own copy of the words."
            ),
            evidence=(found.counters.seen("wavefronts of a shared atomic", tries, MANY_TRIES),),
            gain=Gain.of(tries / MANY_TRIES, tries),
        )


def _is_native(instruction: Instruction) -> bool:
    """An atomic of shared memory that is one instruction, no loop of compare-and-swap."""
    return instruction.opcode == "ATOMS" and not {"CAS", "CAST"} & set(instruction.modifiers)


def _guidance(worst: AtomicConflict) -> str:
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
