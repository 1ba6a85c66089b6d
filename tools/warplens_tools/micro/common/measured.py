# SPDX-License-Identifier: Apache-2.0
"""What counters say of the lines that a finding speaks of: it is confirmed, refined, or contradicted."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence, KernelEvidence, Observation
from warplens_tools.finding import Finding
from warplens_tools.machine.gain import make_gain
from warplens_tools.machine.timeline_share import WORTH as WORTH_A_WORD
from warplens_tools.machine.timeline_share import share_observation
from warplens_tools.micro.base import Judge
from warplens_tools.micro.common.room import (
    ARITHMETIC,
    CONFIRMED,
    DRAM,
    GLOBAL_STALLS,
    ISSUE,
    L1,
    L2,
    SHARED_STALLS,
    WORTH,
    busiest,
    busy,
    observed,
    stalled,
    with_measurement,
)

#: Measured amount over the ideal one up to which a finding of waste is contradicted.
NO_WASTE = 1.1
_LOCAL_OPCODES = frozenset({"LDL", "STL"})


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


def judge_by_sectors(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """Global sectors moved over the fewest that hold what the lanes want, on the finding's lines and in all.

    The launch keeps its arithmetic, and of its DRAM traffic what the wanted sectors amount to.
    """
    return _judge_sectors(evidence, finding, by_ratio=True)


def judge_by_stored_sectors(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """As `judge_by_sectors`, for stores: L2 merges partial sectors at a cost that their number does not bound."""
    return _judge_sectors(evidence, finding, by_ratio=False)


def _judge_sectors(evidence: KernelEvidence, finding: Finding, *, by_ratio: bool) -> Finding | None:
    counters = evidence.counters
    if counters is None:
        return finding
    wasted = _waste(counters, finding, names.GLOBAL_SECTORS, "sectors over the fewest possible")
    if not isinstance(wasted, _Waste):
        return finding if wasted else None
    left = busiest(counters, (*ARITHMETIC, *ISSUE)) or ("", 0.0)
    kept = max(left, ("DRAM, for what is wanted,", _wanted_dram(counters)), key=lambda unit: unit[1])
    return _spared(counters, finding, wasted, kept, stalled(counters, GLOBAL_STALLS), by_ratio=by_ratio)


def judge_by_wavefronts(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """Shared-memory wavefronts over the fewest possible, on the finding's lines and in all."""
    counters = evidence.counters
    if counters is None:
        return finding
    wasted = _waste(
        counters, finding, names.SHARED_WAVEFRONTS, "shared-memory wavefronts over the fewest possible"
    )
    if not isinstance(wasted, _Waste):
        return finding if wasted else None
    kept = busiest(counters, (*DRAM, *L2, *ARITHMETIC, *ISSUE)) or ("", 0.0)
    own, waits = busiest(counters, L1), stalled(counters, (*SHARED_STALLS, "barrier"))
    share = None if waits is None else max(waits, own[1] if own is not None else 0.0)
    return _spared(counters, finding, wasted, kept, share)


class _Waste(msgspec.Struct, frozen=True):
    """What was moved over the fewest possible: on the finding's lines, and of the kernel without their waste alone,
    and without any."""

    seen: Observation
    here: float
    alone: float
    whole: float


def _waste(counters: CounterEvidence, finding: Finding, metric: str, said: str) -> _Waste | bool:
    """The waste; False where there is none on the finding's lines, True where it was not counted."""
    moved = line_total(counters, _lines(finding), metric)
    ideal = line_total(counters, _lines(finding), f"{metric}_ideal")
    if not moved or not ideal:
        return True
    here = moved / ideal
    if here < NO_WASTE:
        return False
    every = kernel_total(counters, metric) or moved
    fewest = kernel_total(counters, f"{metric}_ideal") or ideal
    alone = every / max(every - (moved - ideal), fewest)
    seen = Observation("counters", counters.origin, said, round(here, 2), "", NO_WASTE)
    return _Waste(seen, here, alone, max(every / fewest, alone))


def _wanted_dram(counters: CounterEvidence) -> float:
    """Busy share of DRAM if it moved no more than the wanted sectors; 0 where it was not counted."""
    used = busy(counters).get("DRAM", 0.0)
    fewest = kernel_total(counters, f"{names.GLOBAL_SECTORS}_ideal")
    moved = names.total(counters, ((names.DRAM_READ, 1.0), (names.DRAM_WRITE, 1.0)))
    return used if fewest is None or not moved else used * min(1.0, fewest * SECTOR_BYTES / moved)


def _spared(
    counters: CounterEvidence,
    finding: Finding,
    wasted: _Waste,
    kept: tuple[str, float],
    share: float | None,
    *,
    by_ratio: bool = True,
) -> Finding:
    """The gain above what the launch keeps, of the share of the time that the waste concerns.

    With `by_ratio` the waste bounds it too: expected is then the mean (of logarithms) of the finding's own model
    and of that share without its waste.
    """
    evidence, most = [wasted.seen], float("inf")
    if share is not None:
        most = 1.0 / max(1.0 - share, 0.01)
        evidence.insert(0, observed(counters, "share of the time it concerns", share, CONFIRMED))
    if kept[1] > 0.0:
        most = min(most, 1.0 / kept[1])
        evidence.insert(0, observed(counters, f"{kept[0]} busy, repaired or not", kept[1], 1.0 / WORTH))
    estimate = None
    if by_ratio:
        spared = 1.0 / (1.0 - (1.0 if share is None else share) * (1.0 - 1.0 / wasted.whole))
        own = wasted.alone if finding.gain is None else finding.gain.estimate
        own = min(max(own, 1.0), most)
        estimate, most = math.sqrt(own * min(spared, most)), min(most, wasted.whole)
    sure = share is None or share >= CONFIRMED
    words = f"{wasted.here:.3g} {wasted.seen.metric}"
    return with_measurement(
        finding, evidence, most, words=words, confirmed=sure, proven=sure, estimate=estimate
    )


def judge_by_local(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """Sectors of local memory that the kernel moved: none contradicts a spill or an array in local memory.

    A repair saves at most their share of the sectors, or the share of local loads and stores in what was executed.
    """
    counters = evidence.counters
    moved = None if counters is None else kernel_total(counters, names.LOCAL_SECTORS)
    if counters is None or moved is None:
        return finding
    if not moved:
        return None
    rest = kernel_total(counters, names.GLOBAL_SECTORS) or 0.0
    seen = Observation("counters", counters.origin, "sectors of local memory", moved, "", 0.0)
    share = max(moved / (moved + rest), _executed_share(counters, _LOCAL_OPCODES))
    most = 1.0 / max(1.0 - share, 0.01)
    part = observed(counters, "share of local memory in sectors or instructions", share, CONFIRMED)
    words = f"local memory takes {share:.0%} of the sectors or the instructions"
    sure = share >= CONFIRMED
    return with_measurement(finding, (part, seen), most, words=words, confirmed=sure, proven=sure)


def _executed_share(counters: CounterEvidence, opcodes: frozenset[str]) -> float:
    """Share of the executed instructions that have one of these opcodes; 0 where none was counted."""
    executed = [(x.text, x.values.get("inst_executed", 0.0)) for x in counters.instructions]
    every = sum(amount for _, amount in executed)
    these = sum(amount for text, amount in executed if opcodes & set(text.partition(".")[0].split()))
    return these / every if every else 0.0


def judge_by_metric(metric: str, *, least: float = float("-inf"), most: float = float("inf")) -> Judge:
    """A judge that withdraws a finding where a counter of the whole kernel lies below `least` or above `most`."""
    bound = least if least > float("-inf") else most

    def judge(evidence: KernelEvidence, finding: Finding) -> Finding | None:
        counters = evidence.counters
        seen = None if counters is None else names.value(counters, metric)
        if counters is None or seen is None:
            return finding
        if not least <= seen <= most:
            return None
        unit = counters.units.get(metric, "%" if "pct" in metric else "")
        shown = Observation("counters", counters.origin, metric, round(seen, 2), unit, bound)
        return msgspec.structs.replace(finding, confidence="high", evidence=(*finding.evidence, shown))

    return judge


def judge_by_idle(cause: str) -> Judge:
    """A judge of what makes the device idle: withdrawn where the timeline shows less than a tenth of the span so.

    The gain of what it confirms is the span with that idle time over the span without.
    """

    def judge(evidence: KernelEvidence, finding: Finding) -> Finding | None:
        timeline = evidence.timeline
        if timeline is None or "unknown" in timeline.idle_ns:
            return finding
        idle = timeline.idle_ns.get(cause, 0.0)
        if idle < WORTH_A_WORD * timeline.span_ns:
            return None
        ratio = timeline.span_ns / max(timeline.span_ns - idle, 0.05 * timeline.span_ns)
        told = _confirmed(finding, share_observation(timeline, f"idle for {cause}", idle))
        return msgspec.structs.replace(told, gain=make_gain(ratio, 1.0, ratio))

    return judge


def _confirmed(finding: Finding, seen: Observation) -> Finding:
    return msgspec.structs.replace(
        finding, severity="warning", confidence="high", evidence=(*finding.evidence, seen)
    )
