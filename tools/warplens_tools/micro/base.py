# SPDX-License-Identifier: Apache-2.0
"""What a micro-profiling tool is.

One file per tool, listed in `warplens_tools.micro.registry` (other distributions join through the
entry-point group `warplens.micro`). The module's docstring is the tool's page. Stage 1 classifies the
kernel (`warplens_tools.roofline.classify`), stage 2 runs every tool relevant to the class, in list order,
deterministically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from warplens_tools.evidence import KernelEvidence, Observation, Tier
from warplens_tools.finding import (
    BottleneckClass,
    Confidence,
    Finding,
    Fix,
    Gain,
    RelatedSpan,
    Severity,
)
from warplens_tools.text import Span
from warplens_tools.view import KernelView

Check = Callable[[KernelView], Iterable[Finding]]
#: What a higher tier says of a finding: the finding confirmed or refined, or None where it is contradicted.
Judge = Callable[[KernelView, Finding], Finding | None]

#: Gain from which what counters alone show is told: no code was read that says why.
SPOTTED = 1.2


class MicroTool(msgspec.Struct, frozen=True):
    """One micro-profiling tool. `check` yields nothing where the evidence it needs is absent."""

    code: str
    slug: str
    title: str
    #: Tiers of which at least one must be present for it to say anything.
    tiers: Sequence[Tier]
    #: Classes of bottleneck it is relevant to; "mixed" and "unknown" kernels get every tool.
    relevant: Sequence[BottleneckClass]
    check: Check
    #: Asked about each finding where the kernel was measured; it returns the finding as it is where the
    #: measurement does not tell.
    judge: Judge | None = None
    #: What counters alone show of the cause. Asked where no tool has a warning of the kernel, and judged as well.
    spot: Check | None = None

    def finding(
        self,
        view: KernelView,
        span: Span,
        *,
        severity: Severity,
        confidence: Confidence,
        message: str,
        guidance: str,
        evidence: tuple[Observation, ...],
        gain: Gain | None = None,
        fixes: tuple[Fix, ...] = (),
        related: tuple[RelatedSpan, ...] = (),
        index_query: str = "",
    ) -> Finding:
        """A finding signed by this tool on the view's kernel; its parts are those of `Finding`."""
        return Finding(
            self.code, self.slug, view.kernel.qualified_name, span, severity, confidence, message, guidance,
            evidence, gain, fixes, related, index_query,
        )  # fmt: skip

    def run(self, view: KernelView) -> list[Finding]:
        """The findings of `check` that what was measured does not contradict."""
        return self._judged(view, self.check(view))

    def run_spot(self, view: KernelView) -> list[Finding]:
        """The warnings of `spot` that are worth one."""
        found = self._judged(view, self.spot(view)) if self.spot is not None else []
        return [f for f in found if f.severity == "warning" and f.gain and f.gain.estimate >= SPOTTED]

    def _judged(self, view: KernelView, found: Iterable[Finding]) -> list[Finding]:
        if self.judge is None or not is_measured(view.evidence):
            return list(found)
        return [told for finding in found if (told := self.judge(view, finding)) is not None]


def is_measured(evidence: KernelEvidence) -> bool:
    """Whether anything was observed while the kernel ran."""
    return not (evidence.timing is None and evidence.counters is None and evidence.timeline is None)
