# SPDX-License-Identifier: Apache-2.0
"""global-atomic-contention

**What.** Many threads do atomics on a few addresses of global memory: one running total, or a histogram
of a few bins.

**Why it costs.** Atomics on one address are serialized in one slice of the L2. All SMs wait for that slice while
the others idle.

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
only: what it costs beside the loop hangs on a trip count. So is one on a single place behind a test of data, which is
promised nothing where the test is of what another atomic brought. One that few threads of a block come to, or one
block, or only who finds a new extreme, is left alone.

Where no contention is known, a loop that repeats one atomic until it succeeds (a lock, a poll) is information.

**References.** CUDA C++ Programming Guide, "Atomic Functions"; N. Sakharnykh, "GPU Pro Tip: Fast Histograms Using
Shared Atomics on Maxwell", NVIDIA Technical Blog; GPUscout's check of global atomics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.collect import metrics as names
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.atomics import AtomicConflict
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_global_atomics
from warplens_tools.micro.common.spins import spins
from warplens_tools.roofline.measured import SLICE_BUSY, SLICE_LEAD
from warplens_tools.sass.pipes import GLOBAL_ATOMICS

#: Resident threads per address from which their atomics queue up behind each other.
CROWDED = 64

#: Iterations of a loop of loads from which it outweighs an atomic behind it.
FEW = 32
#: Atomics that bring what a retry or a lock asks for.
_SWAPPED = frozenset({"CAS", "CAST", "EXCH"})
#: What stands before a call whose value is used.
_VALUE = re.compile(r"(?:[=\[+(]|\breturn)\s*$")
_RANKED = (
    "What the atomic brings is a place: let each block count its elements for each address in shared memory, reserve a "
    "range of each by one atomic a block, and then give its elements their places within the ranges (or a warp's, by "
    "__match_any_sync)."
)


class GlobalAtomicContention(MicroTool):
    """Many threads do atomics on few global addresses."""

    code = "WL114"
    slug = "global-atomic-contention"
    title = "Contention of global atomics for few addresses"
    avoid = "Do not replace the atomic by a plain read and write; do not use one lock for all."
    rule_words = "atomic"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")
    judges = (judge_global_atomics,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the costliest atomic, or else on one that is repeated until it succeeds."""
        yield from list(self._contended()) or self._spins()

    def _spins(self) -> Iterator[Finding]:
        """A loop that does little but repeat one atomic on what the loop does not change: a lock, or a poll. An update
        by compare-and-swap works out its new value in the loop."""
        for body, atomics in spins(self.sass):
            line = self.sass.hottest_line(atomics)
            if line is None:
                continue
            yield self.finding(
                line,
                severity="information",
                confidence="low",
                message=(
                    "Spinning on an atomic: this loop repeats it, each time through the L2, until it brings what the "
                    "threads wait for."
                ),
                guidance=(
                    "Let one lane of a warp wait, by volatile or acquire loads with __nanosleep between, and take the "
                    "lock only where it is seen free; or do without one (a list takes an element by one atomicExch of "
                    "its head)."
                ),
                evidence=(self.view.observe("instructions of the loop around the atomic", float(len(body))),),
            )
            return

    def _contended(self) -> Iterator[Finding]:
        """One finding per kernel, on the costliest atomic."""
        threads = self._threads
        found = [
            m
            for m in self.view.contention.atomics.in_global
            if m.places is None or threads / m.places >= CROWDED
        ]
        found = [m for m in found if m.places is not None or m.lanes > 1.0]
        if not found:
            return
        gain = self.view.contention.gain("global atomics")
        worst = found[0]
        if gain is not None and gain.estimate < self.worth and not worst.atomic.together:
            return
        sure = worst.atomic.index is not None
        rare = self._is_rare(worst) or worst.chosen
        if rare and worst.places is None:
            if not (worst.chosen or worst.atomic.together):
                return
            gain = None
        if worst.atomic.claimed:
            gain = None  # the claims are atomics too, and how few succeed only a run shows
        ranks = (worst.places or 1) > 1 and self._ranks(worst)
        if ranks:
            gain = None  # a block must count, reserve and place: more than to add a copy up at the end
        yield self.finding(
            worst.atomic.span,
            severity="information" if gain is None or rare else "warning",
            confidence="low" if rare else "medium" if gain is None or not sure else "high",
            message=f"{_who(worst)}: the atomics are serialized in the L2.",
            guidance=_RANKED if ranks else _guidance(worst),
            evidence=self._observations(worst),
            gain=gain,
            missing=("how many threads meet at one address",)
            if gain is not None and _is_in_runs(worst)
            else (),
            index_query="block reduce warp shuffle" if worst.places == 1 else "",
        )

    @property
    def _threads(self) -> int:
        """Threads that may do the atomic at once: those that the card holds, or as few as are launched."""
        most, shape = self.gpu.limits.max_threads * self.gpu.multiprocessors, self.view.shape
        return most if shape is None else min(most, shape.blocks * shape.threads)

    def _is_rare(self, worst: AtomicConflict) -> bool:
        """Whether loads stand in a deeper loop than the atomic: how much it weighs hangs on a trip count, where that is
        not a small constant."""
        deepest = max((sum(_is_long(x) for x in w.access.loops) for w in self.view.warp_accesses), default=0)
        return len(worst.atomic.loops) < deepest

    def _ranks(self, worst: AtomicConflict) -> bool:
        """Whether what the atomic brings is used, as a place among those of its address: SASS returns it, or the text
        has it in a value."""
        span = worst.atomic.span
        if self.sass and not worst.atomic.function:
            return any(
                x.opcode in ("ATOM", "ATOMG") and not _SWAPPED & set(x.modifiers)
                for x in self.sass.through_line(span.line)
            )
        return _VALUE.search(self.view.text.line_text(span.line)[: span.column - 1]) is not None

    def _observations(self, worst: AtomicConflict) -> tuple[Observation, ...]:
        threads = float(self._threads)
        places = worst.places or 1
        crowd = threads / places if worst.places else float(self.gpu.limits.warp_size)
        seen = [
            self.view.observe("threads per address", round(crowd), "", CROWDED,
                f"threads launched and resident on {self.gpu.name}, over the addresses of the index", tier="source")
        ]  # fmt: skip
        if self.sass:
            together = self.view.contention.atomics.is_aggregated(worst.atomic.span)
            how = "added up in the warp first" if together else "one per lane"
            seen.append(self.view.observe("atomics of a warp", how))
        return tuple(seen)

    def check_counters(self) -> Iterator[Finding]:
        """One L2 slice that was seen to do the atomics while the others idle: they contend for few addresses."""
        found = self.view.counted
        slices = None if found is None else names.busiest_slice(found.counters)
        if found is None or slices is None or slices[0] < max(SLICE_BUSY, SLICE_LEAD * slices[1]):
            return
        atomics = found.where(lambda x: x.opcode in GLOBAL_ATOMICS)
        line = found.line_of(atomics, names.PER_INSTRUCTION[1])
        yield self.finding(
            line,
            confidence="high",
            message="Atomics of this line contend for few addresses and are serialized in one L2 slice.",
            guidance=(
                "Add up within the warp by shuffles or within the block in shared memory first, and do one atomic a "
                "block for each address."
            ),
            evidence=(
                found.counters.seen(
                    "mean busy share of the slices' atomic units", slices[1], SLICE_LEAD * slices[1]
                ),
            ),
            gain=Gain.of(1.0, 1.0),
        )


def _is_long(loop: Loop) -> bool:
    return loop.trips is None or loop.trips > FEW


def _who(worst: AtomicConflict) -> str:
    name = worst.atomic.name
    if worst.atomic.together or (worst.chosen and worst.places is None):
        return f"Atomic contention: the lanes of a warp that come here update one address of {name} at a time"
    if worst.chosen:
        return f"Atomic contention: threads that data chooses update one address of {name}"
    if _is_in_runs(worst):
        return f"Atomic contention: neighbouring threads, a run-time number of them, update one address of {name}"
    if worst.places is None:
        return f"Atomic contention: all threads of a block update one address of {name}"
    if worst.places == 1:
        one = "every element" if worst.walks else "one address"
        return f"Atomic contention: every thread of the grid updates {one} of {name}"
    return f"Atomic contention: all threads of the grid update {worst.places} addresses of {name}"


def _is_in_runs(worst: AtomicConflict) -> bool:
    """Whether threads go to their number over a run-time one: as many as that meet, wherever a block begins."""
    index = worst.atomic.index
    return (
        worst.places is None
        and index is not None
        and any(
            s.operation == "/"
            and s.operands[1].value is None
            and any(t.kind == "thread" for t in s.operands[0].symbols)
            for s in index.symbols
        )
    )


def _guidance(worst: AtomicConflict) -> str:
    name = worst.atomic.name
    if worst.atomic.together or (worst.chosen and worst.places is None):
        return (
            "Add up over the warp by shuffles first, with zero from the lanes that take no part (or over those that "
            f"__match_any_sync finds at one address), and let one lane do the atomic on {name}."
        )
    if _is_in_runs(worst):
        return (
            "Let a warp or a block add up over the threads of one address by shuffles or in shared memory, and one "
            f"thread of each do the atomic on {name}; a run of them may begin and end within a block."
        )
    if worst.places is None or worst.places == 1:
        return (
            "Add up within the warp by shuffles and within the block in shared memory, and let one thread of each "
            f"block do the atomic on {name}."
        )
    return (
        f"Let each block count into its own copy of {name} in shared memory (one copy a warp where the data is "
        "skewed), and add the copies to global memory once at the end."
    )
