# SPDX-License-Identifier: Apache-2.0
"""What was measured says of a finding: it is confirmed, refined, or contradicted.

How much a repair can gain has two bounds, both of the launch as it ran. The units that a repair does not relieve are
busy as long as before, so the launch takes at least the busiest one's share of its time. And what warps do not wait
for, and no unit of the cause is busy with, no repair of it saves (Amdahl's law). A repair worth less than a tenth is
told as information.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence, KernelEvidence, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.timeline_share import WORTH as WORTH_A_WORD
from warplens_tools.machine.timeline_share import share_observation
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
        if seen is None:
            return finding
        if float(seen.value) < CONTRADICTED and is_too_few(counters, float(seen.value)):
            return msgspec.structs.replace(finding, evidence=(*finding.evidence, seen))
        return cap_gain(counters, finding, seen, kept)

    return judge


#: Of arithmetic to spare: it loads the arithmetic pipes or instruction issue; a repair leaves the memories as they are.
judge_by_arithmetic = judge_by_room(
    own=(*ARITHMETIC, *ISSUE), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)
)


def is_too_few(counters: CounterEvidence, share: float) -> bool:
    """Whether the stalls were sampled so seldom that a share so small does not rule out one that counts.

    Of n samples of which none is of a cause its share may be 3 / n (the rule of three, at 95 %); of one that was seen
    two standard deviations more.
    """
    samples = counters.stall_samples
    if samples is None:
        return False
    return share + 3.0 / samples + 2.0 * math.sqrt(share * (1.0 - share) / samples) >= CONTRADICTED


def share_of(counters: CounterEvidence, own: Sequence[str], stalls: Sequence[str]) -> Observation | None:
    """The larger of the cause's two shares of the time; None where neither was measured."""
    unit, waits = busiest(counters, own), stalled(counters, stalls) if stalls else None
    if unit is not None and unit[1] >= (waits or 0.0):
        return counters.seen(f"{unit[0]} busy", unit[1], CONFIRMED)
    if waits is None:
        return None
    named = [reason.replace("_", " ") for reason in stalls if counters.stalls.get(reason, 0.0) > 0.0]
    return counters.seen(f"stalls on {' and '.join(named) or stalls[0].replace('_', ' ')}", waits, CONFIRMED)


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
        evidence.insert(0, counters.seen(f"{left[0]} busy, repaired or not", left[1], 1.0 / WORTH))
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
        return Gain.of(min(estimate, most), most)
    return Gain.of(min(gain.estimate, most), min(gain.high, most))


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
    seen = counters.seen(said, here, NO_WASTE, digits=2)
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
        evidence.insert(0, counters.seen("share of the time it concerns", share, CONFIRMED))
    if kept[1] > 0.0:
        most = min(most, 1.0 / kept[1])
        evidence.insert(0, counters.seen(f"{kept[0]} busy, repaired or not", kept[1], 1.0 / WORTH))
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
    seen = counters.seen("sectors of local memory", moved, 0.0)
    share = max(moved / (moved + rest), _executed_share(counters, _LOCAL_OPCODES))
    most = 1.0 / max(1.0 - share, 0.01)
    part = counters.seen("share of local memory in sectors or instructions", share, CONFIRMED)
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
        shown = counters.seen(metric, seen, bound, unit=unit, digits=2)
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
        return msgspec.structs.replace(told, gain=Gain.of(ratio, ratio))

    return judge


def _confirmed(finding: Finding, seen: Observation) -> Finding:
    return msgspec.structs.replace(
        finding, severity="warning", confidence="high", evidence=(*finding.evidence, seen)
    )
