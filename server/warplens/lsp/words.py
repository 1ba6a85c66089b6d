# SPDX-License-Identifier: Apache-2.0
"""The words of the editor alone: the lens over a kernel, and marks of what was edited since."""

from __future__ import annotations

from warplens.lsp.view import View
from warplens.present.words import bound, short_gain, title
from warplens.service.report import KernelReport

#: Marks what was measured on a version of the kernel that has been edited since.
BEFORE_EDIT = " (before the edit)"
#: Marks a finding whose own lines have been edited since.
BEING_CHECKED = " (edited, being checked)"


def headline(view: View, kernel: KernelReport) -> str:
    """The lens over a kernel: what bounds it, its best finding, its occupancy."""
    parts = [bound(kernel)]
    findings = view.findings_of(kernel)
    if findings:
        expected = findings[0].gain
        best = f" {short_gain(expected)}" if expected is not None else ""
        more = f" +{len(findings) - 1}" if len(findings) > 1 else ""
        parts.append(f"{title(findings[0])}{best}{more}")
    resources = kernel.resources
    if resources is not None and resources.occupancy is not None:
        parts.append(f"occupancy {resources.occupancy:.0%}")
    stale = BEFORE_EDIT if kernel.qualified_name in view.edited else ""
    return " · ".join(parts) + stale
