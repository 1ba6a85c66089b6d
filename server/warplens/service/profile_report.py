# SPDX-License-Identifier: Apache-2.0
"""The wire form of what was measured of one kernel: the `profile` section that `warplens profile` adds."""

from __future__ import annotations

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import Advice, CounterEvidence
from warplens_tools.roofline.model import Roofline, amounts_of, roofline_of

#: Lines kept, those with most stall samples first.
HOTTEST_LINES = 12


class LineProfile(msgspec.Struct, frozen=True):
    """What was counted on one line of the file. Counts are sums over its instructions."""

    line: int
    #: Of the kernel's stall samples, 0 to 1; null where nothing was sampled.
    share: float | None
    #: The reason most of its samples name; "" where nothing was sampled.
    stall: str
    instructions: float | None = None
    #: 32-byte sectors of global memory, and how few would have done.
    sectors: float | None = None
    ideal_sectors: float | None = None
    #: Wavefronts of shared memory, and how few would have done.
    wavefronts: float | None = None
    ideal_wavefronts: float | None = None


class ProfileReport(msgspec.Struct, frozen=True):
    """What Nsight Compute measured of one kernel."""

    origin: str
    #: The imported report; "" where the counters were collected here.
    report: str
    gpu: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    launches: int
    passes: int | None
    duration_ns: float | None
    #: Those that Warplens reads, in base units, under Nsight Compute's names.
    metrics: dict[str, float]
    stalls: dict[str, float]
    lines: tuple[LineProfile, ...]
    roofline: Roofline | None
    advice: tuple[Advice, ...]


def profile_report(counters: CounterEvidence, gpu: Gpu, *, report: str) -> ProfileReport:
    """The section of one kernel; `gpu` is the card that was measured."""
    amounts = amounts_of(counters)
    wanted = {name for need in names.NEEDS.values() for name in need} | {names.SM_THROUGHPUT}
    read = {name: names.value(counters, name) for name in sorted(wanted)}
    return ProfileReport(
        origin=counters.origin,
        report=report,
        gpu=counters.gpu_name or gpu.name,
        grid=counters.grid,
        block=counters.block,
        launches=counters.launches,
        passes=counters.passes,
        duration_ns=names.value(counters, names.DURATION),
        metrics={name: amount for name, amount in read.items() if amount is not None},
        stalls=counters.stalls,
        lines=hottest_lines(counters),
        roofline=None if amounts is None else roofline_of(amounts, gpu),
        advice=counters.advice,
    )


def hottest_lines(counters: CounterEvidence) -> tuple[LineProfile, ...]:
    """The lines with most stall samples; where nothing was sampled, with most executed instructions."""
    total = sum(_stalled(values) for values in counters.lines.values())
    found = [_line(line, values, total) for line, values in counters.lines.items()]
    found.sort(key=lambda x: (-(x.share or 0.0), -(x.instructions or 0.0), x.line))
    return tuple(found[:HOTTEST_LINES])


def _line(line: int, values: dict[str, float], total: float) -> LineProfile:
    shares = names.stall_shares(values)
    return LineProfile(
        line=line,
        share=_stalled(values) / total if total else None,
        stall=next(iter(shares), ""),
        instructions=values.get("inst_executed"),
        sectors=values.get("memory_l2_theoretical_sectors_global"),
        ideal_sectors=values.get("memory_l2_theoretical_sectors_global_ideal"),
        wavefronts=values.get("memory_l1_wavefronts_shared"),
        ideal_wavefronts=values.get("memory_l1_wavefronts_shared_ideal"),
    )


def _stalled(values: dict[str, float]) -> float:
    """Samples of stalled warps on a line."""
    return sum(
        amount
        for name, amount in values.items()
        if name.startswith("smsp__pcsamp_warps_issue_stalled_")
        and name.removeprefix("smsp__pcsamp_warps_issue_stalled_") not in names.ISSUING
    )
