# SPDX-License-Identifier: Apache-2.0
"""scattered-atomics

**What.** Each thread does many atomics on global memory, in a loop or one after the other, each to a place of its
own: an update per edge, per sample, per bit or per channel.

**Why it costs.** An atomic is done in the L2, a sector at a time: a request whose lanes go to 32 places takes 32 turns
of the slices, where a multiply-add takes a quarter of a cycle. A kernel that does one for every few instructions runs
at the pace of the L2's atomic units.

**Wrong**

```cuda
for (int e = first; e < last; ++e)
    for (int c = 0; c < 4; ++c) atomicAdd(&out[4 * target[e] + c], w[e] * x[c]);      // four for each edge
```

**Right**

```cuda
for (int e = begin[v]; e < begin[v + 1]; ++e) sum += w[e] * x[e];     // sorted by target: a thread or warp for each
out[v] = sum;
atomicAdd(reinterpret_cast<float4 *>(out) + target[e], make_float4(...));   // sm_90: four in one
```

**Evidence.** `RED` and `ATOM` instructions of the SASS, wherever they were inlined from: how often each runs against
the rest, the sectors that a warp's lanes go to, and the time that the L2 takes for them against that of all else.

A loop of compare-and-swap that computes a floating-point value stands for an atomic that the card has: each update
waits for the L2, and again for each thread that came between.

**Threshold.** Any such loop. Else in a loop, or at least four that no branch parts, and a gain of 1.5 without them in
the bounded model. Information: the model knows neither how often lanes meet nor what would do instead. Atomics that
`threadIdx`, a leader's test or data is seen to keep for a few, loops that only repeat one until it succeeds, and those
that global-atomic-contention tells are left alone.

**References.** CUDA C++ Programming Guide, "Atomic Functions"; N. Sakharnykh, "GPU Pro Tip: Fast Histograms Using
Shared Atomics on Maxwell", NVIDIA Technical Blog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.cuda.facts.atomics import Atomic, atomics
from warplens_tools.finding import Finding, count
from warplens_tools.lazily import cached_property
from warplens_tools.machine.atomics import slices_at_once
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.emulated import emulates
from warplens_tools.micro.common.serial import judge_global_atomics
from warplens_tools.sass.adjacent import neighbours
from warplens_tools.sass.pipes import GLOBAL_ATOMICS
from warplens_tools.sass.registers import place_registers, registers_of
from warplens_tools.settle import sides_by_data

#: Atomics of a thread from which they are many outside loops too.
MANY = 4
#: Instructions of a loop that does no more than repeat one atomic: a lock, or an update by compare-and-swap.
_RETRIES = 24
_SWAPS = frozenset({"CAS", "EXCH", "CAST"})
#: The first architecture whose atomics on global memory take vectors of float.
_VECTORS_FROM = 90


class ScatteredAtomics(MicroTool):
    """Many atomics a thread, each to a place of its own."""

    code = "WL118"
    slug = "scattered-atomics"
    title = "Many atomics of each thread on places of its own"
    avoid = (
        "Do not replace an atomic by a plain read and write; do not take neighbours in one vector where their"
        " address is not aligned to it."
    )
    rule_words = "atomic"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")
    #: Speedup without them in the bounded model from which they are told.
    worth = 1.5
    judges = (judge_global_atomics,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose atomics weigh most; of emulated ones before others."""
        yield from list(self._emulated()) or self._many()

    def _emulated(self) -> Iterator[Finding]:
        """Updates by a loop of compare-and-swap, where atomics of the card's own do the same."""
        code, flow = self.sass.instructions, self.sass.flow
        loops = [flow.instructions_of(loop) for loop in flow.innermost_loops] if self.sass else []
        found = {i: kind for body in loops if (kind := emulates(code, body)) for i in body}
        swaps = [i for i in found if code[i].opcode in GLOBAL_ATOMICS]
        place = self.hottest_place(swaps) if swaps else None
        if place is None or place.line is None:
            return
        sums = all(found[i] == "sum" for i in swaps)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"Atomic emulated by compare-and-swap{self.written_in(swaps)}: each update loads, computes and swaps "
                "until no other thread came between, and waits for the L2 each time."
            ),
            guidance=(
                "Call the native atomicAdd (float everywhere, double since sm_60, __half2 and __nv_bfloat16 since "
                "sm_90), whose result nobody waits for; sum what goes to one place within the thread, warp or block "
                "first."
                if sums
                else "Combine what goes to one place within the thread, warp or block first; a maximum or minimum of "
                "floats is atomicMax or atomicMin of their bits as integers."
            ),
            evidence=(self.view.observe("loops of compare-and-swap", float(len(swaps))),),
        )

    def _many(self) -> Iterator[Finding]:
        found = self._scattered
        looped = [i for i in found if self.sass.flow.depths[i]]
        if not looped and self._together(found) < MANY:
            return
        ratio = self.time_ratio(found)
        if ratio < self.worth:
            return
        place = self.hottest_place(looped or found)
        if place.line is None:
            return
        told = looped or found
        each, sectors = len(told), max(self._sectors(i) for i in told)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"{'Global atomics in a loop' if looped else f'{each} global atomics of each thread'}"
                f"{self.written_in(told)}, up to {count(sectors, 'sector')} per request: the L2 takes about "
                f"{ratio:.1f} times as long for them as all else takes."
            ),
            guidance=self._guidance(told),
            evidence=(
                self.view.observe("atomics on global memory", float(each)),
                self.view.observe("sectors per request", float(sectors)),
                self.view.observe(
                    "time of the L2's atomics over that of all else", round(ratio, 2), "", self.worth
                ),
            ),
            index_query="segmented reduction atomics",
        )

    @cached_property
    def _scattered(self) -> list[int]:
        """Indices of the atomics that most lanes do, and that are neither another tool's nor a wait for a lock."""
        if not self.sass.where(lambda x: x.opcode in GLOBAL_ATOMICS):
            return []  # Following addresses takes longer than all else here.
        sass, retried = self.sass, self._retried
        told = {c.atomic.span.line for c in self.view.contention.atomics.in_global}
        every = atomics(self.view.tree, self.view.kernel, self.view.dim3)
        few = {a.span.line for a in every if a.leader or (a.guarded and not self._loops_behind_tests(a))}
        part = {p.index for p in sass.patterns if p.part}
        return [
            i
            for i in sass.where(lambda x: x.opcode in GLOBAL_ATOMICS)
            if i not in sass.flow.rare
            and i not in retried
            and i not in part
            and not any(sass.table.passes(sass.instructions[i], line) for line in told | few)
        ]

    def _loops_behind_tests(self, atomic: Atomic) -> bool:
        """Whether the tests of data before an atomic stand outside its loop: who comes there does one each time."""
        loop = atomic.loops[-1].span if atomic.loops else None
        sides = sides_by_data(self.view)
        within = (at for at, side in sides if side.contains_line(atomic.span.line))
        return loop is not None and not any(loop.contains_line(at) for at in within)

    def _together(self, found: Sequence[int]) -> int:
        """Most of them that no branch or predicate parts: of several sides a thread takes one."""
        groups: dict[tuple[int, str], int] = {}
        for b, block in enumerate(self.sass.flow.blocks):
            for i in found:
                if block.first <= i <= block.last:
                    key = (b, self.sass.instructions[i].predicate)
                    groups[key] = groups.get(key, 0) + 1
        return max(groups.values(), default=0)

    @property
    def _retried(self) -> frozenset[int]:
        """Atomics of loops that wait for a lock: swaps with hardly anything beside them."""
        flow = self.sass.flow
        inner = (flow.instructions_of(loop) for loop in flow.innermost_loops)
        return frozenset(i for own in inner if len(own) <= _RETRIES for i in own if self._swaps(i))

    def _swaps(self, index: int) -> bool:
        return bool(_SWAPS & set(self.sass.instructions[index].modifiers))

    def _sectors(self, index: int) -> int:
        """Sectors that a warp's lanes go to: one each where their addresses are not known."""
        found = next((p.sectors for p in self.sass.patterns if p.index == index), None)
        return found[1] if found is not None else self.gpu.limits.warp_size

    def time_ratio(self, found: Sequence[int]) -> float:
        """Time of the L2's slices for them over what all else takes, memory counted as it may come to."""
        slices = slices_at_once(self.gpu.l2_bytes, self.gpu)
        each = self.gpu.costs.atomic * self.gpu.multiprocessors / slices
        spent = sum(self.sass.weights[i] * self._sectors(i) * each for i in found)
        rest = self.sass.cycles_at(self.sass.without(found)) | self.view.traffic.pessimistic_cycles
        return bound_ratio({"atomics": spent}, rest)

    def _guidance(self, found: Sequence[int]) -> str:
        """What would do instead, as far as the code tells."""
        if any(self._swaps(i) for i in found):
            return (
                "Use the native atomicAdd, whose result nobody waits for, instead of a loop of swaps; and sum what "
                "goes to one place in registers or by shuffles first."
            )
        if all(self._stays(i) for i in found):
            return "The place does not change in the loop: add up in a register and do one atomic after it."
        cures = [
            "Let one thread, warp or block sum what goes to one place (sort or group the updates by it, or let each "
            "place gather its own) and store it once"
        ]
        vector = self._vector(found)
        if vector:
            cures.append(f"take neighbouring elements in one atomicAdd of a {vector}")
        cures.append("add up in shared memory first where a block's updates meet")
        return "; ".join(cures) + "."

    def _vector(self, found: Sequence[int]) -> str:
        """The vector type that several of them fit, on cards that have such atomics; "" where none does."""
        floats = [i for i in found if "F32" in self.sass.instructions[i].modifiers]
        if not floats or int(self.gpu.arch.removeprefix("sm_")) < _VECTORS_FROM:
            return ""
        longest = max(
            (len(c) for c in neighbours(self.sass, GLOBAL_ATOMICS) if set(c) <= set(floats)), default=0
        )
        return "float4" if longest >= 4 else "float2" if longest >= 2 else ""

    def _stays(self, index: int) -> bool:
        """Whether nothing in the innermost loop around it writes the registers of its address."""
        loop = self.sass.flow.innermost(index)
        if loop is None:
            return False
        inside = self.sass.flow.instructions_of(loop)
        written = {name for i in inside for name in registers_of(self.sass.instructions[i])[0]}
        return not place_registers(self.sass.instructions[index]) & written
