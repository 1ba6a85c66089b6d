# SPDX-License-Identifier: Apache-2.0
"""small-register-tile

**What.** A product of tiles in shared memory reads an operand, or nearly, for every multiply-add: each thread works out
one element of the result.

**Why it costs.** Shared memory serves 32 lanes a cycle, the multiply-add pipes 128. A thread that holds a tile of 8
by 8 results in registers reads 16 values for 64 multiply-adds, one result alone two for each.

**Wrong**

```cuda
for (int k = 0; k < kTile; ++k)
    sum += a[threadIdx.y][k] * b[k][threadIdx.x];
```

**Right**

```cuda
for (int k = 0; k < kTile; ++k) {          // 4 by 4 results a thread
    for (int i = 0; i < 4; ++i) x[i] = a[row + i][k], y[i] = b[k][column + i];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] += x[i] * y[j];
}
```

**Evidence.** In SASS, the loads from shared memory and the multiply-adds of the loops in which one line of the
source multiplies two elements of shared arrays, each of which several threads read, and adds them up; the cycles of
the shared-memory path against every other resource.

**Threshold.** A load for two multiply-adds or fewer, and a gain of 1.2 in the bounded model with a fourth of the loads.
Information, whatever the text, of loops of four multiply-adds and more that add up products which differ between
lanes, with three loads for four of them, whose values they take and no data chooses, where shared memory's path is
needed for 0.6 of the busiest pipe's time; with 0.3 loads for each where that path is needed 1.5 times as long as any
other. Information too where two elements of shared arrays are added up and a minimum or maximum is taken of the sums,
at a load for two of them; and of products on tensor cores of whose operands half or more are loaded for each.

**References.** CUTLASS, "Efficient GEMM in CUDA" (thread-level tiles); V. Volkov and J. Demmel, "Benchmarking GPUs
to Tune Dense Linear Algebra", SC 2008."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.finding import Finding, Gain
from warplens_tools.lazily import cached_property
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.added_up import added_up
from warplens_tools.micro.common.chains import led_by_data
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, L1, L2, SHARED_STALLS, judge_by_room
from warplens_tools.micro.common.min_plus import min_plus
from warplens_tools.micro.fragment_loads import FragmentLoads
from warplens_tools.sass.pipes import access_bytes, pipe_of
from warplens_tools.sass.registers import registers_of
from warplens_tools.sass.varying import gathering

#: Loads from shared memory per multiply-add from which a thread's tile is small, and what a tile of 4 by 4
#: leaves of them.
MANY, LEFT = 0.5, 0.25
#: Multiply-adds of a loop from which it is a product's, and the share of the busiest pipe's time that shared memory's
#: path is needed for, from which a loop is told by its instructions alone.
FEWEST, BUSY = 4, 0.6
#: As `MANY`, where nothing tells of a product but the loads' values in the multiply-adds.
PLENTY = 0.75
#: Time of shared memory's path over that of all other pipes from which it binds, and loads per
#: multiply-add then: more than a tile of 4 by 4 has left.
BINDS, SOME = 1.5, 0.3
#: Registers of a product's two operands, by its shape.
OPERANDS = {"16816": 6, "1688": 3}
#: Part of them that is loaded for each product from which a warp's tile is small: one of 2 x 2 products has half.
ANEW = 0.5
_FMA = frozenset({"FFMA", "DFMA", "HFMA2", "IMAD", "FFMA2"})
_SUBSCRIPT = re.compile(r"\[[^][]*\]")
_FMA_CALL = r"\b(?:__)?h?fmaf?2?(?:_r[nzud])?\s*\("
#: A sum that a product is added to, and a function that adds it.
_ADDS = re.compile(rf"(?:\+=|=[^=].*\+|=.*(?:{_FMA_CALL}|__hadd2?\s*\())")
#: What stands between two factors: conversions and further factors; before and between those of a function.
_TIMES = re.compile(r"[\s)]*(?:\.\w+)?[\s)]*(?:\*[\s()\w.]*)+")
_FUSED = re.compile(rf"(?:{_FMA_CALL}|\b__hmul2?\s*\()[\s(]*(?:\w+\s*\([\s(]*)*$")
_NEXT = re.compile(r"[\s)]*(?:\.\w+)?[\s)]*,[\s()\w.]*")


def _without_subscripts(text: str) -> str:
    """Products and sums in indices are none of elements."""
    while text != (text := _SUBSCRIPT.sub("", text)):
        pass
    return text


class SmallRegisterTile(MicroTool):
    """A product through shared memory with one result a thread."""

    code = "WL116"
    slug = "small-register-tile"
    title = "Too few results per thread in a product through shared memory"
    avoid = (
        "Do not grow the tile of a thread until registers spill; do not drop the guard at the edge of the "
        "matrix."
    )
    rule_words = "shared|LSU|MIO"
    tiers = ("binary",)
    relevant = ("memory", "compute", "latency")
    #: Speedup in the bounded model from which it is reported.
    worth = 1.2
    judges = (judge_by_room(own=L1, stalls=SHARED_STALLS, kept=(*DRAM, *L2, *ARITHMETIC)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line of the product."""
        lines = self.products() if self.sass else {}
        loads = [i for n in lines for i in self.sass.in_loops_on(n, lambda x: x.opcode == "LDS")]
        adds = [i for n in lines for i in self.sass.in_loops_on(n, lambda x: x.opcode in _FMA)]
        read, added = self.sass.weigh(frozenset(loads)), self.sass.weigh(frozenset(adds))
        ratio = self._ratio(loads) if read and added and read >= MANY * added else 1.0
        if ratio < self.worth:
            yield from list(self._in_loops()) or list(self._of_minima()) or self._of_fragments()
            return
        line = max(
            lines, key=lambda n: self.sass.weigh(frozenset(self.sass.on_line(n, lambda x: x.opcode in _FMA)))
        )
        arrays = " and ".join(lines[line])
        yield self.finding(
            line,
            confidence="medium",
            message=(
                f"{read / added:.1f} loads from shared memory per multiply-add: the path of shared memory is busy "
                f"{ratio:.1f} times as long as it would be with several results a thread."
            ),
            guidance=(
                "Let each thread work out a tile of results (4 by 4, then 8 by 8) in registers: "
                f"every value of {arrays} "
                "that it reads then serves as many multiply-adds; read along rows as float4."
            ),
            evidence=(
                self.view.observe("shared loads per multiply-add", round(read / added, 2), "", MANY),
                self.view.observe("multiply-adds in the product's loop", float(len(adds))),
            ),
            gain=Gain.of(ratio, ratio / LEFT),
            index_query="SIMT GEMM thread tile register blocking",
        )

    def _in_loops(self) -> Iterator[Finding]:
        """Innermost loops that read shared memory for half of their multiply-adds or more, whatever their text: where
        its path is nearly as busy as any other, information."""
        code, cycles = self.sass.instructions, self.sass.cycles
        rest = max((v for k, v in cycles.items() if k != "lsu"), default=0.0)
        binds = cycles.get("lsu", 0.0) / rest if rest else 0.0
        plenty = PLENTY if binds < BINDS else SOME
        found = []
        for loop in self.sass.flow.innermost_loops:
            body = self.sass.flow.instructions_of(loop)
            # What data looks up is no operand of a product, nor what one thread reads while the others wait.
            left_out = self._looked_up | led_by_data(self.sass, body) | self._of_few
            loads = [i for i in body if code[i].opcode == "LDS" and i not in left_out]
            adds = [i for i in body if code[i].opcode in _FMA - {"IMAD"}]
            summed = added_up(code, self.sass.lane_dependent, body, _FMA - {"IMAD"})
            taken = {name for i in adds for name in registers_of(code[i])[1]}
            loads = [i for i in loads if registers_of(code[i])[0] & taken]
            if len(summed) >= FEWEST and len(loads) >= plenty * len(adds):
                found.append((self.sass.weigh(adds), loads, adds))
        worst = max(found, key=lambda f: f[0], default=None)
        line = self.sass.hottest_line(worst[2]) if worst is not None else None
        if worst is None or line is None or cycles.get("lsu", 0.0) < BUSY * max(cycles.values()):
            return
        each = len(worst[1]) / len(worst[2])
        bound = (
            f", and the path of shared memory is needed {binds:.1f} times as long as any other"
            if binds >= BINDS
            else ""
        )
        yield self.finding(
            line,
            severity="information",
            confidence="low",
            message=(
                f"{each:.1f} loads from shared memory per multiply-add in this loop: a value that a thread reads "
                f"serves few of its results{bound}."
            ),
            guidance=(
                "Let each thread work out several results from values in registers (4 by 4, then 8 by 8), and read "
                "neighbouring values as one vector."
            ),
            evidence=(
                self.view.observe("shared loads per multiply-add", round(each, 2), "", PLENTY),
                self.view.observe("multiply-adds in the loop", float(len(worst[2]))),
            ),
            index_query="SIMT GEMM thread tile register blocking",
        )

    def _of_minima(self) -> Iterator[Finding]:
        """The same of sums and minima: what another instruction works out needs its operands as often."""
        found = [m for m in min_plus(self.view) if m.loads >= MANY * m.extremes and m.extremes >= FEWEST]
        if not found or self.sass.cycles.get("lsu", 0.0) < BUSY * max(self.sass.cycles.values()):
            return
        worst = max(found, key=lambda m: m.extremes)
        each, arrays = worst.loads / worst.extremes, " and ".join(worst.names)
        yield self.finding(
            worst.line,
            severity="information",
            confidence="low",
            message=(
                f"{each:.1f} loads from shared memory for each sum and minimum: a value of {arrays} that a thread "
                "reads serves few of its results, and the path of shared memory is what the loop waits for."
            ),
            guidance=(
                "Let each thread work out a tile of results (4 by 4) in registers, as a matrix product does: every "
                f"value of {arrays} that it reads then serves as many sums; read along rows as vectors."
            ),
            evidence=(
                self.view.observe("shared loads per minimum", round(each, 2), "", MANY),
                self.view.observe("minima of the loop", float(worst.extremes)),
            ),
            index_query="SIMT GEMM thread tile register blocking",
        )

    def _of_fragments(self) -> Iterator[Finding]:
        """The same of tensor cores: a loop whose products take most of their operands anew from shared memory."""
        code, found = self.sass.instructions, []
        for loop in self.sass.flow.innermost_loops:
            body = self.sass.flow.instructions_of(loop)
            products = [i for i in body if code[i].opcode == "HMMA"]
            loads = [i for i in body if code[i].opcode in ("LDSM", "LDS")]
            needed = sum(OPERANDS.get(m, 0) for i in products for m in code[i].modifiers)
            loaded = sum(access_bytes(code[i]) // 4 for i in loads)
            if needed and loaded >= ANEW * needed:
                found.append((self.sass.weigh(products), products, loads, loaded / needed))
        if not found or FragmentLoads.told(self.view):
            return
        _, products, loads, part = max(found, key=lambda f: f[0])
        place = self.hottest_place(products)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"{len(loads)} loads of fragments from shared memory for {len(products)} products on tensor cores: "
                f"{part:.0%} of their operands are loaded for one of them alone, and shared memory's path is busy."
            ),
            guidance=(
                "Give each warp a tile of several products (4 x 4 accumulators or more): a fragment of one operand "
                "then serves all of the other's, and a block's tile of 128 x 128 is loaded once; load the next step's "
                "while this one is multiplied."
            ),
            evidence=(
                self.view.observe(
                    "part of the operands that is loaded for each product", round(part, 2), "", ANEW
                ),
                self.view.observe("products of the loop", float(len(products))),
            ),
            index_query="tensor core gemm warp tile",
        )

    @cached_property
    def _looked_up(self) -> frozenset[int]:
        """Indices of the loads from shared memory at places that data chooses."""
        flowing = gathering(self.sass.instructions, by_tests=True)
        return frozenset(p.index for p in self.sass.patterns if p.conflict is None and p.index in flowing)

    @cached_property
    def _of_few(self) -> frozenset[int]:
        """Indices of the accesses to shared memory that single threads make."""
        lines = {a.span.line for a in self.view.accesses if a.space == "shared" and (a.few or a.one)}
        part = {p.index for p in self.sass.patterns if p.part}
        return frozenset(i for i, line in enumerate(self.sass.lines) if line in lines or i in part)

    def products(self) -> dict[int, tuple[str, ...]]:
        """Lines that add up products of two elements of shared memory in a loop, with the arrays."""
        by_line: dict[int, list[ArrayAccess]] = {}
        for access in self.view.accesses:
            alone = access.span.line == access.span.end_line and not access.writes
            if access.space == "shared" and access.reads and access.loops and alone:
                by_line.setdefault(access.span.line, []).append(access)
        found = {}
        for line, read in by_line.items():
            pairs = [p for p in itertools.pairwise(read) if self._are_multiplied(line, *p)]
            if pairs and _ADDS.search(_without_subscripts(self.view.text.line_text(line))):
                found[line] = tuple(dict.fromkeys(a.name for p in pairs for a in p))
        return found

    def _are_multiplied(self, line: int, one: ArrayAccess, other: ArrayAccess) -> bool:
        """Whether they are the factors of a product, and other threads want both for theirs: what a thread alone reads
        serves no second result."""
        text = self.view.text.line_text(line)
        first, second = text[: one.span.column - 1], text[one.span.end_column - 1 : other.span.column - 1]
        factors = _TIMES.fullmatch(second) or (_FUSED.search(first) and _NEXT.fullmatch(second))
        same = one.name == other.name and one.index is not None and one.index == other.index
        return bool(factors) and not same and all(self._is_shared(a) for a in (one, other))

    def _is_shared(self, access: ArrayAccess) -> bool:
        return access.index is None or self.view.reuse.sharing(access) > 1

    def _ratio(self, loads: list[int]) -> float:
        """Bounded time as it is over that with a fourth of the loads."""
        demand = self.view.demand
        before = max(demand.pipes.get("lsu", 0.0), self.sass.cycles.get("lsu", 0.0))
        own = {i for i in loads if pipe_of(self.sass.instructions[i]) == "lsu"}
        share = self.sass.weigh(frozenset(own)) / max(
            self.sass.weigh(frozenset(self.sass.where(lambda x: pipe_of(x) == "lsu"))), 1e-9
        )
        after = before * (1.0 - share * (1.0 - LEFT))
        rest = max(
            [demand.dram_lower, *(c for p, c in demand.pipes.items() if p not in ("lsu", "issue"))],
            default=0.0,
        )
        issue = demand.pipes.get("issue", 0.0)
        return max(before, rest, issue) / max(
            after, rest, issue * (1.0 - share) if share < 1.0 else rest, 1e-9
        )
