# SPDX-License-Identifier: Apache-2.0
"""missing-cache-reuse

**What.** The threads of a block read the same elements of global memory again and again, instead of
bringing them once into shared memory or registers: the plain triple loop of a matrix product, or a wide
filter that reads its whole window for every output.

**Why it costs.** Each multiply-add needs one or two loads, and a load takes the load/store path several
times as long as a multiply-add takes the arithmetic pipe. Even if all of them hit the L1, that path is
the roof, and arithmetic idles.

**Wrong**

```cuda
for (int k = 0; k < n; ++k)
    sum += a[row * n + k] * b[k * n + column];      // two loads per multiply-add
```

**Right**

```cuda
__shared__ float as[64][17], bs[16][64];            // tiles, filled by the block once per 16 k
...
for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 4; ++i)                     // 4 x 4 outputs a thread: 8 loads per 16 multiply-adds
        for (int j = 0; j < 4; ++j) sum[i][j] += as[ty + 16 * i][k] * bs[k][tx + 16 * j];
```

**Evidence.** The threads of a block per element: extents of the block that the index does not mention, and
overlap along a loop that moves the index as a neighbouring thread does. From SASS, the cycles of the load/store
path against every arithmetic pipe. Counters tell how busy the caches were with the loads, and the arithmetic
pipes, which a tile leaves as they are: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** Eight threads per element (the reuse that a small tile brings), in loads that take the
load/store path longer than any other unit is needed. The expected gain takes tiles with four outputs a
thread in each direction. Where loads are not the roof it is information, of an innermost loop most of whose loads are
uniform: all threads wait for the same elements, one after another.

**References.** CUDA C++ Programming Guide, "Shared Memory" (matrix multiplication); CUTLASS, "Efficient GEMM in
CUDA"; KernelPro's SharedMemTiling tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.cuda.facts.searches import searches
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain, count
from warplens_tools.lazily import cached_property
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.machine.reuse import Reread
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.chains import led_by_data
from warplens_tools.micro.common.judges import (
    ARITHMETIC,
    DRAM,
    GLOBAL_STALLS,
    L1,
    L2,
    busiest,
    cap_gain,
    share_of,
)
from warplens_tools.micro.common.sectors import SCATTERED
from warplens_tools.roofline.measured import NEAR_ROOF
from warplens_tools.sass.pipes import access_bytes, is_load, space_of
from warplens_tools.sass.registers import registers_of

#: Hit rate of a cache, per cent, from which what is read again seldom comes from DRAM.
MOSTLY_HITS = 50.0
#: Threads of a block per element from which a tile pays.
REUSED = 8
#: Loads that stay of each once a thread keeps 4 x 4 outputs in registers.
KEPT = 0.25
#: Values that one instruction then brings from shared memory: 16 bytes of floats.
WIDE = 4.0
#: Arithmetic instructions a global load up to which loads are most of a loop's work: a multiply-add with an operand of
#: its own each, and one beside it.
BESIDE = 2
#: Products of integers that the address of an access takes at most, run-time strides among them.
_PRODUCTS = 2
_COMPUTES = frozenset({"FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA", "HADD2", "HMUL2", "HFMA2", "FMNMX"})


class MissingCacheReuse(MicroTool):
    """Threads of a block read the same global elements again and again."""

    code = "WL107"
    slug = "missing-cache-reuse"
    title = "Threads of a block read the same global elements again and again"
    avoid = "Do not stage in shared memory what a block reads once."
    rule_words = "shared memory|L1TEX.*(?:LG|local/global)|lg throttle|locality"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")
    #: Expected gain from which it is said: a change of structure is not for a few per cent.
    worth = 1.25

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the deepest loads that are read most often."""
        if not self.sass or (self.view.threads or REUSED) < REUSED:
            return  # Blocks of fewer threads than that share nothing worth a tile.
        if self._common and not self._rereads:
            return
        yield from list(self._tiles()) or list(self._uniform()) or self._beside_arithmetic()

    def _tiles(self) -> Iterator[Finding]:
        """Loads whose elements several threads of a block read, where loads are what bounds the kernel."""
        found = [r for r in self._rereads if not self._is_brought(r)]
        if not found:
            yield from self._hidden()
            return
        if self._only_broadcasts(found):
            return
        depth = max(len(r.access.loops) for r in found)
        found = [r for r in found if len(r.access.loops) == depth]
        if self._is_beside_rows(found):
            return
        gain = self._gain(found)
        if gain is None or gain.estimate < self.worth:
            return
        worst = found[0]
        names = list(dict.fromkeys(r.access.name for r in found))
        loop = worst.access.loops[-1]
        # Several outputs a thread would leave fewer blocks still.
        few = self.view.shape is not None and self.view.shape.blocks < self.gpu.multiprocessors
        yield self.finding(
            worst.access.span,
            severity="information" if few else "warning",
            confidence="low" if few else "medium",
            message=(
                f"No tiling: {worst.times} threads of a block load each element of {' and '.join(names)} from "
                "global memory "
                f"in the loop of line {loop.span.line}, which loads bound."
            ),
            guidance=(
                f"Bring tiles of {' and '.join(names)} into shared memory once per block, with all their loads in "
                "flight at once: the loop then waits for shared memory alone."
                if few
                else f"Bring tiles of {' and '.join(names)} into shared memory once per block, and let each thread "
                "compute several outputs (4 x 4) from registers, so that a loaded value serves several multiply-adds."
            ),
            evidence=self._observations(worst),
            gain=None if few else gain,
            index_query="sgemm shared memory tile register blocking",
        )

    def _is_brought(self, read: Reread) -> bool:
        """Whether the statement stores what it loads in shared memory: it is the tile's own."""
        line = read.access.span.line
        return any(a.space == "shared" and a.writes and a.span.line == line for a in self.view.accesses)

    @cached_property
    def _rereads(self) -> tuple[Reread, ...]:
        """Elements that threads of a block have in common, but for arrays of which the read's loop stores elements in
        turn, as an elimination in place does: what changes in each iteration no tile keeps, unless the block waits."""
        stored = {
            (a.name, x.offset)
            for a in self.view.global_accesses
            if a.writes
            for x in a.loops
            if (a.index is None or a.index.mentions(x.counter)) and "sync" not in self.view.said(x.span)
        }
        return tuple(r for r in self._common if (r.access.name, r.access.loops[-1].offset) not in stored)

    @cached_property
    def _common(self) -> tuple[Reread, ...]:
        return tuple(r for r in self.view.reuse.rereads if r.times >= REUSED)

    def _only_broadcasts(self, found: Sequence[Reread]) -> bool:
        """Whether all lanes read one element, a sector a request, beside accesses whose traffic is not known: a tile
        may then save nothing of what takes the time."""
        uniform = all(r.access.index is not None and r.access.index.uniform for r in found)
        return uniform and not self.view.traffic.moved().known

    def _is_beside_rows(self, found: Sequence[Reread]) -> bool:
        """Whether the loops read other elements with lanes rows apart: those requests bind, which a tile of what is
        read again leaves as they are."""
        own = {r.access.span for r in found}
        loops = {r.access.loops[-1].span for r in found}
        return any(
            w.access.reads
            and w.access.span not in own
            and w.access.loops
            and w.access.loops[-1].span in loops
            and w.overfetch >= SCATTERED
            for w in self.view.warp_accesses
        )

    def _hidden(self) -> Iterator[Finding]:
        """Loads of the deepest loop whose addresses leave out the lane, or the warp, and that only SASS shows."""
        binary = self.view.evidence.binary
        weight = self.sass.weights
        fewer = [
            w * KEPT if space_of(x) == "global" and is_load(x) else w
            for x, w in zip(self.sass.instructions, weight, strict=True)
        ]
        # Following addresses takes longer than all else here: only where loads are the roof.
        most = self._bounds(weight, fewer)
        if binary is None or most is None or most.estimate < self.worth:
            return
        reused = self.view.reuse.hidden_rereads
        if min(reused.values(), default=0) < REUSED:
            return
        kept = [w * KEPT if i in reused else w for i, w in enumerate(weight)]
        gain = self._bounds(weight, kept)
        if gain is None or gain.estimate < self.worth:
            return
        times = min(reused.values())
        line = self.sass.hottest_line(list(reused))
        yield self.finding(
            line,
            confidence="medium",
            message=(
                f"No tiling: at least {times} threads of a block load each element that this loop reads from "
                "global memory, "
                "and loads bound it."
            ),
            guidance=(
                "Bring tiles of what the loop reads into shared memory once per block, and let each thread "
                "compute several "
                "outputs (4 x 4) from registers, so that a loaded value serves several multiply-adds."
            ),
            evidence=(
                self.view.observe("threads of a block per element", float(times), "", REUSED),
                self.view.observe("such loads in the deepest loop", float(len(reused))),
            ),
            gain=gain,
            index_query="sgemm shared memory tile register blocking",
        )

    def _uniform(self) -> Iterator[Finding]:
        """Loads of the hottest innermost loop by which all lanes read one element, another in each iteration."""
        sass = self.sass
        loops = [sass.flow.instructions_of(loop) for loop in sass.flow.innermost_loops]
        body = max(loops, key=sass.weigh, default=[])
        loads = [i for i in body if sass.instructions[i].opcode == "LDG"]
        few = {p.index for p in sass.patterns if p.part}
        alone = {a.span.line for a in self.view.global_accesses if a.few}
        loads = [i for i in loads if i not in few and sass.lines[i] not in alone]
        moved = {name for i in body for name in registers_of(sass.instructions[i])[0]}
        led = led_by_data(sass, body)
        alike = [
            i
            for i in loads
            if i not in sass.lane_dependent
            and i not in led
            and moved & registers_of(sass.instructions[i])[1] - {"PT", "UPT"}
        ]
        line = sass.hottest_line(alike)
        if line is None or 2 * len(alike) <= len(loads) or sass.table.is_toolkit(sass.instructions[alike[0]]):
            return
        if any(s.span.contains_line(line) for s in searches(self.view.tree, self.view.kernel)):
            return  # Which half a lane goes on with is its own, though predicates alone tell.
        size = sum(access_bytes(sass.instructions[i]) for i in alike)
        yield self.finding(
            line,
            severity="information",
            confidence="medium",
            message=(
                f"Uniform loads in a loop: every thread of a block loads the same {size} bytes from global memory, in "
                f"{len(alike)} of the {len(loads)} loads of this loop."
            ),
            guidance=(
                "Bring a tile of what the loop reads into shared memory once per block, coalesced, and let the lanes "
                "read it there: a broadcast instead of the wait for a global load; or load several iterations' ahead."
            ),
            evidence=(
                self.view.observe("uniform loads of the loop", float(len(alike))),
                self.view.observe("global loads of the loop", float(len(loads))),
            ),
            index_query="shared memory tile broadcast",
        )

    def _beside_arithmetic(self) -> Iterator[Finding]:
        """A loop of the deepest level that loads about as many values as it computes with, each read by many threads
        of a block: what serves them is the L1, whatever else bounds the kernel."""
        reused, times = self._reused_loads()
        code = self.sass.instructions
        for loop in self.sass.flow.innermost_loops:
            body = self.sass.flow.instructions_of(loop)
            loads = [i for i in body if code[i].opcode == "LDG"]
            # A half product of zeroes is how a constant is moved.
            computed = [i for i in body if code[i].opcode in _COMPUTES and "-RZ" not in code[i].operands]
            # Products of integers beyond those that addresses take are arithmetic too, of long numbers and hashes.
            moved = sum(code[i].opcode.startswith(("LD", "ST")) for i in body)
            whole = sum(code[i].opcode == "IMAD" and "MOV" not in code[i].modifiers for i in body)
            if whole > _PRODUCTS * moved + BESIDE * len(loads):
                continue
            line = self.sass.hottest_line([i for i in loads if i in reused])
            if line is None or 2 * sum(reused.get(i, 0.0) for i in loads) <= len(loads):
                continue
            if computed and len(computed) <= BESIDE * len(loads):
                yield self._said_of_loads(line, times, len(loads), len(computed))
                return

    def _reused_loads(self) -> tuple[Mapping[int, float], int]:
        """Loads whose elements at least `REUSED` threads of a block read, by the source or else by their addresses,
        each with the share of its line's loads that do; and how many threads."""
        found = self._rereads
        if found:
            depth = max(len(r.access.loops) for r in found)
            shares = self._shares([r for r in found if len(r.access.loops) == depth])
            loads = {i: share for line, share in shares.items() for i in self.sass.global_on(line)}
            return loads, found[0].times
        often = {i: times for i, times in self.view.reuse.overlapping.items() if times >= REUSED}
        return dict.fromkeys(often, 1.0), min(often.values(), default=0)

    def _said_of_loads(self, line: int, times: int, loads: int, computed: int) -> Finding:
        return self.finding(
            line,
            severity="information",
            confidence="low",
            message=(
                f"No reuse: this loop has {count(loads, 'global load')} for "
                f"{count(computed, 'arithmetic instruction')}, and {times} threads of a block load each element."
            ),
            guidance=(
                "Bring tiles into shared memory once per block, or let each thread compute several neighbouring "
                "outputs from values in registers, so that a load serves several instructions (a product of half or "
                "bfloat16 belongs on the tensor cores)."
            ),
            evidence=(
                self.view.observe("threads of a block per element", float(times), "", REUSED),
                self.view.observe("global loads of the loop", float(loads)),
                self.view.observe("arithmetic instructions of the loop", float(computed)),
            ),
            index_query="shared memory tile register blocking",
        )

    def _gain(self, found: Sequence[Reread]) -> Gain | None:
        """Bounds with the loads as they are, over bounds with a quarter of them; None where loads are no roof."""
        weight = self.sass.weights
        shares = self._shares(found)
        kept = [
            w * (1.0 - (1.0 - KEPT) * shares.get(self.sass.table.kernel_line(x) or 0, 0.0))
            if space_of(x) == "global" and is_load(x)
            else w
            for x, w in zip(self.sass.instructions, weight, strict=True)
        ]
        return self._bounds(weight, kept)

    def _bounds(self, weight: Sequence[float], kept: Sequence[float]) -> Gain | None:
        # What too few warps wait for, and atomics that meet, are no shorter for fewer loads.
        stays = self.view.waiting.floor | self.view.contention.cycles
        before = self.sass.cycles | self.view.traffic.cycles() | stays
        fewer = {i for i, (k, w) in enumerate(zip(kept, weight, strict=True)) if k < w}
        # Addresses of loads that go are not computed either.
        gone = self.sass.feeding(fewer)
        kept = [w * KEPT if i in gone else w for i, w in enumerate(kept)]
        after = self.sass.cycles_at(kept) | self.view.traffic.cycles(kept) | stays
        issued = [w / WIDE if i in fewer else w for i, w in enumerate(kept)]
        after["issue"] = self.sass.cycles_at(issued)["issue"]
        paths = ("lsu", "l1 lines", "l2")
        others = max((v for k, v in before.items() if k not in paths), default=0.0)
        if max(before.get(p, 0.0) for p in paths) <= others:
            return None
        # However much the caches' path is the roof, other accesses stay on it.
        own = max(before.get(p, 0.0) for p in paths) / max(max(after.get(p, 0.0) for p in paths), 1e-9)
        return Gain.of(bound_ratio(before, after), min(own, 1.0 / KEPT))

    def _shares(self, found: Sequence[Reread]) -> dict[int, float]:
        """Share of each line's global reads that are of the elements found; a line may read others too."""
        spans = {r.access.span for r in found}
        reads: dict[int, list[bool]] = {}
        for access in self.view.accesses:
            if access.reads and access.space == "global":
                reads.setdefault(access.span.line, []).append(access.span in spans)
        return {line: sum(known) / len(known) for line, known in reads.items()}

    def _observations(self, worst: Reread) -> tuple[Observation, ...]:
        binary = self.view.evidence.binary
        seen = [
            self.view.observe("threads of a block per element", float(worst.times), "", REUSED, tier="source")
        ]
        if binary is not None:
            text = self.view.said(worst.access.span)
            seen.append(self.view.observe("loads in the deepest loop", text))
        return tuple(seen)

    def verify(self, finding: Finding) -> Finding | None:
        """How busy the caches and their queues are with the loads: near L1's roof, arithmetic is what a tile leaves.

        DRAM traffic stays only where the caches hit; else it is made of what a tile would keep.
        """
        counters = self.view.evidence.counters
        seen = None if counters is None else share_of(counters, (*L1, *L2), GLOBAL_STALLS)
        if counters is None or seen is None:
            return finding
        hits = [names.value(counters, rate) for rate in (names.L1_HIT_RATE, names.L2_HIT_RATE)]
        hit = any(rate is not None and rate >= MOSTLY_HITS for rate in hits)
        told = cap_gain(counters, finding, seen, (*ARITHMETIC, *DRAM) if hit else ARITHMETIC)
        path = busiest(counters, L1)
        if told is None or told.gain is None or path is None or path[1] < NEAR_ROOF:
            return told
        return msgspec.structs.replace(told, gain=Gain.of(told.gain.high, told.gain.high))
