# SPDX-License-Identifier: Apache-2.0
"""low-ilp

**What.** A loop in which each instruction waits for the one before it, run by too few warps to fill the waits.

**Why it costs.** A result can be read four cycles after a multiply-add was issued, eight after one in double
precision, twenty after a special function or a read of shared memory. A warp whose next instruction needs it issues
nothing meanwhile. Other warps fill the gap if there are enough of them; otherwise the pipes idle.

**Wrong**

```cuda
float sum = 0.0f;
for (int k = 0; k < terms; ++k) sum = sum * x + c[k];          // one chain: a term every four cycles
```

**Right**

```cuda
float even = 0.0f, odd = 0.0f, x2 = x * x;                     // two chains, combined at the end
for (int k = 0; k < terms; k += 2) { even = even * x2 + c[k]; odd = odd * x2 + c[k + 1]; }
sum = even * x + odd;
```

**Evidence.** The registers of the loop's SASS: cycles that one warp needs in order, against cycles that the busiest
pipe needs for all resident warps. Counters tell the issue slots used and what warps stall on: they confirm the
finding or withdraw it.

**Threshold.** A gain of 1.3 in the bounded model. With counters: issue slots that leave a tenth to gain, and
stalls on fixed latencies and short scoreboards: 30 % confirm it (Nsight Compute's stall rule), fewer than 5 %
withdraw it. Waits for global memory and at barriers are other causes; launches that leave SMs empty are
reported as grid-too-small, as are those of a grid-stride loop with a warp per scheduler.

**References.** Volkov, "Better Performance at Lower Occupancy" (2010); CUDA C++ Programming Guide, "Multiprocessor
Level"; latencies: see `warplens_tools.sass.latency`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warplens_tools.collect import metrics as names
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.counted import SAMPLED
from warplens_tools.machine.waiting import LoopPass, Residency
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import (
    ARITHMETIC,
    CONFIRMED,
    DRAM,
    L1,
    L2,
    cap_gain,
    stalled,
)

#: Independent chains that a rewrite makes of one, at most.
CHAINS = 4.0
#: Issue slots in use from which a tenth at most is left to gain, per cent; stalls that low parallelism shows in.
ISSUE_BUSY = 91.0
#: For counters alone: slots in use below Nsight Compute's 60 % for a bound unit, and half of the
#: stalls on the fixed latency of arithmetic; short scoreboards are shared memory's as well.
SPOT_ISSUE, SPOT_STALLS = 60.0, 0.5
FIXED_STALLS = ("wait", "short_scoreboard", "dispatch_stall")


class LowIlp(MicroTool):
    """Too few independent instructions for the warps there are."""

    code = "WL206"
    slug = "low-ilp"
    title = "Too few independent instructions for the warps there are"
    avoid = "Do not unroll the one dependent chain: copies of it in a row stay dependent."
    rule_words = "dependenc|fixed latency|issue slot|eligible"
    tiers = ("binary",)
    relevant = ("latency", "compute", "memory")
    #: Gain in the bounded model from which it is reported: latencies are known to a fifth or so.
    worth = 1.3

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose results are waited for longest."""
        if not self.sass or self._is_underfilled():
            return
        held = self.view.waiting.residency
        if held is None:
            return
        # Straight code carries nothing from one iteration to the next, and has no sum to split.
        passes = [p for p in self.view.waiting.innermost_passes if p.dependency and p.depth]
        rated = [(self._gain(p, held), p) for p in passes]
        gain, worst = max(rated, key=lambda r: r[0].estimate, default=(None, None))
        if gain is None or worst is None or gain.estimate < self.worth:
            return
        line = self._blamed_line(worst)
        wait = _alone(worst)
        yield self.finding(line,
            # A warp alone on its scheduler is hidden by none, however the latencies were rounded.
            confidence="high" if held.warps <= self.gpu.limits.schedulers else "medium",
            message=(
                f"Loop-carried dependency: {wait:.0f} cycles of latency per iteration, "
                f"{held.warps * worst.busy:.0f} of "
                f"issue for all {held.warps} resident warps of an SM."
            ),
            guidance=(
                "Give each thread two to four independent chains: split the sum or product into as many "
                "partial results "
                "and combine them after the loop, or let a thread work on several elements at once. More "
                "resident warps "
                "help as well, where registers and shared memory allow."
            ),
            evidence=(
                self.view.observe("cycles of one warp per iteration", round(wait, 1), "cycle",
                            round(held.warps * worst.busy, 1), "busiest pipe, all resident warps"),
                self.view.observe("resident warps per SM", float(held.warps)),
            ),
            gain=gain,
        )  # fmt: skip

    def verify(self, finding: Finding) -> Finding | None:
        """Issue slots that are used, or other stalls, contradict it; stalls on fixed latencies confirm it."""
        counters = self.view.evidence.counters
        issued = None if counters is None else names.value(counters, names.ISSUE_ACTIVE)
        waits = None if counters is None else stalled(counters, FIXED_STALLS)
        if counters is None or issued is None or waits is None:
            return finding
        if issued >= ISSUE_BUSY:
            return None
        slots = counters.seen(names.ISSUE_ACTIVE, issued, ISSUE_BUSY, unit="%", digits=1)
        seen = counters.seen("stalls on fixed latencies", waits, CONFIRMED)
        most = 100.0 / max(issued, 5.0)
        return cap_gain(counters, finding, seen, (*ARITHMETIC, *DRAM, *L1, *L2), most=most, shown=(slots,))

    def _is_underfilled(self) -> bool:
        """Whether a larger launch is the nearer remedy, as grid-too-small says: SMs without a block, or schedulers
        without a warp to switch to in a kernel that spreads its elements over any grid."""
        shape, sms = self.view.shape, self.gpu.multiprocessors
        if shape is None:
            return False
        return shape.blocks < sms or (shape.warps <= self.gpu.schedulers and not self.view.is_thread_bound)

    def _gain(self, loop: LoopPass, held: Residency) -> Gain:
        """All code at the busiest pipe's pace and this loop at its chain's, over all at that pace or the "
        "DRAM roof's."""
        weight = self.sass.weights
        here = weight[loop.indices[0]] if loop.indices else 1.0
        busy = max(self.sass.cycles.values()) * held.warps
        memory = max(self.view.traffic.cycles().values()) * held.warps
        chained = here * max(_alone(loop) - held.warps * loop.busy, 0.0)
        fewer = here * max(_alone(loop) / CHAINS - held.warps * loop.busy, 0.0)
        now = max(busy + chained, memory)
        return Gain.of(now / max(busy + fewer, memory), now / max(busy, memory))

    def _blamed_line(self, loop: LoopPass) -> int | None:
        most = max(loop.blamed)
        blamed = [i for i, b in zip(loop.indices, loop.blamed, strict=True) if b >= 0.5 * most]
        return self.sass.hottest_line(blamed)

    def check_counters(self) -> Iterator[Finding]:
        """Warps that were seen to wait for their own last instruction while most issue slots stayed empty."""
        found = self.view.counted
        issued = None if found is None else names.value(found.counters, names.ISSUE_ACTIVE)
        waits = None if found is None else stalled(found.counters, ("wait",))
        if found is None or issued is None or waits is None or self._is_underfilled():
            return
        if issued >= SPOT_ISSUE or waits < SPOT_STALLS:
            return
        line = found.line_of(range(len(found.lines)), f"{SAMPLED}wait")
        most = 100.0 / max(issued, 5.0)
        yield self.finding(
            line,
            confidence="medium",
            message=(
                f"Dependent instructions: {waits:.0%} of the stalls are on fixed latency, {issued:.0f} % of the "
                "issue slots "
                "are used."
            ),
            guidance=(
                "Give each thread two to four independent chains: split the sum or product into as many "
                "partial results "
                "and combine them after the loop, or let a thread work on several elements at once."
            ),
            evidence=(found.counters.seen("stalls on fixed latencies", waits, SPOT_STALLS),),
            gain=Gain.of(math.sqrt(most), most),
        )


def _alone(loop: LoopPass) -> float:
    return loop.alone - loop.memory - loop.barrier
