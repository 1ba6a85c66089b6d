# SPDX-License-Identifier: Apache-2.0
"""A launch as a report of Nsight Compute holds it, before it is matched to the user's files."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.evidence import Advice, CounterEvidence, InstructionCounters

Extent = tuple[int, int, int]


class ProfiledLaunch(msgspec.Struct, frozen=True):
    """One profiled launch. Metrics are in base units under the names of `collect.metrics`."""

    origin: str
    #: Demangled, with parameters, as the report prints it.
    kernel: str
    mangled: str = ""
    gpu_name: str = ""
    #: e.g. "9.0".
    compute_capability: str = ""
    grid: Extent = (0, 0, 0)
    block: Extent = (0, 0, 0)
    metrics: dict[str, float] = {}
    units: dict[str, str] = {}
    #: Metrics whose value is text.
    texts: dict[str, str] = {}
    instructions: tuple[InstructionCounters, ...] = ()
    #: Source files that the report carries: path in the report to text.
    sources: dict[str, str] = {}
    advice: tuple[Advice, ...] = ()


def representative(launches: Sequence[ProfiledLaunch]) -> ProfiledLaunch:
    """Of several launches of one kernel the one of median duration among those of the heaviest shape.

    Raises:
        ValueError: `launches` is empty.
    """
    shapes: dict[tuple[Extent, Extent], list[ProfiledLaunch]] = {}
    for launch in launches:
        shapes.setdefault((launch.grid, launch.block), []).append(launch)
    heaviest = max(shapes.values(), key=lambda group: sum(map(duration, group)))
    middle = statistics.median_low([duration(launch) for launch in heaviest])
    return next(launch for launch in heaviest if duration(launch) == middle)


def duration(launch: ProfiledLaunch) -> float:
    """Nanoseconds; 0 where the report does not tell, which only orders launches."""
    return launch.metrics.get(names.DURATION, 0.0)


def counter_evidence(launch: ProfiledLaunch, *, launches: int = 1) -> CounterEvidence:
    """The evidence of one launch, not yet tied to lines of the user's file."""
    sampled = _sampled(launch.instructions)
    passes = launch.metrics.get(names.PASSES)
    return CounterEvidence(
        origin=launch.origin,
        kernel_name=launch.kernel,
        gpu_name=launch.gpu_name,
        compute_capability=launch.compute_capability,
        grid=launch.grid,
        block=launch.block,
        metrics=launch.metrics,
        units=launch.units,
        stalls=names.stall_shares({**sampled, **launch.metrics}),
        stall_samples=names.stall_samples({**sampled, **launch.metrics}),
        mangled=launch.mangled,
        launches=launches,
        instructions=launch.instructions,
        advice=launch.advice,
        passes=None if passes is None else int(passes),
    )


def _sampled(instructions: Iterable[InstructionCounters]) -> dict[str, float]:
    """Stall samples summed over the kernel, for reports that give them per instruction only."""
    sums: dict[str, float] = {}
    for instruction in instructions:
        for name, amount in instruction.values.items():
            if name.startswith("smsp__pcsamp_warps_issue_stalled_"):
                sums[name] = sums.get(name, 0.0) + amount
    return sums
