# SPDX-License-Identifier: Apache-2.0
"""dependent-loads

**What.** A loop loads an address, or an index, and then what lies there: `data[link[i]]`, a list, a tree, a state
that is read where the last step left off.

**Why it costs.** The second load cannot start before the first has come back: each iteration waits for one round trip
to memory after the other, hundreds of cycles each, whatever is unrolled. Only other warps, or other chains of the same
thread, fill that time.

**Wrong**

```cuda
while (node >= 0) { sum += value[node]; node = next[node]; }         // a round trip for each node
```

**Right**

```cuda
int following = next[node];                                          // on its way while this one is worked on
```

**Evidence.** The innermost loops of the SASS: which loads' addresses come of loads of the same iteration or of the one
before; the cycles that a warp alone waits for memory in an iteration against those that the pipes need for all
resident warps.

**Threshold.** Three round trips in an iteration, or one that the next iteration's address waits for; half of the
iteration's time alone, which the resident warps' work does not fill. Information: how much of it the caches have, and
how many warps the card is given, is not known.

**References.** CUDA C++ Best Practices Guide, "Hiding latency"; V. Volkov, "Understanding Latency Hiding on GPUs"
(2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.finding import Finding
from warplens_tools.machine.waiting import LoopPass
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.registers import place_registers, registers_of

#: Round trips of an iteration from which it is told, where the next iteration's do not wait for them.
ROUND_TRIPS = 3
#: Share of a pass alone that is spent on global memory.
WAITING = 0.5
_LOADS = ("LDG", "LD", "ATOMG")
#: What goes through shared memory, whatever its place there.
_SHARED, _TO_SHARED, _FROM_SHARED = "shared memory", ("STS", "ATOMS"), ("LDS", "ATOMS")


class Chain(msgspec.Struct, frozen=True):
    """Loads of a loop of which each waits for the one before."""

    #: Round trips to memory in an iteration, one after the other.
    trips: int
    #: Whether the next iteration's first one waits for this iteration's last.
    carried: bool
    #: Of the loads whose address was loaded in the loop.
    indices: tuple[int, ...]


class DependentLoads(MicroTool):
    """Loads that wait for the load before them."""

    code = "WL215"
    slug = "dependent-loads"
    title = "Each load of a loop waits for the one before"
    rule_words = "long scoreboard|latency"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the loop whose chain is longest."""
        if not self.sass:
            return
        found = [
            (p, chain)
            for p in self.view.waiting.innermost_passes
            if p.depth and (chain := self.chain(p)) is not None and self._waits(p, chain)
        ]
        if not found:
            return
        worst, chain = max(found, key=lambda f: (f[0].depth, f[1].carried, f[1].trips))
        place = self.hottest_place(chain.indices)
        if place.line is None:
            return
        said = (
            "a step of this loop waits for what the step before loaded"
            if chain.carried
            else f"an iteration of this loop waits for {chain.trips} round trips to memory, one after the other"
        )
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=f"Dependent loads{self.written_in(chain.indices)}: {said}.",
            guidance=(
                "Have more chains on their way: several items a thread side by side, or more resident warps (smaller "
                "blocks of work, fewer registers); "
                + (
                    "keep in registers or shared memory what the next step reads again, and fetch it as soon as it is "
                    "known."
                    if chain.carried
                    else "load the next iteration's index before this one's data is used, or store the data where the "
                    "index is."
                )
            ),
            evidence=(
                self.view.observe("round trips of an iteration", float(chain.trips), "", float(ROUND_TRIPS)),
                self.view.observe(
                    "cycles of one warp per iteration", round(worst.alone, 1), "cycle",
                    round(self._warps * worst.busy, 1), "busiest pipe, all resident warps",
                ),
            ),
        )  # fmt: skip

    def _waits(self, loop: LoopPass, chain: Chain) -> bool:
        """Whether a warp waits for memory longer than all resident ones have to do, if the L2 has not what is far."""
        far = chain.trips * (self.gpu.costs.memory_wait - self.gpu.costs.l2_wait)
        alone = loop.alone + far
        return loop.memory + far >= WAITING * alone and self._warps * loop.busy < alone

    def chain(self, loop: LoopPass) -> Chain | None:
        """The longest chain of a loop's loads; None where it is short."""
        first, after, indices = self._levels(loop.indices)
        carried = after > first
        trips = after - first if carried else first
        if not carried and trips < ROUND_TRIPS:
            return None
        return Chain(trips, carried, tuple(indices)) if indices else None

    def _levels(self, body: Sequence[int]) -> tuple[int, int, list[int]]:
        """Most loads one after the other in one pass, in two passes, and those that wait for another."""
        code = self.sass.instructions
        level: dict[str, int] = {}
        most, indices = [0, 0], dict[int, None]()
        for turn in (0, 1):
            for i in body:
                written, read = registers_of(code[i])
                shared = (_SHARED,) if code[i].opcode in _FROM_SHARED else ()
                before = max((level.get(name, 0) for name in (*read, *shared)), default=0)
                if code[i].opcode in _TO_SHARED:
                    level[_SHARED] = max(before, level.get(_SHARED, 0))
                if code[i].opcode in _LOADS:
                    waited = max((level.get(name, 0) for name in place_registers(code[i])), default=0)
                    if waited:
                        indices[i] = None
                    before = waited + 1
                    most[turn] = max(most[turn], before)
                for name in written:
                    level[name] = max(before, level.get(name, 0)) if code[i].predicate else before
        return most[0], most[1], list(indices)

    @property
    def _warps(self) -> int:
        """Resident warps of an SM; all it can hold where the launch is not known."""
        held, known = self.view.waiting.residency, self.view.occupancy
        if held is not None:
            return held.warps
        return known.warps if known is not None else self.gpu.limits.max_warps
