# SPDX-License-Identifier: Apache-2.0
"""From evidence to findings: stage 1 classifies each kernel, stage 2 runs every relevant tool."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.dependencies import Dependencies
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.errors import CancelledError
from warplens_tools.evidence import KernelEvidence, Tier
from warplens_tools.finding import SEVERITIES, Bottleneck, Confidence, Finding
from warplens_tools.kernel import KernelView
from warplens_tools.memo import Analysed, KernelMemo
from warplens_tools.micro.base import MicroTool
from warplens_tools.process.cancel import checkpoint
from warplens_tools.roofline.classify import classify
from warplens_tools.settle import one_a_cause, one_a_place, one_warning, settle
from warplens_tools.text import SourceText

log = logging.getLogger(__name__)

#: Orders findings of equal gain; also shrinks the gain of what is less sure when ranking.
CONFIDENCE_WEIGHT: dict[Confidence, float] = {"high": 1.0, "medium": 0.7, "low": 0.4}


class KernelAnalysis(msgspec.Struct, frozen=True):
    """What is known of one kernel. Findings come best first."""

    kernel: Kernel
    bottleneck: Bottleneck
    findings: tuple[Finding, ...]
    evidence: KernelEvidence
    #: Array accesses that were not judged, for there are too many.
    left_out: int = 0


def analyse_file(
    model: SourceModel,
    text: SourceText,
    gpu: Gpu,
    evidence: Mapping[str, KernelEvidence],
    tools: Sequence[type[MicroTool]],
    memo: KernelMemo | None = None,
) -> tuple[KernelAnalysis, ...]:
    """Both stages for every kernel of a file.

    `evidence` is by qualified name; kernels absent from it have only their source, and with a `memo` those
    that are as they were are not analysed again.
    """
    if memo is None or evidence:
        found = [
            analyse_kernel(
                kernel, model, text, gpu, evidence.get(kernel.qualified_name, KernelEvidence()), tools
            )
            for kernel in model.kernels
        ]
    else:
        rests_on = memo.dependencies(parse_tree(text), model, gpu)
        found = [_remembered(kernel, model, text, gpu, tools, memo, rests_on) for kernel in model.kernels]
    kept = one_warning(one_a_place([analysis.findings for analysis in found]), text)
    return tuple(
        msgspec.structs.replace(analysis, findings=findings)
        for analysis, findings in zip(found, kept, strict=True)
    )


def _remembered(
    kernel: Kernel,
    model: SourceModel,
    text: SourceText,
    gpu: Gpu,
    tools: Sequence[type[MicroTool]],
    memo: KernelMemo,
    rests_on: Dependencies,
) -> KernelAnalysis:
    basis = rests_on.basis(kernel)
    known = memo.find(basis, kernel, text)
    if known is not None:
        return KernelAnalysis(kernel, known.bottleneck, known.findings, KernelEvidence(), known.left_out)
    fresh = analyse_kernel(kernel, model, text, gpu, KernelEvidence(), tools)
    memo.keep(basis, kernel, text, Analysed(fresh.bottleneck, fresh.findings, fresh.left_out))
    return fresh


def analyse_kernel(
    kernel: Kernel,
    model: SourceModel,
    text: SourceText,
    gpu: Gpu,
    evidence: KernelEvidence,
    tools: Sequence[type[MicroTool]],
) -> KernelAnalysis:
    """Both stages for one kernel."""
    view = KernelView(kernel, model, text, gpu, evidence)
    view = view.classified(classify(view))
    findings: list[Finding] = []
    relevant = relevant_tools(view, tools)
    for tool in relevant:
        findings += _settled(tool, view, _guarded(tool, view, tool.run))
    if evidence.counters is not None and not any(f.severity == "warning" for f in findings):
        for tool in relevant:
            findings += _settled(tool, view, _guarded(tool, view, tool.run_counters))
    found = one_a_cause(rank(findings), {t.slug: t.family for t in relevant})
    return KernelAnalysis(kernel, view.bottleneck, found, evidence, view.accesses_left_out)


def _settled(tool: type[MicroTool], view: KernelView, findings: Sequence[Finding]) -> list[Finding]:
    return [settle(view, f, of_program=tool.of_program, of_launch=tool.of_launch) for f in findings]


def relevant_tools(view: KernelView, tools: Sequence[type[MicroTool]]) -> list[type[MicroTool]]:
    """Tools relevant to the class whose evidence is present; mixed and unknown kernels get all of those.

    Where the two votes differ, the tools of both run: what was measured withdraws a finding by its own judge.
    """
    present = tiers_present(view.evidence)
    votes = (view.bottleneck.analytic, view.bottleneck.measured)
    bounds = {view.bottleneck.bound, *(vote.bound for vote in votes if vote is not None)}
    every = bounds & {"mixed", "unknown"}
    return [tool for tool in tools if (every or bounds & set(tool.relevant)) and present & set(tool.tiers)]


def tiers_present(evidence: KernelEvidence) -> set[Tier]:
    """Tiers this kernel has evidence of; `source` always."""
    present: set[Tier] = {"source"}
    if evidence.compiled:
        present.add("binary")
    if evidence.timing is not None:
        present.add("timing")
    if evidence.counters is not None:
        present.add("counters")
    if evidence.timeline is not None:
        present.add("timeline")
    return present


def rank(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Best first: severity, then expected gain times confidence, then line; stable."""
    return tuple(sorted(findings, key=_rank_key))


def _rank_key(finding: Finding) -> tuple[float, ...]:
    gain = (finding.gain.estimate - 1.0) if finding.gain is not None else 0.0
    quiet = SEVERITIES.index(finding.severity) >= SEVERITIES.index("information")
    return (
        float(quiet),
        -gain * CONFIDENCE_WEIGHT[finding.confidence],
        finding.span.line,
        finding.span.column,
    )


def _guarded(
    tool: type[MicroTool], view: KernelView, run: Callable[[KernelView], list[Finding]]
) -> list[Finding]:
    """A tool that fails on strange code must not take the others with it."""
    checkpoint()
    try:
        return run(view)
    except CancelledError:
        raise
    except Exception:
        log.exception("%s failed on kernel %s of %s", tool.slug, view.kernel.name, view.model.path)
        return []
