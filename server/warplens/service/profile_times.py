# SPDX-License-Identifier: Apache-2.0
"""Durations of a file's kernels in its own program, as the probe's survey gives them."""

from __future__ import annotations

from collections.abc import Sequence

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.timing import bootstrap
from warplens_tools.evidence import LaunchTiming
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.toolchain.demangle import qualified_name


def launch_timings(surveyed: Sequence[SurveyedShape]) -> dict[str, LaunchTiming]:
    """Timings by qualified name: of each kernel's heaviest shape, with its share of all kernel time.

    A kernel that CUPTI timed no launch of is absent.
    """
    total = sum(s.total_ns for s in surveyed)
    groups: dict[str, list[SurveyedShape]] = {}
    for shape in surveyed:
        if any(shape.samples):
            groups.setdefault(qualified_name(shape.mangled), []).append(shape)
    return {name: _timing(group, total) for name, group in groups.items()}


def _timing(group: Sequence[SurveyedShape], total: float) -> LaunchTiming:
    shape = max(group, key=lambda s: s.total_ns)
    interval = bootstrap([ns for ns in shape.samples if ns > 0], MeasureSettings())
    return LaunchTiming(
        origin="CUPTI activity",
        launches=sum(s.timed for s in group),
        grid=shape.grid,
        block=shape.block,
        dynamic_shared_bytes=shape.shared,
        median_ns=interval.median,
        low_ns=interval.low,
        high_ns=interval.high,
        share=sum(s.total_ns for s in group) / total if total else None,
    )
