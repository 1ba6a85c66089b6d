# SPDX-License-Identifier: Apache-2.0
"""What a micro-profiling tool says: findings, their expected gain, and the edits that answer them."""

from __future__ import annotations

from typing import Literal, Self

import msgspec

from warplens_tools.evidence import Observation
from warplens_tools.text import Span, TextEdit

Severity = Literal["error", "warning", "information", "hint"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")
Confidence = Literal["high", "medium", "low"]
BottleneckClass = Literal["memory", "compute", "latency", "launch", "mixed", "unknown"]


class Gain(msgspec.Struct, frozen=True):
    """Expected speedup factor of the kernel if this cause alone were removed, with bounds (1.0 = none)."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, high: float) -> Self:
        """A gain with two decimals that is never below 1, and whose low end is 1: a cause may hide behind another."""
        estimate = max(estimate, 1.0)
        return cls(round(estimate, 2), 1.0, round(max(high, estimate), 2))


class Fix(msgspec.Struct, frozen=True):
    """A deterministic edit that answers a finding.

    `status` is "unproven" until a judge measured it: Warplens never calls an unmeasured edit faster.
    """

    title: str
    #: Slug of the rewrite that made it, e.g. "pad-shared-tile".
    rewrite: str
    edits: tuple[TextEdit, ...]
    #: Whether results may change beyond reordering (e.g. lower precision); says how, "" if they cannot.
    caveat: str = ""
    status: Literal["unproven", "faster", "same", "slower"] = "unproven"
    #: Whether this run of Warplens wrote it into the file; the finding is of the text before.
    applied: bool = False


class RelatedSpan(msgspec.Struct, frozen=True):
    """Another place the finding speaks of, e.g. the declaration of the array."""

    span: Span
    message: str


class Finding(msgspec.Struct, frozen=True):
    """One cause of lost time (or a fault that prevents analysis), on a line, with its evidence."""

    #: Stable code, e.g. "WL101".
    code: str
    #: Stable name, e.g. "register-spills"; names the page, the setting and the test.
    slug: str
    #: Qualified name of the kernel; "" for findings about the whole file.
    kernel: str
    span: Span
    severity: Severity
    confidence: Confidence
    #: One sentence that names the array, the line, the number.
    message: str
    #: What to change, as an engineer would say it of this code.
    guidance: str
    evidence: tuple[Observation, ...]
    gain: Gain | None = None
    fixes: tuple[Fix, ...] = ()
    related: tuple[RelatedSpan, ...] = ()
    #: Words for the CUTLASS/CuTe index where an abstraction answers the finding; "" if none does.
    index_query: str = ""
    #: Facts that the gain rests on and that were not seen, e.g. "the grid size"; confidence is then below high.
    missing: tuple[str, ...] = ()
    #: Where the check's page can be read; "" until it is reported.
    page: str = ""

    @property
    def line(self) -> int:
        """The line it begins on."""
        return self.span.line

    @property
    def end_line(self) -> int:
        """The line it ends on."""
        return self.span.end_line

    @property
    def column(self) -> int:
        """The column it begins in."""
        return self.span.column


class Vote(msgspec.Struct, frozen=True):
    """One opinion on what bounds a kernel, and why."""

    bound: BottleneckClass
    confidence: Confidence
    reason: str
    evidence: tuple[Observation, ...] = ()


class Bottleneck(msgspec.Struct, frozen=True):
    """What bounds a kernel: two votes and what they come to.

    `bound` is "unknown" with the reason where evidence does not decide. Disagreement is kept in the two
    votes and said in `reason`; neither overrules the other in silence.
    """

    bound: BottleneckClass = msgspec.field(name="class")
    confidence: Confidence
    reason: str
    #: What the algorithm allows (operations and least bytes).
    analytic: Vote | None = None
    #: What the hardware did (needs timing or counters).
    measured: Vote | None = None
    #: Operations per byte of device memory traffic, where known.
    intensity: float | None = None
    #: Operations per byte at which this GPU turns from memory- to compute-bound.
    ridge: float | None = None
    evidence: tuple[Observation, ...] = ()


def count(number: int, noun: str, plural: str = "") -> str:
    """ "1 block", "2 blocks"; `plural` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
