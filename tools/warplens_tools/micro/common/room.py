# SPDX-License-Identifier: Apache-2.0
"""How much a repair can gain by what was measured: the cause's own share of the time, and what it leaves as it is.

Two bounds, both of the launch as it ran. The units that a repair does not relieve are busy as long as before, so the
launch takes at least the busiest one's share of its time. And what warps do not wait for, and no unit of the cause is
busy with, no repair of it saves (Amdahl's law). A repair worth less than a tenth is told as information.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence, KernelEvidence, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.gain import make_gain
from warplens_tools.micro.base import Judge

DRAM, CONSTANTS, ISSUE = ("DRAM",), ("constant cache",), ("instruction issue",)
L1, L2 = ("L1 and shared-memory data", "L1 requests"), ("L2", "L2 requests")
ARITHMETIC = ("ALU", "FMA", "FP64", "tensor", "XU")
EVERY = (*DRAM, *CONSTANTS, *ISSUE, *L1, *L2, *ARITHMETIC)
#: Reasons for which warps wait on global memory, on the arithmetic of their own thread, and on shared memory.
GLOBAL_STALLS = ("long_scoreboard", "lg_throttle", "drain", "tex_throttle")
ARITHMETIC_STALLS = ("math_pipe_throttle", "wait", "dispatch_stall", "short_scoreboard", "mio_throttle")
SHARED_STALLS = ("short_scoreboard", "mio_throttle")
#: Expected gain below which a finding would only distract: a tenth.
WORTH = 1.1
#: Share of the time, of stalls or of a unit, from which a cause is confirmed (Nsight Compute's rule on stall reasons,
#: CPIStall.py), and below which it is contradicted: what it could gain then rounds to nothing.
CONFIRMED, CONTRADICTED = 0.3, 0.05
_UNITS = {**names.MEMORY_PARTS, **names.COMPUTE_PIPES}


def busy(counters: CounterEvidence) -> dict[str, float]:
    """Busy share of each unit over the launch, 0 to 1; the unread is absent."""
    read = {name: names.value(counters, metric) for name, metric in _UNITS.items()}
    return {name: share / 100.0 for name, share in read.items() if share is not None}


def busiest(counters: CounterEvidence, units: Sequence[str]) -> tuple[str, float] | None:
    """The busiest of some units and its share; None where none was read."""
    known = {name: share for name, share in busy(counters).items() if name in units}
    top = max(known, key=lambda name: known[name], default=None)
    return None if top is None else (top, known[top])


def stalled(counters: CounterEvidence, reasons: Sequence[str]) -> float | None:
    """Share of the stalled warps that wait for these reasons, 0 to 1; None where nothing was sampled."""
    return sum(counters.stalls.get(reason, 0.0) for reason in reasons) if counters.stalls else None


def judge_by_room(*, own: Sequence[str] = (), kept: Sequence[str] = (), stalls: Sequence[str] = ()) -> Judge:
    """A judge of a cause that loads the units `own` and stalls warps for `stalls`; a repair leaves `kept` as it is."""

    def judge(evidence: KernelEvidence, finding: Finding) -> Finding | None:
        counters = evidence.counters
        if counters is None:
            return finding
        seen = share_of(counters, own, stalls)
        return finding if seen is None else cap_gain(counters, finding, seen, kept)

    return judge


def share_of(counters: CounterEvidence, own: Sequence[str], stalls: Sequence[str]) -> Observation | None:
    """The larger of the cause's two shares of the time; None where neither was measured."""
    unit, waits = busiest(counters, own), stalled(counters, stalls) if stalls else None
    if unit is not None and unit[1] >= (waits or 0.0):
        return observed(counters, f"{unit[0]} busy", unit[1], CONFIRMED)
    if waits is None:
        return None
    named = [reason.replace("_", " ") for reason in stalls if counters.stalls.get(reason, 0.0) > 0.0]
    return observed(
        counters, f"stalls on {' and '.join(named) or stalls[0].replace('_', ' ')}", waits, CONFIRMED
    )


def observed(counters: CounterEvidence, metric: str, share: float, threshold: float) -> Observation:
    """A share of the launch, 0 to 1."""
    return Observation("counters", counters.origin, metric, round(share, 3), "", round(threshold, 3))


def cap_gain(
    counters: CounterEvidence,
    finding: Finding,
    seen: Observation,
    kept: Sequence[str],
    *,
    most: float = float("inf"),
    shown: Sequence[Observation] = (),
) -> Finding | None:
    """The finding under both bounds and `most`; None where the share that was seen contradicts it.

    Args:
        seen: the cause's share of the time, 0 to 1.
        kept: units that a repair leaves as busy as they are.
        shown: what else was measured of it.
    """
    share = float(seen.value)
    if share < CONTRADICTED:
        return None
    left = busiest(counters, kept)
    most = min(most, 1.0 / max(1.0 - share, 0.01))
    evidence = [seen, *shown]
    if left is not None and left[1] > 0.0:
        most = min(most, 1.0 / left[1])
        evidence.insert(0, observed(counters, f"{left[0]} busy, repaired or not", left[1], 1.0 / WORTH))
    words = f"{seen.metric} {share:.0%}"
    return with_measurement(finding, evidence, most, words=words, confirmed=share >= CONFIRMED)


def with_measurement(
    finding: Finding,
    seen: Sequence[Observation],
    most: float,
    *,
    words: str,
    confirmed: bool,
    proven: bool = False,
    estimate: float | None = None,
) -> Finding:
    """The finding with what was measured, also in `words`.

    Args:
        most: bounds its gain; below `WORTH` the finding is information.
        confirmed: the measurement agrees with the cause, which makes it sure.
        proven: it was counted at the cause itself, which makes it worth a warning whatever the tiers below said.
        estimate: the gain, where the measurement gives one.
    """
    gain = None if finding.gain is None else _capped(finding.gain, most, estimate)
    severity, sure = finding.severity, finding.confidence
    if most < WORTH:
        severity = "information" if severity != "hint" else severity
    elif confirmed:
        sure = "high"
        severity = "warning" if proven and gain is not None and gain.estimate >= WORTH else severity
    return msgspec.structs.replace(
        finding,
        message=f"{finding.message} Measured: {words}.",
        severity=severity,
        confidence=sure,
        gain=gain,
        evidence=(*finding.evidence, *seen),
    )


def _capped(gain: Gain, most: float, estimate: float | None) -> Gain:
    if estimate is not None:
        return make_gain(min(estimate, most), 1.0, most)
    return make_gain(min(gain.estimate, most), 1.0, min(gain.high, most))
