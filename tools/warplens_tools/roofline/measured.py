# SPDX-License-Identifier: Apache-2.0
"""The measured vote: what the hardware did, from counters, or from a duration and known amounts of work.

Thresholds are those of Nsight Compute's own speed-of-light rule: below 60 % of every roof a launch is bound
by latency, and units within 10 percentage points of each other are balanced. Where a roof was calibrated on
the card, the share of what the card really reaches counts, not the share of its theoretical peak.
"""

from __future__ import annotations

from collections.abc import Mapping

from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence, LaunchTiming, Observation
from warplens_tools.finding import BottleneckClass, Confidence, Vote
from warplens_tools.roofline.model import LEVELS, Amounts, Reach, Roofline, amounts_of, roofline_of

#: Shares of a roof, Nsight Compute's SpeedOfLight rule (SOLBottleneck.py: 60 % and 10 points).
NEAR_ROOF = 0.60
BALANCED = 0.10
#: A grid below one wave leaves SMs idle from the start (Nsight Compute's launch statistics rule).
ONE_WAVE = 1.0
#: Share of the stalled warps from which a full queue says that its unit is the bound, whatever the throughput
#: counters make of it: most of them.
FULL_QUEUE = 0.5
_QUEUES: dict[str, tuple[BottleneckClass, str]] = {
    "lg_throttle": ("memory", "the L1's queue of global and local accesses"),
    "tex_throttle": ("memory", "the texture unit's queue"),
    "math_pipe_throttle": ("compute", "the arithmetic pipes' queue"),
}
#: Busy share of one L2 slice's atomic unit, and its busy share over the average slice's, from which that slice is
#: the bound. On H200 an addition of doubles holds the unit for three cycles an input: a third is all of it.
SLICE_BUSY, SLICE_LEAD = 0.30, 10.0
_RULE = "Nsight Compute's speed-of-light rule"


def measured_vote(
    counters: CounterEvidence | None,
    gpu: Gpu,
    *,
    timing: LaunchTiming | None = None,
    work: Mapping[str, float] | None = None,
) -> Vote | None:
    """What the hardware did; None where neither counters nor timing with known work decide it.

    Args:
        gpu: the card that was measured; with another card's roofs the shares mean nothing.
        work: for timing without counters, what a launch must do at least: bytes under "dram",
            operations under "fp32" and the other names of `Gpu.ceilings`.
    """
    if counters is not None:
        vote = _from_counters(counters, gpu)
        if vote is not None:
            return vote
    return None if timing is None else _from_timing(timing, gpu, work or {})


def _from_counters(counters: CounterEvidence, gpu: Gpu) -> Vote | None:
    moved, computed = names.memory_throughput(counters), names.compute_throughput(counters)
    if moved is None or computed is None:
        return None
    (memory, part), (compute, pipe) = moved, computed
    amounts = amounts_of(counters)
    roofline = None if amounts is None else roofline_of(amounts, gpu)
    # Roofs calibrated on another card say nothing of this launch.
    own = roofline if counters.gpu_name in ("", gpu.name) else None
    near_memory, near_compute = _calibrated(own, memory=True), _calibrated(own, memory=False)
    shares = (
        max(memory / 100, near_memory.share if near_memory else 0.0),
        max(compute / 100, near_compute.share if near_compute else 0.0),
    )
    seen = [
        *_throughputs(counters, moved, computed),
        *(_reach_seen(reach, counters.origin) for reach in (near_memory, near_compute) if reach),
    ]
    launch = _too_short(names.value(counters, names.DURATION), gpu, counters.origin, "counters")
    return launch or _decide(shares, (f"{part} busiest" if part else "", f"{pipe} busiest"), counters, seen)


def _calibrated(roofline: Roofline | None, *, memory: bool) -> Reach | None:
    """The nearest roof of a class that was measured on the card."""
    found = [
        reach
        for reach in (roofline.reaches if roofline else ())
        if reach.kind == "calibrated" and (reach.roof in LEVELS) == memory
    ]
    return max(found, key=lambda reach: reach.share, default=None)


def _decide(
    shares: tuple[float, float], parts: tuple[str, str], counters: CounterEvidence, seen: list[Observation]
) -> Vote:
    memory, compute = shares
    said = f"memory reached {memory:.0%} and compute {compute:.0%} of their roofs"
    if max(shares) < NEAR_ROOF:
        return _one_unit(said, counters, seen) or _latency(said, counters, seen)
    bound: BottleneckClass = "memory" if memory > compute else "compute"
    if abs(memory - compute) <= BALANCED:
        return Vote("mixed", "medium", f"{said}, so neither alone bounds it", tuple(seen))
    sure: Confidence = "high" if abs(memory - compute) >= 2 * BALANCED else "medium"
    part = parts[bound == "compute"]
    return Vote(bound, sure, said + (f" ({part})" if part else ""), tuple(seen))


def _one_unit(said: str, counters: CounterEvidence, seen: list[Observation]) -> Vote | None:
    """A bound that averages over units and cycles hide: one slice, one queue, or the few SMs that had work."""
    slice_ = names.busiest_slice(counters)
    if slice_ is not None and slice_[0] >= SLICE_BUSY and slice_[0] >= SLICE_LEAD * slice_[1]:
        busiest, mean = slice_
        reason = f"{said}, but one slice of L2 does the atomics: {busiest:.0%} busy where the average is {mean:.1%}"
        least = counters.seen(names.BUSIEST_ATOMICS, busiest * 100, SLICE_BUSY * 100, unit="%", digits=1)
        return Vote("memory", "high", reason, (*seen, least))
    top = next(iter(counters.stalls.items()), ("", 0.0))
    if top[0] in _QUEUES and top[1] >= FULL_QUEUE:
        bound, queue = _QUEUES[top[0]]
        stalls = counters.seen(f"stalls on {top[0]}", top[1], FULL_QUEUE)
        return Vote(
            bound, "medium", f"{said}, but {top[1]:.0%} of stalled warps find {queue} full", (*seen, stalls)
        )
    issued, whole = (
        names.value(counters, names.ISSUE_ACTIVE),
        names.value(counters, names.COMPUTE_PIPES["instruction issue"]),
    )
    if issued is not None and whole is not None and issued >= 100 * NEAR_ROOF:
        reason = (
            f"{said} over its whole time, but the SMs that had work issued in {issued:.0f}% of their cycles"
        )
        busy = counters.seen(names.ISSUE_ACTIVE, issued, NEAR_ROOF * 100, unit="%", source=_RULE, digits=1)
        return Vote("compute", "medium", reason, (*seen, busy))
    return None


def _latency(said: str, counters: CounterEvidence, seen: list[Observation]) -> Vote:
    waves = names.value(counters, names.WAVES)
    reasons = [f"{said}, so it waits more than it works"]
    if waves is not None and waves < ONE_WAVE:
        reasons.append(f"the grid is {waves:.2f} of one wave")
        seen.append(counters.seen(names.WAVES, waves, ONE_WAVE, unit="wave", source="one full wave"))
    top = next(iter(counters.stalls.items()), None)
    if top is not None:
        reasons.append(f"{top[1]:.0%} of stalled warps wait on {top[0].replace('_', ' ')}")
        seen.append(counters.seen(f"stalls on {top[0]}", top[1]))
    return Vote("latency", "high" if top is not None else "medium", "; ".join(reasons), tuple(seen))


def _throughputs(
    counters: CounterEvidence, moved: tuple[float, str], computed: tuple[float, str]
) -> list[Observation]:
    whole = names.value(counters, names.MEMORY_THROUGHPUT) == moved[0]
    memory = names.MEMORY_THROUGHPUT if whole else names.MEMORY_PARTS[moved[1]]
    compute = names.COMPUTE_PIPES.get(computed[1], names.SM_THROUGHPUT)
    return [
        counters.seen(name, share, NEAR_ROOF * 100, unit="%", source=_RULE, digits=2)
        for name, share in ((memory, moved[0]), (compute, computed[0]))
    ]


def _reach_seen(reach: Reach, origin: str) -> Observation:
    return Observation(
        "counters", origin, f"{reach.roof} rate", reach.achieved, reach.unit, reach.ceiling, "calibrated roof"
    )


def _too_short(duration: float | None, gpu: Gpu, origin: str, tier: str) -> Vote | None:
    """Launch, where the card was seen to start kernels no faster than this one runs."""
    rate = gpu.ceilings.get("launch")
    if duration is None or rate is None or duration >= 1e9 / rate.value:
        return None
    period = 1e9 / rate.value
    seen = Observation(
        "timing" if tier == "timing" else "counters", origin, "duration", duration, "ns", period, rate.source
    )
    reason = f"it runs {duration:.0f} ns, and this card starts a kernel every {period:.0f} ns at best"
    return Vote("launch", "high", reason, (seen,))


def _from_timing(timing: LaunchTiming, gpu: Gpu, work: Mapping[str, float]) -> Vote | None:
    short = _too_short(timing.median_ns, gpu, timing.origin, "timing")
    if short is not None:
        return short
    moved = {level: work[level] for level in LEVELS if level in work}
    operations = {name: amount for name, amount in work.items() if name not in LEVELS}
    if not moved and not operations:
        return None
    roofline = roofline_of(Amounts(timing.median_ns, moved, operations), gpu)
    top = roofline.reaches[0] if roofline.reaches else None
    # Least work gives lower bounds on the shares: near a roof is certain, far from all of them is not.
    if top is None or top.share < NEAR_ROOF:
        return None
    bound: BottleneckClass = "memory" if top.roof in LEVELS else "compute"
    seen = Observation(
        "timing", timing.origin, f"{top.roof} rate", top.achieved, top.unit, top.ceiling, f"{top.kind} roof"
    )
    sure: Confidence = "high" if top.kind == "calibrated" else "medium"
    reason = f"its least work alone is {top.share:.0%} of the {top.roof} roof in the time it took"
    return Vote(bound, sure, reason, (seen,))
