# SPDX-License-Identifier: Apache-2.0
"""Short sentences about kernels and findings, for lenses, hints, tables and the terminal."""

from __future__ import annotations

import re

from warplens.service.report import FileReport, KernelReport, ResourceReport
from warplens_tools.evidence import Observation
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
    """An expected speedup with its bounds, in the words of `short_gain`."""
    if expected.estimate >= expected.high:
        return f"{short_gain(expected)} expected"
    least = "at most" if expected.low <= 1.0 else f"{factor(expected.low)} to"
    return f"{short_gain(expected)} expected ({least} {factor(expected.high)})"


def confidence(finding: Finding) -> str:
    """ "medium confidence (not known: the grid size)"."""
    missing = f" (not known: {', '.join(finding.missing)})" if finding.missing else ""
    return f"{finding.confidence} confidence{missing}"


def short_gain(expected: Gain) -> str:
    """An expected speedup in two words: a range, where what is expected is its upper end and so a bound."""
    if expected.estimate < expected.high:
        return factor(expected.estimate)
    least, most = factor(expected.low), factor(expected.high)
    if expected.low <= 1.0:
        return f"up to {most}"
    return f"{least} to {most}" if least != most else most


def factor(value: float) -> str:
    """A speedup to two digits; near 1 to the hundredth, which is where the difference is."""
    return f"{value:.2f}×" if 0.9 <= value < 1.1 else f"{value:.1f}×" if value < 9.95 else f"{value:.0f}×"


def outcome(report: FileReport) -> str:
    """What a check of a file came to, in a sentence without its end."""
    found, kernels = len(report.findings), len(report.kernels)
    some = counted(found, "finding") if found else "no finding"
    where = f" in {counted(kernels, 'kernel')}" if kernels else "; the file defines no kernel"
    rests = f"compiled for {report.arch}" if "binary" in report.tiers else "from its text alone"
    return f"{some}{where}, {rests}"


def counted(count: int, what: str) -> str:
    """ "1 finding", "3 findings"."""
    return f"{count} {what}" + ("" if count == 1 else "s")


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


def quantity(seen: Observation, value: float | str | None) -> str:
    """A value of an observation with its unit; a share in per cent."""
    share = not seen.unit and re.search(r"\bshare of\b", seen.metric)
    if share and isinstance(value, int | float) and 0.0 <= value <= 1.0:
        return f"{value:.0%}"
    return f"{number(value)} {seen.unit}".strip()


def number(value: float | str | None) -> str:
    """A figure as a person writes it; "unknown" where there is none."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}"
