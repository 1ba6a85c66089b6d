# SPDX-License-Identifier: Apache-2.0
"""aliasing-reload

**What.** A loop loads the same element again in every iteration, because the compiler must assume that
a store in the loop, through another pointer, has changed it; or it stores the same element again in every
iteration, because a load through another pointer may read it.

**Why it costs.** The load could sit in a register for the whole loop. Instead it takes the load/store
pipe each time, the store cannot be moved past it, and the loop cannot be unrolled with its loads ahead.
An element that is updated in memory costs a write to L2 in every iteration besides.

**Wrong**

```cuda
__global__ void scale(float *out, const float *in, const float *gain, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = in[i] * gain[blockIdx.x];       // gain[blockIdx.x] may be out[i]
}
__global__ void filter(float *out, const float *in, const float *taps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; k++)
        out[i] += taps[k] * in[i + k];           // out[i] may be taps[k + 1]
}
```

**Right**

```cuda
__global__ void scale(float *__restrict__ out, const float *__restrict__ in, const float *__restrict__ gain, int n)
```

Where no element is reloaded, the loads of an iteration still wait for the store of the one before: few bytes are
then in flight.

**Evidence.** In the source, an index that no variable of the loop changes, and a store in the same loop through
another pointer without `__restrict__` (for an element that is updated, a load); where SASS is at hand, a load
(a store) that is really inside a loop on that line. Counters tell how busy the caches were, and the share of
stalls on global memory: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** None: one such load is reported. Loads that only stand behind stores are information, where stores keep
the loads of an iteration apart in two groups or more (of a kernel without loops in three), or the bytes in flight fall
short of the DRAM roof's need by 1.3; a hint where they do at a multiple of the unloaded latency.
Without SASS the confidence is low, as the compiler may see
more.

**References.** CUDA C++ Programming Guide, "__restrict__"; CUDA C++ Best Practices Guide, "Data Access
Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.conditions import Comparison, excludes
from warplens_tools.cuda.facts.reloads import accumulations, reloads
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.gain import bound_ratio, removal_gain
from warplens_tools.machine.waiting import stretches
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, GLOBAL_STALLS, L1, L2, judge_by_room
from warplens_tools.rewrite.restrict_const import REWRITE
from warplens_tools.sass.pipes import access_bytes
from warplens_tools.sass.registers import place_registers, registers_of

#: Bytes in flight short of what the DRAM roof needs, from which loads behind stores are told.
SHORT_OF = 1.3
#: As many times the bytes in flight that the roof needs leave no room even for a card's loaded latency: up to there it
#: is a hint.
_HINTED = 4.0
#: Iterations whose loads nvcc issues together where nothing keeps it from that.
UNROLLED = 4
#: Groups of loads in one pass, stores between them, from which they are told: the wait for memory is as many times as
#: long.
ROUNDS = 2
#: As `ROUNDS`, of a pass that is the whole kernel: other blocks start meanwhile.
ALONE = 3


class Repeat(msgspec.Struct, frozen=True):
    """What a loop does in every iteration because `others` may alias it."""

    access: ArrayAccess
    others: tuple[ArrayAccess, ...]
    #: What the compiled code repeats.
    opcode: Literal["LDG", "STG"]


class Pass(msgspec.Struct, frozen=True):
    """One pass over a stretch of code that stores: its global loads in the groups that its stores keep apart."""

    rounds: tuple[tuple[int, ...], ...]
    #: Loops it stands in.
    depth: int
    #: Whether its last store stands before the first loads of the next pass, no barrier between them.
    repeats: bool


class AliasingReload(MicroTool):
    """A loop reloads what __restrict__ would let it keep."""

    code = "WL111"
    slug = "aliasing-reload"
    title = "A loop reloads what __restrict__ would let it keep"
    avoid = (
        "Do not add __restrict__ where two of the pointers may name the same memory; do not keep in a "
        "register what another thread writes."
    )
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")
    judges = (judge_by_room(own=(*L1, *L2), stalls=GLOBAL_STALLS, kept=(*DRAM, *ARITHMETIC)),)

    def repeats(self) -> list[Repeat]:
        """Loads that stay in their loop, and elements that are updated in memory."""
        tree = self.view.tree
        block = self.view.dim3
        found = [Repeat(r.load, r.stores, "LDG") for r in reloads(tree, self.view.kernel, block)]
        return found + [Repeat(r.store, r.loads, "STG") for r in accumulations(tree, self.view.kernel, block)]

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the repeated access in the deepest loop."""
        found = self.repeats()
        confirmed = bool(self.sass)
        if confirmed:
            found = [r for r in found if self._indices(r)]
        if not found:
            yield from self._behind_stores()
            return
        worst = max(found, key=lambda r: len(r.access.loops))
        text = self.view.said(worst.access.span)
        others = list(dict.fromkeys(self.view.said(o.span) for o in worst.others))
        names = [r.access.name for r in found] + [o.name for o in worst.others]
        yield self.finding(
            worst.access.span,
            severity="warning" if confirmed else "information",
            confidence="high" if confirmed else "low",
            message=_message(worst, text, others),
            guidance=f"Declare {_list(names)} __restrict__ if they never overlap, or {_local(worst, text)}.",
            evidence=self._observations(found),
            gain=self._gain(found),
            fixes=self.fixes_of(REWRITE),
            related=(RelatedSpan(worst.others[0].span, _related(worst)),),
        )

    def _behind_stores(self) -> Iterator[Finding]:
        """Loads that stand behind stores which may alias them: of the iteration before, or of the same pass."""
        if self._is_restricted():
            return
        flow = self.sass.flow
        inner = {flow.instructions_of(loop)[0] for loop in flow.innermost_loops}
        passes = [self._pass(own, depth, own[0] in inner) for depth, own in stretches(flow) if own]
        worst = max(
            (p for p in passes if p.rounds), key=lambda p: (p.depth > 0, self._apart(p)), default=None
        )
        if worst is None:
            return
        several = self._apart(worst) >= (ROUNDS if worst.depth else ALONE)
        if not several and not worst.repeats:
            return
        gain = self._short_of(worst) if worst.repeats else None
        line = self.sass.hottest_line(worst.rounds[-1])
        if line is None or not (several or (gain or 0.0) * _HINTED >= 1.0):
            return
        short = gain is not None and gain >= SHORT_OF
        yield self._told(line, worst, gain if short else None, told=short or several)

    def _told(self, line: int, worst: Pass, gain: float | None, *, told: bool) -> Finding:
        each, rounds = self._bytes_each(worst), self._apart(worst)
        where = "each iteration of this loop" if worst.depth else "this kernel"
        said = (
            f"{where} waits for its own {each:.0f} bytes a thread, as its store may alias the next one's loads."
            if rounds < ROUNDS
            else f"{where} waits for memory up to {rounds} times instead of once, as stores that may alias its loads "
            "stand between them."
        )
        return self.finding(
            line,
            severity="information" if told else "hint",
            confidence="medium" if gain is not None else "low",
            message=f"Loads behind stores: {said}",
            guidance=(
                "Declare the pointers __restrict__ if they never overlap (those that are only read const as well), or "
                "load what comes later into locals before the first store; wider accesses put more bytes in flight "
                "too."
            ),
            evidence=(
                self.view.observe("groups of loads with stores between them", float(rounds)),
                self.view.observe("bytes in flight per SM", round(each * self._threads), "byte",
                    round(self.gpu.needed_bytes), "Little's law: latency times this SM's share of the DRAM roof"),
            ),
            gain=self._gathered(worst, gain) if gain is not None else None,
        )  # fmt: skip

    def _gathered(self, worst: Pass, most: float) -> Gain:
        """The loads of a pass, or of as many as nvcc unrolls, waited for together: as much as that is of the kernel."""
        loads = {i for group in worst.rounds for i in group}
        times = UNROLLED if len(worst.rounds) == 1 else 1
        return Gain.of(min(self.view.waiting.gathered(loads, worst.depth, times), most), most)

    def _apart(self, worst: Pass) -> int:
        """Groups of loads that the text has, which are fewer than those of a loop that the compiler unrolled."""
        seen: set[int | None] = set()
        kept: list[tuple[Comparison, ...]] = []
        for group in worst.rounds:
            lines = {self.sass.lines[i] for i in group}
            come = next((a.come for a in self.view.accesses if a.span.line in lines - seen), ())
            # Who comes to a branch that another one excludes waits in one of the two.
            if lines - seen and not any(excludes(one, other) for k in kept for one in k for other in come):
                kept.append(come)
            seen |= lines
        return len(kept)

    @property
    def _threads(self) -> int:
        held, limits = self.view.waiting.residency, self.gpu.limits
        return (held.warps if held is not None else limits.max_warps) * limits.warp_size

    def _bytes_each(self, worst: Pass) -> float:
        """Bytes that a thread has in flight at a time."""
        loads = [i for group in worst.rounds for i in group]
        return sum(access_bytes(self.sass.instructions[i]) for i in loads) / len(worst.rounds)

    def _short_of(self, worst: Pass) -> float:
        """Bytes in flight that the DRAM roof needs, over those that there are; at most what loads issued together
        bring."""
        wanted = self.gpu.needed_bytes / (self._bytes_each(worst) * self._threads)
        return min(wanted, float(max(len(worst.rounds), UNROLLED)))

    def _pass(self, own: Sequence[int], depth: int, innermost: bool) -> Pass:
        """The global loads of a stretch of code that stores may hold up, in groups with a store between them.

        A barrier holds all loads back: groups are counted between barriers, of the stretch with the most. Loads by
        the read-only path are free to move.
        """
        parts: list[list[list[int]]] = [[[]]]
        stored, drawn = False, set[str]()
        for i in own:
            x = self.sass.instructions[i]
            written, read = registers_of(x)
            # What stores to a place that an atomic gave out is for the few that have something to report.
            reported = x.opcode == "STG" and bool(place_registers(x) & drawn)
            drawn = drawn | written if x.opcode == "ATOMG" or read & drawn else drawn - written
            if x.opcode == "BAR":
                parts.append([[]])
            elif x.opcode == "STG" and not reported:
                stored = True
                if parts[-1][-1]:
                    parts[-1].append([])
            elif x.opcode == "LDG" and "CONSTANT" not in x.modifiers:
                parts[-1][-1].append(i)
        found = max(([g for g in part if g] for part in parts), key=len)
        return Pass(tuple(map(tuple, found)) if stored else (), depth, innermost and not self._has_barriers)

    @property
    def _has_barriers(self) -> bool:
        """Whether loads wait for other threads anyway."""
        return bool(self.sass.where(lambda x: x.opcode == "BAR"))

    def _is_restricted(self) -> bool:
        """Whether every pointer parameter says that it has its data alone, or there is no other that may alias it."""
        pointers = [p for p in self.view.kernel.parameters if p.pointer]
        free = [p for p in pointers if not p.restrict]
        return bool(pointers) and (not free or (len(pointers) == 1 and len(self.view.kernel.parameters) > 1))

    def _indices(self, repeat: Repeat) -> list[int]:
        """Instructions of its kind on its line that stand in a loop of the compiled code."""
        return self.sass.in_loops_on(repeat.access.span.line, lambda x: x.opcode == repeat.opcode)

    def _observations(self, found: Sequence[Repeat]) -> tuple[Observation, ...]:
        seen = []
        for opcode, what in (("LDG", "loads"), ("STG", "stores")):
            alike = [r for r in found if r.opcode == opcode]
            if not alike:
                continue
            names = ", ".join(dict.fromkeys(self.view.said(r.access.span) for r in alike))
            seen.append(self.view.observe(f"{what} that do not change in their loop", names, tier="source"))
            if self.sass:
                count = len({i for r in alike for i in self._indices(r)})
                metric = f"{opcode} instructions in loops on these lines"
                seen.append(self.view.observe(metric, float(count)))
        return tuple(seen)

    def _gain(self, found: Sequence[Repeat]) -> Gain | None:
        """The repeated instructions gone, and the bytes that the stores among them send to L2."""
        if not self.sass:
            return None
        removed = self._removed_loads([r for r in found if r.opcode == "LDG"])
        stores = {i for r in found if r.opcode == "STG" for i in self._indices(r)}
        gone = stores.union(removed)
        floor = self.view.traffic.cycles()
        gain = removal_gain(self.sass, gone, floor)
        if gain is None or not stores:
            return gain
        # Stores are written through: what the loop stores, L2 takes.
        code, warp = self.sass.instructions, self.gpu.limits.warp_size
        sent = sum(self.sass.weights[i] * access_bytes(code[i]) for i in stores) * warp
        before = self.sass.cycles | floor
        before["l2"] = before.get("l2", 0.0) + sent / self.gpu.l2_bytes_per_clock
        ratio = bound_ratio(before, self.sass.cycles_at(self.sass.without(gone)) | floor)
        return Gain.of(ratio, max(ratio, gain.high))

    def _removed_loads(self, found: Sequence[Repeat]) -> list[int]:
        """As many loads of each line as its text repeats; which of them does not matter to the bound."""
        removed: list[int] = []
        for line in {r.access.span.line for r in found}:
            alike = [r for r in found if r.access.span.line == line]
            here = self._indices(alike[0])
            at_line = sum(1 for a in self.view.accesses if a.reads and a.span.line == line)
            removed += here[: max(1, len(here) * len(alike) // max(at_line, len(alike)))]
        return removed


def _message(worst: Repeat, text: str, others: Sequence[str]) -> str:
    if worst.opcode == "LDG":
        return (
            f"{text} does not change in its loop but is loaded in every iteration: "
            f"the store to {others[0]} may alias it."
        )
    return (
        f"{text} is the same element throughout its loop but is stored in every iteration: "
        f"the load of {_list(others)} may alias it."
    )


def _local(worst: Repeat, text: str) -> str:
    if worst.opcode == "LDG":
        return f"copy {text} to a local before the loop"
    return f"update a local in the loop and store it to {text} once, after the loop"


def _related(worst: Repeat) -> str:
    return f"this {'store' if worst.opcode == 'LDG' else 'load'} may alias it"


def _list(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"
