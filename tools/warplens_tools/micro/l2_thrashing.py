# SPDX-License-Identifier: Apache-2.0
"""l2-thrashing

**What.** The kernel goes through arrays larger than the L2 again and again: an outer loop repeats a sweep
over all elements.

**Why it costs.** When a sweep comes back to an element the L2 has long given it up, so every sweep reads
(and writes) everything from device memory. The data moves once per iteration where once would do.

**Wrong**

```cuda
for (int step = 0; step < steps; ++step)
    for (int i = first; i < n; i += stride) u[i] -= rate[i] * u[i];      // 2 n elements a sweep
```

**Right**

```cuda
for (int i = first; i < n; i += stride) {
    float v = u[i], r = rate[i];
    for (int step = 0; step < steps; ++step) v -= r * v;                // in registers
    u[i] = v;
}
```

**Evidence.** An index that the inner loop moves and the outer one does not, or a part of an array that the inner loop
hands to a function which goes through it; and the extent that the inner loop's bound gives the arrays, from constants
and from what the launches pass.

**Threshold.** The arrays of one sweep exceed the card's L2. Where the file does not fix their extent the
tool is silent. An L2 hit rate measured at 80 % or more withdraws the finding.

**References.** CUDA C++ Programming Guide, "Device Memory L2 Access Management"; Nsight Compute's memory
workload analysis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.collect import metrics as names
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.machine.reuse import Sweep
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import (
    ARITHMETIC,
    DRAM,
    GLOBAL_STALLS,
    ISSUE,
    L1,
    L2,
    judge_by_metric,
    judge_by_room,
)

#: L2 hit rate, per cent, from which the sweeps came from the cache after all.
L2_HITS = 80.0


#: What a sweep that is not repeated saves, the waits for its loads included.
_SWEPT = ("dram", "l2", "l1 lines", "lsu", "waiting")
#: What remains to be saved where a part stays in the L1 at best, as it is too long for registers.
_FROM_AFAR = ("dram", "l2")


class L2Thrashing(MicroTool):
    """Sweeps over more than the L2 holds are repeated."""

    code = "WL113"
    slug = "l2-thrashing"
    title = "Sweeps over more than the L2 holds are repeated"
    avoid = "Do not change the order in which dependent sweeps see each other's results."
    rule_words = "L2.*hit rate|hit rate.*L2|thrash"
    tiers = ("source", "binary")
    relevant = ("memory", "latency")
    judges = (
        judge_by_metric(names.L2_HIT_RATE, most=L2_HITS),
        judge_by_room(own=(*DRAM, *L2), stalls=GLOBAL_STALLS, kept=(*L1, *ARITHMETIC, *ISSUE)),
    )

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first access of the largest sweep."""
        found = self.view.reuse.sweeps
        if not found:
            return
        worst = max(found, key=lambda s: s.bytes)
        together = [s for s in found if s.outer.offset == worst.outer.offset]
        arrays = {s.access.name: s.bytes for s in together}
        gain = self._gain(together)
        total, names = sum(arrays.values()), " and ".join(arrays)
        times = f"{worst.trips} times" if worst.trips is not None else "in every iteration"
        line = worst.outer.span.line
        yield self.finding(together[0].access.span,
            severity="warning" if gain is not None else "information",
            confidence="medium",
            message=(
                f"The loop of line {line} goes through {total / 1e6:.0f} MB of {names} {times}: more than the "
                f"{self.gpu.l2_bytes / 2**20:.0f} MiB of L2, so each sweep comes from device memory."
            ),
            guidance=(
                f"Make the loop of line {line} the inner one, with the element in registers, or sweep over blocks of "
                "elements that fit the L2 and finish all iterations on one block before the next."
            ),
            evidence=(
                self.view.observe("bytes of one sweep", float(total), "byte", float(self.gpu.l2_bytes),
                    f"L2 of {self.gpu.name}", tier="source"),
            ),
            gain=gain,
            related=(RelatedSpan(worst.outer.span, "this loop repeats the sweep"),),
        )  # fmt: skip

    def _gain(self, found: Sequence[Sweep]) -> Gain | None:
        """Device memory for each sweep, over device memory once and the kernel's other needs."""
        if not self.sass:
            return None
        pipes = self.sass.cycles
        before = pipes | self.view.waiting.latency_bound()
        once = min((s.trips for s in found if s.trips), default=2)
        spared = _FROM_AFAR if any(s.parts for s in found) else _SWEPT
        after = before | {name: before[name] / once for name in spared if name in before}
        return Gain.of(bound_ratio(before, after), float(once))
