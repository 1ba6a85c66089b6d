# SPDX-License-Identifier: Apache-2.0
"""What was measured of atomics, which are serialized, and of launches that leave SMs or warps idle.

Where such a resource bounds a launch, what a repair leaves sets the time: the busiest other unit, taken to come to a
quarter of its roof at least, and never less than the shortest launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence, KernelEvidence, Observation
from warplens_tools.finding import Finding
from warplens_tools.micro.common.judges import (
    ARITHMETIC,
    CONFIRMED,
    CONTRADICTED,
    DRAM,
    EVERY,
    ISSUE,
    L1,
    L2,
    SHARED_STALLS,
    WORTH,
    busiest,
    cap_gain,
    stalled,
    with_measurement,
)
from warplens_tools.roofline.measured import NEAR_ROOF

#: Share of the roof of its busiest unit that a repaired kernel is taken to reach at least.
LEAST_REACHED = 0.25
#: Use of device memory, per cent of its peak, at which enough was in flight (KernelPro's HighDRAMThroughput).
ENOUGH_DRAM = 80.0


def judge_global_atomics(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """The busiest L2 slice's atomic unit: idle, it contradicts contention; busy, all else is what remains."""
    counters = evidence.counters
    slices = None if counters is None else names.busiest_slice(counters)
    if counters is None or slices is None:
        return finding
    busy = slices[0]
    if busy < CONTRADICTED:
        return None
    seen = counters.seen("atomic unit of the busiest L2 slice busy", busy, CONFIRMED)
    return _serial(counters, finding, seen, (*DRAM, *ARITHMETIC, *ISSUE), confirmed=busy >= CONFIRMED)


def judge_shared_atomics(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """The busy share of L1's data path, and stalls on it: neither contradicts contention, both confirm it.

    Retries of an addition that compares and swaps take issue slots and arithmetic as well; what remains is global.
    """
    counters = evidence.counters
    path = None if counters is None else busiest(counters, L1)
    if counters is None or path is None:
        return finding
    waits = stalled(counters, SHARED_STALLS)
    if path[1] >= NEAR_ROOF and (waits is None or waits >= CONFIRMED):
        seen = counters.seen(f"{path[0]} busy", path[1], NEAR_ROOF)
        return _serial(counters, finding, seen, (*DRAM, *L2), confirmed=True)
    share = path[1] if waits is None else waits
    seen = counters.seen("stalls on shared memory", share, CONFIRMED)
    return cap_gain(counters, finding, seen, (*DRAM, *L2))


def _serial(
    counters: CounterEvidence, finding: Finding, seen: Observation, kept: Sequence[str], *, confirmed: bool
) -> Finding:
    left = busiest(counters, kept) or ("", 0.0)
    duration = names.value(counters, names.DURATION)
    least = max(left[1], SHORTEST_KERNEL_NS / duration if duration else 0.0, 1e-4)
    evidence = (counters.seen(f"{left[0]} busy, repaired or not", left[1], 1.0 / WORTH), seen)
    expected = finding.gain.estimate if finding.gain is not None else 1.0
    estimate = max(expected, LEAST_REACHED / least, 1.0) if confirmed else None
    words = f"{seen.metric} {float(seen.value):.0%}"
    return with_measurement(
        finding, evidence, 1.0 / least, words=words, confirmed=confirmed, proven=confirmed, estimate=estimate
    )


def even_share(counters: CounterEvidence) -> float | None:
    """Cycles in which an SM had work, on average over the SM that had it longest, 0 to 1; None where not read."""
    mean, most = names.value(counters, names.SM_ACTIVE), names.value(counters, names.SM_ACTIVE_MOST)
    return None if mean is None or not most else min(mean / most, 1.0)


def judge_small_grid(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """Warp slots of the whole card that stayed empty, against the unit that is busiest as it is."""
    counters = evidence.counters
    even = None if counters is None else even_share(counters)
    occupied = None if counters is None else names.value(counters, names.ACHIEVED_OCCUPANCY)
    if counters is None or even is None or occupied is None:
        return finding
    empty = counters.seen(
        "warp slots of the card left empty", 1.0 - even * min(occupied / 100, 1.0), CONFIRMED
    )
    return cap_gain(counters, finding, empty, EVERY)


def judge_occupancy(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """Warps that wait for loads, under the occupancy that was achieved: busy device memory needs no more of them."""
    counters = evidence.counters
    dram = None if counters is None else names.value(counters, names.DRAM_THROUGHPUT)
    waits = None if counters is None else stalled(counters, ("long_scoreboard",))
    if counters is None or dram is None:
        return finding
    if dram >= ENOUGH_DRAM:
        return None
    achieved = names.value(counters, names.ACHIEVED_OCCUPANCY)
    most = 100.0 / achieved if achieved else float("inf")
    shown = counters.seen(names.DRAM_THROUGHPUT, dram, ENOUGH_DRAM, unit="%", digits=1)
    if waits is None:
        return with_measurement(finding, (shown,), most, words=f"DRAM busy {dram:.0f} %", confirmed=False)
    seen = counters.seen("stalls on long scoreboard", waits, CONFIRMED)
    return cap_gain(counters, finding, seen, EVERY, most=most, shown=(shown,))


def judge_waves(evidence: KernelEvidence, finding: Finding) -> Finding | None:
    """SMs that had work for less time than the one that had it longest: the gain is what they lacked.

    Even SMs whose warp slots stayed full to the end contradict a tail; even SMs alone bound it by the slots left empty.
    """
    counters = evidence.counters
    even = None if counters is None else even_share(counters)
    if counters is None or even is None:
        return finding
    seen = counters.seen("SM active cycles, mean over most", even, 1.0 / WORTH)
    words = f"the SMs had work for {even:.0%} of the cycles of the one that had it longest"
    if even <= 1.0 / WORTH:
        return with_measurement(
            finding, (seen,), 1.0 / even, words=words, confirmed=True, proven=True, estimate=1.0 / even
        )
    achieved = names.value(counters, names.ACHIEVED_OCCUPANCY)
    possible = names.value(counters, names.THEORETICAL_OCCUPANCY)
    if not achieved or not possible:
        return finding
    if achieved >= possible / WORTH:
        return None
    return with_measurement(finding, (seen,), possible / achieved, words=words, confirmed=False)
