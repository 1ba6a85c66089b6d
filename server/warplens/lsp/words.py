# SPDX-License-Identifier: Apache-2.0
"""Short sentences about kernels, for lenses, hints and tables. Plain data in, text out."""

from __future__ import annotations

from warplens.lsp.view import View
from warplens.service.report import FindingReport, KernelReport, ResourceReport
from warplens_tools.finding import BottleneckClass, Gain

#: Marks what was measured on a version of the kernel that has been edited since.
BEFORE_EDIT = " (before the edit)"
#: Marks a finding whose own lines have been edited since.
BEING_CHECKED = " (edited, being checked)"

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


def headline(view: View, kernel: KernelReport) -> str:
    """The lens over a kernel: what bounds it, its best finding, its occupancy."""
    parts = [bound(kernel)]
    findings = view.findings_of(kernel)
    if findings:
        more = f" +{len(findings) - 1}" if len(findings) > 1 else ""
        parts.append(f"{title(findings[0])} ({findings[0].code}){more}")
    resources = kernel.resources
    if resources is not None and resources.occupancy is not None:
        parts.append(f"occupancy {resources.occupancy:.0%}")
    stale = BEFORE_EDIT if kernel.qualified_name in view.edited else ""
    return " · ".join(parts) + stale


def title(finding: FindingReport) -> str:
    """A finding's name as words."""
    return finding.slug.replace("-", " ")


def gain(expected: Gain) -> str:
    """An expected speedup with its bounds."""
    return f"{expected.estimate:.2f}× expected ({expected.low:.2f}× to {expected.high:.2f}×)"


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
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
