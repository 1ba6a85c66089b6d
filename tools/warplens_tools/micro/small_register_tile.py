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
source multiplies elements of shared arrays and adds them up; the cycles of the shared-memory path against every
other resource.

**Threshold.** A load for two multiply-adds or fewer, and a gain of 1.2 in the bounded model with a fourth of the loads.

**References.** CUTLASS, "Efficient GEMM in CUDA" (thread-level tiles); V. Volkov and J. Demmel, "Benchmarking GPUs
to Tune Dense Linear Algebra", SC 2008."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, L1, L2, SHARED_STALLS, judge_by_room
from warplens_tools.sass.pipes import pipe_of

#: Loads from shared memory per multiply-add from which a thread's tile is small, and what a tile of 4 by 4
#: leaves of them.
MANY, LEFT = 0.5, 0.25
_FMA = frozenset({"FFMA", "DFMA", "HFMA2", "IMAD", "FFMA2"})
_ADDS = re.compile(r"(?:\+=|=\s*(?:__)?fmaf?\w*\s*\(|=[^=].*\+)")


class SmallRegisterTile(MicroTool):
    """A product through shared memory with one result a thread."""

    code = "WL116"
    slug = "small-register-tile"
    title = "Too few results per thread in a product through shared memory"
    rule_words = "shared|LSU|MIO"
    tiers = ("binary",)
    relevant = ("memory", "compute", "latency")
    #: Speedup in the bounded model from which it is reported.
    worth = 1.2
    judges = (judge_by_room(own=L1, stalls=SHARED_STALLS, kept=(*DRAM, *L2, *ARITHMETIC)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line of the product."""
        lines = self._products() if self.sass else {}
        loads = [i for n in lines for i in self.sass.in_loops_on(n, lambda x: x.opcode == "LDS")]
        adds = [i for n in lines for i in self.sass.in_loops_on(n, lambda x: x.opcode in _FMA)]
        read, added = self.sass.weigh(frozenset(loads)), self.sass.weigh(frozenset(adds))
        if not read or not added or read < MANY * added:
            return
        ratio = self._ratio(loads)
        if ratio < self.worth:
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

    def _products(self) -> dict[int, tuple[str, ...]]:
        """Lines that add up products of two elements of shared memory in a loop, with the arrays."""
        by_line: dict[int, list[str]] = {}
        for access in self.view.accesses:
            if access.space == "shared" and access.reads and not access.writes and access.loops:
                by_line.setdefault(access.span.line, []).append(access.name)
        found = {}
        for line, names in by_line.items():
            text = self.view.text.line_text(line)
            if len(names) >= 2 and _ADDS.search(text) and ("*" in text or "fma" in text):
                found[line] = tuple(dict.fromkeys(names))
        return found

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
