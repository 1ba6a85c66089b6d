# SPDX-License-Identifier: Apache-2.0
"""Short sentences about kernels and findings, for lenses, hints, tables and the terminal."""

from __future__ import annotations

from warplens.service.report import KernelReport, ResourceReport
from warplens_tools.finding import BottleneckClass, Finding, Gain

_BOUND: dict[BottleneckClass, str] = {
    "memory": "memory-bound",
    "compute": "compute-bound",
    "latency": "latency-bound",
    "launch": "launch-bound",
    "mixed": "bound by memory and compute alike",
    "unknown": "bound unknown",
}


def bound(kernel: KernelReport) -> str:
    """What bounds a kernel, in two words."""
    return _BOUND[kernel.bottleneck.bound]


def title(finding: Finding) -> str:
    """A finding's name as words."""
    return finding.slug.replace("-", " ")


def gain(expected: Gain) -> str:
    """An expected speedup with its bounds; one that is its own upper bound is a bound, no expectation."""
    if expected.estimate >= expected.high:
        least = "up to" if expected.low <= 1.0 else f"{factor(expected.low)} to"
        return f"{least} {factor(expected.high)} expected"
    return f"{factor(expected.estimate)} expected ({factor(expected.low)} to {factor(expected.high)})"


def confidence(finding: Finding) -> str:
    """ "medium confidence (not known: the grid size)"."""
    missing = f" (not known: {', '.join(finding.missing)})" if finding.missing else ""
    return f"{finding.confidence} confidence{missing}"


def short_gain(expected: Gain) -> str:
    """The same in two words."""
    bound = "up to " if expected.estimate >= expected.high else ""
    return f"{bound}{factor(expected.estimate)}"


def factor(value: float) -> str:
    """A speedup to two digits; near 1 to the hundredth, which is where the difference is."""
    return f"{value:.2f}×" if 0.9 <= value < 1.1 else f"{value:.1f}×" if value < 9.95 else f"{value:.0f}×"


def of_instantiation(resources: ResourceReport) -> str:
    """Which instantiation a figure is of, where there are several."""
    if resources.instantiations < 2:
        return ""
    return f", the worst of {resources.instantiations} instantiations: {resources.instantiation}"


def occupancy(resources: ResourceReport) -> str:
    """Occupancy in a sentence; "" where it is unknown."""
    if resources.occupancy is None:
        return ""
    threads = f" with {resources.block_threads} threads per block" if resources.block_threads else ""
    limiter = f", limited by {resources.occupancy_limiter}" if resources.occupancy_limiter else ""
    return f"theoretical occupancy {resources.occupancy:.0%} on {resources.arch}{threads}{limiter}"


def number(value: float | str | None) -> str:
    """A figure as a person writes it; "unknown" where there is none."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}"
