# SPDX-License-Identifier: Apache-2.0
"""unoverlapped-copy

**What.** A loop brings a tile from global into shared memory through registers, waits at a barrier, works on the
tile, and only then asks for the next one.

**Why it costs.** While the tile is on its way, several hundred cycles, no warp of the block has anything to do: the
barrier lets none of them into the arithmetic. Other blocks on the SM can fill the time, where enough of them fit.

**Wrong**

```cuda
for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = a[t * 256 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 256; ++k) sum += tile[k] * w;
    __syncthreads();
}
```

**Right**

```cuda
__pipeline_memcpy_async(&tile[0][threadIdx.x], &a[threadIdx.x], 4);     // cp.async, from sm_80 on
__pipeline_commit();
for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) __pipeline_memcpy_async(&tile[(t + 1) % 2][threadIdx.x], &a[(t + 1) * 256 + threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();                                                    // the next tile comes in meanwhile
    …
}
```

**Evidence.** In the SASS of a loop: a global load whose result is stored to shared memory before any arithmetic on
shared data, and a barrier behind it; the loop's cycles for the resident warps, with the wait and without. Counters
tell what warps stall on: they confirm the finding or withdraw it.

**Threshold.** A gain of 1.15 in the bounded model, on sm_80 and later, which copy asynchronously; a hint below it,
where no launch tells the block, and of loads that a loop with barriers or shuffles needs at once. With counters: 30 %
of the stalls on long scoreboards and barriers confirm it (Nsight Compute's stall rule), fewer than 5 % withdraw it.
The wait counts with the latency of L2 where blocks share the tile, else with that of device memory.

**References.** CUDA C++ Programming Guide, "Asynchronous Data Copies"; CUDA C++ Best Practices Guide, "Asynchronous
Copy from Global Memory to Shared Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding, Gain, count
from warplens_tools.machine.waiting import Residency
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import EVERY, judge_by_room
from warplens_tools.sass.flow import Loop
from warplens_tools.sass.listing import TRIPS_PER_LEVEL
from warplens_tools.sass.pipes import flops, space_of
from warplens_tools.sass.registers import registers_of

#: First architecture with cp.async.
_FIRST_ARCH = 80
_ASYNCHRONOUS = frozenset({"LDGSTS", "UBLKCP", "UTMALDG", "LDGDEPBAR"})
#: Where the threads of a block, or of a warp, wait for one another.
_MEETS = frozenset({"BAR", "SHFL"})
#: What a tile's elements go through on their way: conversions, a factor, a term.
_CONVERTED = frozenset({"FMUL", "PRMT", "MOV", "SEL", "FSEL", "F2FP", "HADD2", "I2F"})
_PASSED_ON = _CONVERTED | {"FADD", "FFMA"}


class UnoverlappedCopy(MicroTool):
    """A loop waits for each tile before it works on it."""

    code = "WL207"
    slug = "unoverlapped-copy"
    title = "A loop waits for each tile before it works on it"
    avoid = "Do not overwrite a buffer that a copy or a kernel on another stream still reads."
    rule_words = "long scoreboard|barrier"
    tiers = ("binary",)
    relevant = ("latency", "memory", "compute")
    #: Gain in the bounded model from which it is reported.
    worth = 1.15
    judges = (judge_by_room(stalls=("long_scoreboard", "barrier"), kept=EVERY),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line that brings the tile in."""
        if not self.sass or not self._copies_asynchronously():
            return
        held = None if self._is_idle_by_default() else self.view.waiting.residency
        staged = [(loop, loads) for loop in self.sass.flow.loops if (loads := self.staging_loads(loop))]
        if not staged:
            yield from self._waited_for()
            return
        loop, loads = max(staged, key=lambda s: s[0].depth)
        wait = self.gpu.costs.memory_wait if self._is_own() else self.gpu.costs.l2_wait
        gain, block = self._gain(loop, held, wait) if held is not None else (None, 0.0)
        told, work = "other blocks alone can hide that", "work"
        if held is not None and gain is not None and gain.estimate >= self.worth:
            told, work = f"{_blocks(held)} cannot hide that", f"{block:.0f} cycles of work"
        elif not self.staging_loads(loop, _CONVERTED):
            return
        else:
            gain = None
        line = self.sass.hottest_line(loads)
        yield self.finding(line,
            severity="warning" if gain is not None else "hint",
            confidence="medium" if gain is not None else "low",
            message=(
                f"Copy not overlapped with compute: each iteration waits about {wait:.0f} cycles for its tile before "
                f"{work}, and {told}."
            ),
            guidance=(
                "Ask for the next tile before working on this one: cp.async (__pipeline_memcpy_async, "
                "cuda::memcpy_async) "
                "into a second buffer, or load it into registers first and store it after the work."
            ),
            evidence=(
                self.view.observe("global loads stored to shared memory at once", float(len(loads)),
                            "instructions"),
                *([self.view.observe("resident blocks per SM", float(held.blocks))] if held is not None else []),
            ),
            gain=gain,
            index_query="cp.async multistage pipeline SM80_CP_ASYNC_CACHEALWAYS",
        )  # fmt: skip

    def _is_idle_by_default(self) -> bool:
        """Whether a run without arguments leaves SMs without a block: a size to try the program with, which says
        nothing of how many blocks hide each other's waits."""
        shape = self.view.usual_shape
        small = shape is not None and shape.blocks < self.gpu.multiprocessors
        return small and self.view.shape is None

    def _waited_for(self) -> Iterator[Finding]:
        """A loop whose warps meet in every iteration, each with loads that the same iteration needs."""
        code = self.sass.instructions
        found: list[int] = []
        for loop in self.sass.flow.loops:
            inside = self.sass.flow.instructions_of(loop)
            meets = any(code[i].opcode in _MEETS for i in inside)
            waited = [i for i in inside if code[i].opcode == "LDG" and self._is_needed(i, inside)]
            # The loads of a loop within are that loop's.
            own = [i for i in waited if self.sass.flow.depths[i] == loop.depth]
            if meets and len(own) > len(found):
                found = own
        if not found or any(x.opcode in _ASYNCHRONOUS for x in code):
            return
        yield self.finding(
            self.sass.hottest_line(found),
            severity="hint",
            confidence="low",
            message=(
                f"Loads not prefetched: every iteration of this loop waits for {count(len(found), 'load')} of its own "
                "before its threads go on together."
            ),
            guidance=(
                "Load what the next iteration needs before working on this one, into registers or a second buffer "
                "(cp.async), so that the wait and the work overlap."
            ),
            evidence=(
                self.view.observe(
                    "global loads that their own iteration needs", float(len(found)), "instructions"
                ),
            ),
            index_query="cp.async multistage pipeline SM80_CP_ASYNC_CACHEALWAYS",
        )

    def _is_needed(self, load: int, inside: list[int]) -> bool:
        """Whether an iteration reads what it has loaded, other than to hand it to the next one: in a register, or
        behind its work on shared memory in a second buffer there."""
        code = self.sass.instructions
        loaded = registers_of(code[load])[0]
        for i in (i for i in inside if i > load):
            written, read = registers_of(code[i])
            if read & loaded:
                if code[i].opcode == "STS" and self._works_between(load, i):
                    return False
                return code[i].opcode != "MOV" and code[i].modifiers[:1] != ("MOV",)
            if written & loaded:
                return False
        return False

    def _works_between(self, first: int, last: int) -> bool:
        """Whether code between two instructions reads shared memory and computes with it."""
        between = self.sass.instructions[first + 1 : last]
        return any(x.opcode in ("LDS", "LDSM") for x in between) and any(map(flops, between))

    def _copies_asynchronously(self) -> bool:
        digits = "".join(ch for ch in self.gpu.arch if ch.isdigit())
        return bool(digits) and int(digits) >= _FIRST_ARCH

    def _is_own(self) -> bool:
        """Whether every block reads elements of its own, so that they come from device memory."""
        traffic = self.view.traffic.moved()
        return traffic.lower >= 0.5 * traffic.upper

    def _gain(self, loop: Loop, held: Residency, wait: float) -> tuple[Gain, float]:
        """An SM's time per pass of all its blocks, with the wait and without; and a block's cycles of work per pass."""
        spent = self.view.waiting.loop_pass(loop, wait)
        inside = self.sass.flow.instructions_of(loop)
        here = {i: self.sass.weights[i] / TRIPS_PER_LEVEL**loop.depth for i in inside}
        busy = max(self.sass.cycles_of(here).values())
        floor = max(self.view.traffic.cycles().values()) / TRIPS_PER_LEVEL**loop.depth * held.warps
        work = held.block_warps * busy
        full = max(held.warps * busy, floor)
        exposed = min(spent.memory, wait)
        now = max(full, work + exposed + spent.barrier)
        without = max(full, work + spent.barrier)
        return Gain.of(now / without, now / full), work

    def staging_loads(self, loop: Loop, through: frozenset[str] = _PASSED_ON) -> list[int]:
        """Loads of the loop that are stored to shared memory before any arithmetic on shared data, with a barrier
        behind.

        `through` are the opcodes that change a loaded element on its way. Empty where the loop has none, copies
        asynchronously, or has no such arithmetic.
        """
        indices, code = self.sass.flow.instructions_of(loop), self.sass.instructions
        if any(code[i].opcode in _ASYNCHRONOUS for i in indices):
            return []
        bars = [i for i in indices if code[i].opcode == "BAR"]
        works = [i for i in indices if flops(code[i]) or code[i].opcode in ("LDS", "LDSM")]
        found: list[int] = []
        for store in (i for i in indices if space_of(code[i]) == "shared" and code[i].opcode == "STS"):
            load = self._giver(indices, store, through)
            between = [
                i
                for i in works
                if load is not None and load < i < store and code[i].opcode in ("LDS", "LDSM")
            ]
            after = any(bar > store and any(w > bar for w in works) for bar in bars)
            if load is not None and not between and after:
                found.append(load)
        return found

    def _giver(self, indices: list[int], store: int, through: frozenset[str]) -> int | None:
        """The global load in the loop, before the store, whose result it stores as it is, or after conversions."""
        code = self.sass.instructions
        wanted = set(registers_of(code[store])[1])
        for i in reversed([i for i in indices if i < store]):
            written, read = registers_of(code[i])
            if not written & wanted:
                continue
            if space_of(code[i]) == "global":
                return i
            if code[i].opcode in through:
                wanted |= read
            elif flops(code[i]):
                wanted -= written  # A result, not what was loaded.
        return None


def _blocks(held: Residency) -> str:
    return "a single block on an SM" if held.blocks == 1 else f"the {held.blocks} blocks on an SM"
