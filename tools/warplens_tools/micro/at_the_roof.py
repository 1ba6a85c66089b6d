# SPDX-License-Identifier: Apache-2.0
"""at-the-roof

**What.** Nothing left to gain: the kernel was measured at what the card can do, and it moves or computes little
that it does not need.

**Why it costs.** It costs nothing. It tells where to stop: only less work, fewer bytes or another algorithm, would
make the kernel faster.

**Wrong**

```cuda
y[i] = a * x[i] + y[i];        // at 93 % of the DRAM roof: unrolling, other block sizes, … change nothing
```

**Right**

```cuda
y[i] = a * f(x[i]) + y[i];     // do the neighbouring kernel's work in the same pass: fewer bytes in all
```

**Evidence.** Rates from counters against the card's roofs, calibrated where they were: device memory, L2, and each
kind of arithmetic; sectors moved against sectors wanted, per instruction where the report has them.

**Threshold.** 90 % of a calibrated roof; of a datasheet's roof, which no kernel reaches, 85 %. Published copies reach
90 to 93 % of the datasheet's memory rate, and KernelAgent stops at 95 % of what it takes for the limit. At most a
tenth of the sectors moved for nothing, and no repeated sweep over more than the L2 holds. Without counters nothing
is said: a bound is no measurement.

**References.** Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model" (2009); Yang,
Kurth and Williams, "Hierarchical Roofline analysis for GPUs" (2020).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.evidence import CounterEvidence, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import kernel_total
from warplens_tools.roofline.model import LEVELS, Reach, amounts_of, roofline_of

#: Share of a roof at which there is nothing left to gain: of one measured on the card, and of a datasheet's.
AT_CALIBRATED, AT_DATASHEET = 0.90, 0.85
#: Share of the sectors that may move for nothing.
WASTE = 0.1
_NAMES = {
    "dram": "device memory",
    "l2": "the L2",
    "shared": "L1 and shared memory",
    "int32": "integer arithmetic",
}


class AtTheRoof(MicroTool):
    """Nothing left to gain."""

    code = "WL501"
    slug = "at-the-roof"
    title = "Nothing left to gain"
    avoid = (
        "Do not raise occupancy, unroll or vectorise: the busiest resource is used up, and only less work for"
        " it helps."
    )
    tiers = ("counters",)
    relevant = ("memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel at most, on its name."""
        counters = self.view.evidence.counters
        reach = self.nearest_roof(counters) if counters is not None else None
        if counters is None or reach is None:
            return
        enough = AT_CALIBRATED if reach.kind == "calibrated" else AT_DATASHEET
        waste = wasted_sectors(counters)
        if reach.share < enough or (waste is not None and waste > WASTE):
            return
        if reach.roof == "dram" and self.view.reuse.sweeps:
            return  # What is brought again and again is not needed as often.
        left = Gain.of(1.0, max(reach.headroom or 1.0, 1.0))
        moved = reach.roof in LEVELS
        roof = _NAMES.get(reach.roof, f"{reach.roof} arithmetic")
        yield self.finding(
            self.view.kernel.name_span,
            severity="information",
            confidence="high" if reach.kind == "calibrated" else "medium",
            message=(
                f"{self.view.kernel.name} runs at {reach.share:.0%} of the {reach.kind} roof of {roof} "
                f"({_rate(reach.achieved, reach.unit)} of {_rate(reach.ceiling, reach.unit)}): there is next "
                "to nothing "
                "left to gain at this amount of work."
            ),
            guidance=(
                "Leave it as it is, or move fewer bytes: fuse it with the kernel that makes or uses its data, or store "
                "narrower types."
                if moved
                else "Leave it as it is, or compute less: another algorithm, or a narrower type on a faster pipe."
            ),
            evidence=_observations(counters, reach, enough, waste),
            gain=left,
        )

    def nearest_roof(self, counters: CounterEvidence) -> Reach | None:
        """The roof the launch came nearest to; None where the counters are another card's, or do not tell."""
        amounts = amounts_of(counters)
        if amounts is None or counters.gpu_name not in ("", self.gpu.name):
            return None
        reaches = [
            r for r in roofline_of(amounts, self.gpu).reaches if r.roof != "shared" or r.kind == "calibrated"
        ]
        return reaches[0] if reaches else None


def wasted_sectors(counters: CounterEvidence) -> float | None:
    """Share of the global sectors that no lane asked for; None where that was not counted."""
    moved = kernel_total(counters, "memory_l2_theoretical_sectors_global")
    wanted = kernel_total(counters, "memory_l2_theoretical_sectors_global_ideal")
    return None if not moved or wanted is None else max(0.0, 1.0 - wanted / moved)


def _rate(value: float, unit: str) -> str:
    short = {"byte/s": "B/s", "operation/s": "op/s", "flop/s": "FLOP/s"}.get(unit, unit)
    return f"{value / 1e12:.2f} T{short}"


def _observations(
    counters: CounterEvidence, reach: Reach, enough: float, waste: float | None
) -> tuple[Observation, ...]:
    seen = [
        counters.seen(f"share of the {reach.roof} roof", reach.share, enough, source=f"{reach.kind} roof")
    ]  # fmt: skip
    if waste is not None:
        seen.append(counters.seen("sectors for nothing", waste, WASTE))
    return tuple(seen)
