# SPDX-License-Identifier: Apache-2.0
"""one-load-in-flight

**What.** A loop loads a few bytes, uses them, and only then goes on to load the next: one load a thread is on its way.

**Why it costs.** Device memory answers after hundreds of cycles. By Little's law the bytes in flight must cover latency
times bandwidth; the resident warps with one narrow load each do not reach that, and they have too little to do between
two loads to fill the wait. The compiler unrolls a counted `for` and issues its loads together, but no `while` whose
condition changes within, no loop with a barrier or an atomic, and none that leaves early.

**Wrong**

```cuda
while (column < columns) {
    sum += x[row + column * rows];          // one load, one wait
    column += blockDim.y;
}
```

**Right**

```cuda
#pragma unroll 4
for (int c = threadIdx.y; c < columns; c += blockDim.y) sum += x[row + c * rows];
```

**Evidence.** The innermost loops of the SASS: bytes of global memory that one pass loads, those of all resident warps
against Little's law, and the cycles that a warp alone waits in a pass against those that the pipes need for all of
them.

**Threshold.** Fewer bytes than Little's law asks for at the occupancy that registers, shared memory and the block
allow, in four loads an iteration at most, and a wait that the resident warps' work does not fill; not the rest of a
loop that the compiler unrolled. A hint from half of those bytes on. Loops that store to memory that may alias what
they load are aliasing-reload's, those that fill a tile between barriers unoverlapped-copy's. Chains, where a load's
address is what the one before brought, are left alone: no unrolling helps them. It never is a warning: how much of it
the L1 and L2 caches have is not known.

**References.** V. Volkov, "Better Performance at Lower Occupancy", GTC 2010; CUDA C++ Best Practices Guide, "Loop
unrolling" and "Hiding latency".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding, count
from warplens_tools.lazily import cached_property
from warplens_tools.machine.waiting import LoopPass
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.pipes import access_bytes
from warplens_tools.sass.registers import registers_of

#: Share of what Little's law asks, from which it is a hint: latency is known to a factor.
SHORT = 0.5
#: Loads of an iteration that are few; more of them were issued together.
FEW = 4


class OneLoadInFlight(MicroTool):
    """A loop that waits for its own load in every iteration."""

    code = "WL214"
    slug = "one-load-in-flight"
    title = "A loop waits for its own load in every iteration"
    avoid = (
        "Do not unroll a chain in which each address comes of the load before it; do not load beyond the end "
        "of an array."
    )
    rule_words = "long scoreboard|latency"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the loop that waits longest."""
        if not self.sass:
            return
        found = [
            (p, loads) for p in self.view.waiting.innermost_passes if p.depth and (loads := self._exposed(p))
        ]
        if not found:
            return
        worst, loads = max(found, key=lambda each: (each[0].depth, each[0].memory))
        line = self.sass.hottest_line(loads)
        if line is None:
            return
        each, flying = self._bytes(loads), self._in_flight(loads)
        needed, meets = self.gpu.needed_bytes, self._has(worst, "BAR")
        yield self.finding(
            line,
            severity="information" if flying < SHORT * needed else "hint",
            confidence="low",
            message=(
                f"One load in flight: each iteration of this loop waits for its own "
                f"{count(each, 'byte')} a thread"
                f"{' between barriers' if meets else ''}, {flying / 1024:.1f} KB in flight per SM where device memory "
                f"needs {needed / 1024:.1f} KB."
            ),
            guidance=(
                "Load what the next iteration needs before this one's is used (a register or a second buffer)."
                if meets
                else "Have several loads on their way: a counted loop that is unrolled by four, with its loads first, "
                "or the next iteration's element loaded before this one's is used; a vector of 16 bytes where "
                "neighbours are wanted."
            ),
            evidence=(
                self.view.observe("bytes in flight per SM", round(flying), "byte", round(needed),
                    "Little's law: latency times this SM's share of the DRAM roof"),
                self.view.observe("cycles of one warp per iteration", round(worst.alone, 1), "cycle",
                    round(self.view.waiting.resident_warps * worst.busy, 1), "busiest pipe, all resident warps"),
            ),
        )  # fmt: skip

    def _exposed(self, loop: LoopPass) -> list[int]:
        """The loads of a loop that waits for them, whatever the other warps do; none where it does not, or it is
        another tool's."""
        code = self.sass.instructions
        loads = [i for i in loop.indices if self._is_load(i)]
        if not loads or not self.view.waiting.waits(loop):
            return []
        if self._has(loop, "LDGSTS") or (self._has(loop, "BAR") and self._has(loop, "STS")):
            return []
        if self._has(loop, "STG") and not all("CONSTANT" in code[i].modifiers for i in loads):
            return []
        # What one element serves all lanes of, the L1 has from the first warp on.
        loads = [i for i in loads if self._strides.get(i) != 0]
        short = 0 < len(loads) <= FEW and self._in_flight(loads) < self.gpu.needed_bytes
        return loads if short and not self._is_rest(loads) and not self._is_chain(loop, loads) else []

    @cached_property
    def _strides(self) -> dict[int, int | None]:
        """Bytes between the lanes of each global access; None where that is not known."""
        return {p.index: p.stride for p in self.sass.patterns if p.space == "global"}

    def _is_rest(self, loads: list[int]) -> bool:
        """Whether the line has more loads in another loop: the compiler unrolled it, and this is what is left over; or
        the text has the loop of whole vectors beside it."""
        here = {self.sass.lines[i] for i in loads}
        others = (
            set(p.indices) - set(loads)
            for p in self.view.waiting.innermost_passes
            if loads[0] not in p.indices
        )
        alike = ([i for i in own if self.sass.lines[i] in here and self._is_load(i)] for own in others)
        return any(len(own) > len(loads) for own in alike) or all(map(self._is_after_vectors, loads))

    def _is_after_vectors(self, load: int) -> bool:
        """Whether another loop of the text reads the same array in wider elements: this one takes what they leave."""
        line, width = self.sass.lines[load], access_bytes(self.sass.instructions[load])
        every = [a for a in self.view.global_accesses if a.reads and a.loops]
        here = [a for a in every if a.span.line == line]
        return any(
            other.name == own.name
            and other.loops[-1].offset != own.loops[-1].offset
            and (self.view.element_bytes(other.element_type) or 0) > width
            for own in here
            for other in every
        )

    def _is_load(self, index: int) -> bool:
        return self.sass.instructions[index].opcode == "LDG"

    def _is_chain(self, loop: LoopPass, loads: list[int]) -> bool:
        """Whether the address of every load comes of what was loaded in the loop."""
        brought, chained = set[str](), set[int]()
        for i in (*loop.indices, *loop.indices):
            written, read = registers_of(self.sass.instructions[i])
            if brought & read:
                chained.add(i)
            brought = brought | written if self._is_load(i) or brought & read else brought - written
        return chained.issuperset(loads)

    def _has(self, loop: LoopPass, opcode: str) -> bool:
        return any(self.sass.instructions[i].opcode == opcode for i in loop.indices)

    def _bytes(self, loads: list[int]) -> int:
        return sum(access_bytes(self.sass.instructions[i]) for i in loads)

    def _in_flight(self, loads: list[int]) -> float:
        return float(self._bytes(loads) * self.view.waiting.resident_warps * self.gpu.limits.warp_size)
