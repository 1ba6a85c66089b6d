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

**Threshold.** A gain of 1.15 in the bounded model, on sm_80 and later, which copy asynchronously. With
counters: 30 % of the stalls on long scoreboards and barriers confirm it (Nsight Compute's stall rule), fewer
than 5 % withdraw it. The wait counts with the latency of L2 where blocks share the tile, else with that of
device memory.

**References.** CUDA C++ Programming Guide, "Asynchronous Data Copies"; CUDA C++ Best Practices Guide, "Asynchronous
Copy from Global Memory to Shared Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding, Gain
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


class UnoverlappedCopy(MicroTool):
    """A loop waits for each tile before it works on it."""

    code = "WL207"
    slug = "unoverlapped-copy"
    title = "A loop waits for each tile before it works on it"
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
        held = self.view.waiting.residency
        staged = [(loop, loads) for loop in self.sass.flow.loops if (loads := self.staging_loads(loop))]
        if held is None or not staged:
            return
        loop, loads = max(staged, key=lambda s: s[0].depth)
        wait = self.gpu.costs.memory_wait if self._is_own() else self.gpu.costs.l2_wait
        gain, block = self._gain(loop, held, wait)
        if gain.estimate < self.worth:
            return
        line = self.sass.hottest_line(loads)
        yield self.finding(line,
            confidence="medium",
            message=(
                f"Copy not overlapped with compute: each iteration waits about {wait:.0f} cycles for its tile before "
                f"{block:.0f} cycles of work, and {_blocks(held)} cannot hide that."
            ),
            guidance=(
                "Ask for the next tile before working on this one: cp.async (__pipeline_memcpy_async, "
                "cuda::memcpy_async) "
                "into a second buffer, or load it into registers first and store it after the work."
            ),
            evidence=(
                self.view.observe("global loads stored to shared memory at once", float(len(loads)),
                            "instructions"),
                self.view.observe("resident blocks per SM", float(held.blocks)),
            ),
            gain=gain,
            index_query="cp.async multistage pipeline SM80_CP_ASYNC_CACHEALWAYS",
        )  # fmt: skip

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

    def staging_loads(self, loop: Loop) -> list[int]:
        """Loads of the loop that are stored to shared memory before any arithmetic on shared data, with a barrier
        behind.

        Empty where the loop has none, copies asynchronously, or has no such arithmetic.
        """
        indices, code = self.sass.flow.instructions_of(loop), self.sass.instructions
        if any(code[i].opcode in _ASYNCHRONOUS for i in indices):
            return []
        bars = [i for i in indices if code[i].opcode == "BAR"]
        works = [i for i in indices if flops(code[i]) or code[i].opcode in ("LDS", "LDSM")]
        found: list[int] = []
        for store in (i for i in indices if space_of(code[i]) == "shared" and code[i].opcode == "STS"):
            load = self._giver(indices, store)
            between = [
                i
                for i in works
                if load is not None and load < i < store and code[i].opcode in ("LDS", "LDSM")
            ]
            after = any(bar > store and any(w > bar for w in works) for bar in bars)
            if load is not None and not between and after:
                found.append(load)
        return found

    def _giver(self, indices: list[int], store: int) -> int | None:
        """The global load in the loop, before the store, whose result it stores as it is, or after conversions."""
        code = self.sass.instructions
        wanted = set(registers_of(code[store])[1])
        for i in reversed([i for i in indices if i < store]):
            written, read = registers_of(code[i])
            if not written & wanted:
                continue
            if space_of(code[i]) == "global":
                return i
            if code[i].opcode in (
                "FMUL",
                "FADD",
                "FFMA",
                "PRMT",
                "MOV",
                "SEL",
                "FSEL",
                "F2FP",
                "HADD2",
                "I2F",
            ):
                wanted |= read
        return None


def _blocks(held: Residency) -> str:
    return "a single block on an SM" if held.blocks == 1 else f"the {held.blocks} blocks on an SM"
