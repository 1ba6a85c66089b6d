# SPDX-License-Identifier: Apache-2.0
"""What the tools saw, in the words in which a model reads it: guidance, raw metrics, or nothing.

KernelPro (arXiv 2606.26453) measured guidance at twice the gain of raw counters, and raw counters below nothing at
all; the three are kept apart here so that the same can be measured of this.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Literal

from warplens_tools.evidence import Observation
from warplens_tools.finding import Bottleneck, Finding
from warplens_tools.micro.registry import all_tools

Feedback = Literal["guidance", "metrics", "nothing"]
#: Findings that are told, those with the largest gain first: a model that reads a dozen answers none.
MOST_FINDINGS = 6


@functools.cache
def avoided() -> Mapping[str, str]:
    """What not to do, by a finding's slug."""
    return {tool.slug: tool.avoid for tool in all_tools() if tool.avoid}


def guidance(findings: Sequence[Finding], kernel: str) -> str:
    """A kernel's findings as instructions: cause, line, number against limit, cure, and what not to do."""
    mine = [f for f in findings if f.kernel in (kernel, "")]
    mine.sort(key=lambda f: -(f.gain.estimate if f.gain is not None else 1.0))
    if not mine:
        return "No tool found a cause. Look for work that can be left out, reused, or done in another order."
    told = "\n\n".join(_told(finding) for finding in mine[:MOST_FINDINGS])
    left = len(mine) - MOST_FINDINGS
    return told + (f"\n\n({left} lesser findings left out)" if left > 0 else "")


def bound_words(bottleneck: Bottleneck | None) -> str:
    """What bounds a version by its code and its launch; "" where that is not known."""
    if bottleneck is None or bottleneck.bound == "unknown":
        return ""
    kind = f"{bottleneck.bound}, {bottleneck.confidence} confidence"
    return f"What bounds this version, by its code and its launch ({kind}): {bottleneck.reason}."


def raw_metrics(metrics: Mapping[str, float]) -> str:
    """Numbers as a profiler prints them, for the comparison with guidance alone."""
    return "\n".join(f"{name} = {value:.6g}" for name, value in sorted(metrics.items())) or "(none collected)"


def _told(finding: Finding) -> str:
    lines = f"line {finding.line}" + (f" to {finding.end_line}" if finding.end_line > finding.line else "")
    told = [f"{finding.code} {finding.slug}, {lines}, {finding.confidence} confidence: {finding.message}"]
    told += [f"  seen: {_seen(observation)}" for observation in finding.evidence]
    told.append(f"  do: {finding.guidance}")
    if finding.slug in avoided():
        told.append(f"  do not: {avoided()[finding.slug]}")
    if finding.gain is not None:
        gain = finding.gain
        told.append(
            f"  expect: {gain.estimate:.2g}x ({gain.low:.2g}x to {gain.high:.2g}x) if this alone were gone"
        )
    if finding.missing:
        told.append(f"  not known: {', '.join(finding.missing)}")
    return "\n".join(told)


def _seen(observation: Observation) -> str:
    said = f"{observation.metric} {_number(observation.value)}"
    said += f" {observation.unit}" if observation.unit else ""
    if observation.threshold is not None:
        why = f"; {observation.source}" if observation.source else ""
        said += f" (limit {_number(observation.threshold)}{why})"
    return said


def _number(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float | int) else value
