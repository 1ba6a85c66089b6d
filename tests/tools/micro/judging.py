# SPDX-License-Identifier: Apache-2.0
"""Findings as the binary tier has them, and what a tool's judge says of them on what was measured."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens_tools.evidence import CounterEvidence, KernelEvidence, Observation, TimelineEvidence
from warplens_tools.finding import Finding, Gain
from warplens_tools.kernel import KernelView
from warplens_tools.micro.base import MicroTool
from warplens_tools.testing import views
from warplens_tools.text import Span

REPORTS = Path(__file__).parents[2] / "data" / "reports"
PROGRAM = (REPORTS / "saxpy_transpose.cu").read_text("utf-8")


def view_of(
    name: str,
    *,
    text: str = PROGRAM,
    counters: CounterEvidence | None = None,
    timeline: TimelineEvidence | None = None,
) -> KernelView:
    view = next(v for v in views(text) if v.kernel.name == name)
    return msgspec.structs.replace(view, evidence=KernelEvidence(counters=counters, timeline=timeline))


def said_of(view: KernelView, tool: type[MicroTool], line: int = 3) -> Finding:
    """A finding of the tool as the binary tier would have it."""
    seen = (Observation("binary", "nvcc 13.0", "a figure", 1.0),)
    return Finding(
        tool.code, tool.slug, view.kernel.qualified_name, Span(line, 1, line, 9), "warning", "medium", "It is so.",
        "Change it.", seen, Gain(3.0, 1.0, 9.0),
    )  # fmt: skip


def judged(tool: type[MicroTool], view: KernelView) -> Finding | None:
    return tool(view).verify(said_of(view, tool))
