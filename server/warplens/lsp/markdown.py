# SPDX-License-Identifier: Apache-2.0
"""Evidence as Markdown, for hovers and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warplens.lsp.view import View
from warplens.lsp.words import BEFORE_EDIT
from warplens.present import words
from warplens.service.report import KernelReport, ResourceReport
from warplens_tools.collect.doctor import Check
from warplens_tools.evidence import Observation, Unknown
from warplens_tools.finding import Finding


def kernel_page(view: View, kernel: KernelReport, uri: str = "") -> str:
    """All that is known of a kernel; with the file's URI its findings link to their lines."""
    stale = BEFORE_EDIT if kernel.qualified_name in view.edited else ""
    bottleneck = kernel.bottleneck
    parts = [
        f"### `{kernel.qualified_name}`: {words.bound(kernel)}{stale}",
        f"{bottleneck.reason} (confidence {bottleneck.confidence})" if bottleneck.reason else "",
        evidencetable(bottleneck.evidence),
        _resources(kernel.resources) if kernel.resources is not None else "",
        "" if kernel.launch_lines else "No launch of this kernel in this file, so its block size is unknown.",
        *(finding_section(f, uri=uri) for f in view.findings_of(kernel)),
        unknown_list(_concerning(view, kernel)),
    ]
    return "\n\n".join(part for part in parts if part)


def finding_section(finding: Finding, *, message: bool = True, uri: str = "") -> str:
    """One finding with its evidence; without its message where the editor already shows that."""
    link = f"[{finding.code}]({finding.page})" if finding.page else finding.code
    head = [
        f"**{link} {words.title(finding)}**",
        words.gain(finding.gain) if finding.gain is not None else "",
        words.confidence(finding),
        f"[line {finding.line}]({uri}#L{finding.line})" if uri else "",
    ]
    parts = [
        " · ".join(part for part in head if part),
        finding.message if message else "",
        finding.guidance,
        evidencetable(finding.evidence),
    ]
    return "\n\n".join(part for part in parts if part)


def evidencetable(evidence: Sequence[Observation]) -> str:
    """What was seen, against what, by which tool; "" where nothing was."""
    rows = [
        (
            o.metric,
            f"{words.number(o.value)} {o.unit}".strip(),
            f"{words.number(o.threshold)} {o.source and f'({o.source})'}".strip()
            if o.threshold is not None
            else o.source,
            f"{o.origin} ({o.tier})",
        )
        for o in evidence
    ]
    return table(("metric", "value", "threshold", "seen by"), rows) if rows else ""


def unknown_list(unknown: Iterable[Unknown]) -> str:
    """What could not be established, and what would."""
    lines = [
        f"- {flat(u.what)}: {flat(u.why)}" + (f" *{flat(u.remedy)}*" if u.remedy else "") for u in unknown
    ]
    return "**Not known**\n\n" + "\n".join(lines) if lines else ""


def diagnosis(checks: Iterable[Check]) -> str:
    """The doctor's answer: what is missing first."""
    order = ("missing", "broken", "warning", "ok")
    checks = sorted(checks, key=lambda check: order.index(check.status))
    lacking = [check for check in checks if check.status in ("missing", "broken")]
    rows = [
        (check.name, check.status, check.text, "; ".join(filter(None, (check.takes_away, check.remedy))))
        for check in checks
    ]
    head = (
        f"**{len(lacking)} of {len(rows)} are missing or broken.**" if lacking else "**Nothing is missing.**"
    )
    return f"{head}\n\n" + table(("what", "state", "found", "what it takes away, and what to do"), rows)


def _concerning(view: View, kernel: KernelReport) -> list[Unknown]:
    """What is not known of this kernel, or of the file as a whole; not of its other kernels."""
    others = [k.qualified_name for k in view.report.kernels if k.qualified_name != kernel.qualified_name]
    return [u for u in view.unknown if not any(u.what.endswith(f" {name}") for name in others)]


def _resources(resources: ResourceReport) -> str:
    figures = [
        ("registers per thread", resources.registers, ""),
        ("shared memory per block", resources.shared_bytes, "B"),
        ("stack", resources.stack_bytes, "B"),
        ("spill stores", resources.spill_store_bytes, "B"),
        ("spill loads", resources.spill_load_bytes, "B"),
    ]
    rows = [
        (name, f"{words.number(value)} {unit}".strip()) for name, value, unit in figures if value is not None
    ]
    note = words.occupancy(resources)
    head = f"Compiled for {resources.arch}{words.of_instantiation(resources)}"
    parts = [head, table(("resource", "value"), rows) if rows else "", note[:1].upper() + note[1:]]
    return "\n\n".join(part for part in parts if part)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(flat(cell) for cell in line) + " |" for line in lines)


def flat(cell: str) -> str:
    """A cell's text on one line, with nothing that would end the cell."""
    return " ".join(cell.split()).replace("|", "\\|")
