"""What counters say of the lines that a finding speaks of: it is confirmed, refined, or contradicted."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.timeline_share import WORTH, share_observation
from warplens_tools.evidence import CounterEvidence, Observation
from warplens_tools.finding import Finding
from warplens_tools.micro.base import Judge
from warplens_tools.view import KernelView

#: Measured amount over the ideal one up to which a finding of waste is contradicted.
NO_WASTE = 1.1
#: Share of the stalls from which Nsight Compute's rule on stall reasons speaks (CPIStall.py).
STALL_SHARE = 0.3
_SECTORS = "memory_l2_theoretical_sectors_global"
_WAVEFRONTS = "memory_l1_wavefronts_shared"
_LOCAL = "memory_l2_theoretical_sectors_local"


def kernel_total(counters: CounterEvidence, metric: str) -> float | None:
    """A counter over the whole kernel: as reported, else the sum over its instructions; None where not counted."""
    if metric in counters.metrics:
        return counters.metrics[metric]
    counted = [x.values[metric] for x in counters.instructions if metric in x.values]
    return sum(counted) if counted else None


def line_total(counters: CounterEvidence, lines: Iterable[int], metric: str) -> float | None:
    """A counter over some lines; None where it was counted on none of them."""
    counted = [v for line in set(lines) if (v := counters.lines.get(line, {}).get(metric)) is not None]
    return sum(counted) if counted else None


def _lines(finding: Finding) -> set[int]:
    return set(range(finding.span.line, finding.span.end_line + 1))


def judge_by_sectors(view: KernelView, finding: Finding) -> Finding | None:
    """Global sectors moved over the fewest that hold what the lanes want, on the finding's lines."""
    return _judge_ratio(view, finding, _SECTORS, "sectors over the fewest possible")


def judge_by_wavefronts(view: KernelView, finding: Finding) -> Finding | None:
    """Shared-memory wavefronts over the fewest possible, on the finding's lines."""
    return _judge_ratio(view, finding, _WAVEFRONTS, "shared-memory wavefronts over the fewest possible")


def _judge_ratio(view: KernelView, finding: Finding, metric: str, said: str) -> Finding | None:
    counters = view.evidence.counters
    if counters is None:
        return finding
    moved = line_total(counters, _lines(finding), metric)
    ideal = line_total(counters, _lines(finding), f"{metric}_ideal")
    if not moved or not ideal:
        return finding
    ratio = moved / ideal
    if ratio < NO_WASTE:
        return None
    seen = Observation("counters", counters.origin, said, round(ratio, 2), "", NO_WASTE)
    return _confirmed(finding, seen, ratio)


def judge_by_local(view: KernelView, finding: Finding) -> Finding | None:
    """Sectors of local memory that the kernel moved: none contradicts a spill or an array in local memory."""
    counters = view.evidence.counters
    if counters is None:
        return finding
    moved = kernel_total(counters, _LOCAL)
    if moved is None:
        return finding
    if not moved:
        return None
    return _confirmed(
        finding, Observation("counters", counters.origin, "sectors of local memory", moved, "", 0.0)
    )


def judge_by_stalls(*reasons: str) -> Judge:
    """A judge that withdraws a finding where fewer than `STALL_SHARE` of the stalled warps wait for these reasons."""

    def judge(view: KernelView, finding: Finding) -> Finding | None:
        counters = view.evidence.counters
        if counters is None or not counters.stalls:
            return finding
        share = sum(counters.stalls.get(reason, 0.0) for reason in reasons)
        if share < STALL_SHARE:
            return None
        said = " and ".join(reason.replace("_", " ") for reason in reasons)
        seen = Observation("counters", counters.origin, f"stalls on {said}", round(share, 3), "", STALL_SHARE)
        return _confirmed(finding, seen, 1.0 / max(1.0 - share, 0.05))

    return judge


def judge_by_metric(metric: str, *, least: float = float("-inf"), most: float = float("inf")) -> Judge:
    """A judge that withdraws a finding where a counter of the whole kernel lies below `least` or above `most`."""
    bound = least if least > float("-inf") else most

    def judge(view: KernelView, finding: Finding) -> Finding | None:
        counters = view.evidence.counters
        seen = None if counters is None else names.value(counters, metric)
        if counters is None or seen is None:
            return finding
        if not least <= seen <= most:
            return None
        unit = counters.units.get(metric, "%" if "pct" in metric else "")
        return _confirmed(
            finding, Observation("counters", counters.origin, metric, round(seen, 2), unit, bound)
        )

    return judge


def judge_by_idle(cause: str) -> Judge:
    """A judge of what makes the device idle: withdrawn where the timeline shows less than a tenth of the span so.

    The gain of what it confirms is the span with that idle time over the span without.
    """

    def judge(view: KernelView, finding: Finding) -> Finding | None:
        timeline = view.evidence.timeline
        if timeline is None or "unknown" in timeline.idle_ns:
            return finding
        idle = timeline.idle_ns.get(cause, 0.0)
        if idle < WORTH * timeline.span_ns:
            return None
        ratio = timeline.span_ns / max(timeline.span_ns - idle, 0.05 * timeline.span_ns)
        told = _confirmed(finding, share_observation(timeline, f"idle for {cause}", idle))
        return msgspec.structs.replace(told, gain=make_gain(ratio, 1.0, ratio))

    return judge


def _confirmed(finding: Finding, seen: Observation, most: float | None = None) -> Finding:
    """The finding with what was measured; its gain is at most `most`."""
    gain = finding.gain
    if gain is not None and most is not None:
        gain = make_gain(min(gain.estimate, most), 1.0, min(gain.high, most))
    return msgspec.structs.replace(
        finding, severity="warning", confidence="high", gain=gain, evidence=(*finding.evidence, seen)
    )
