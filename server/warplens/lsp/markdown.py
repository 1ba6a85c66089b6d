# SPDX-License-Identifier: Apache-2.0
"""Evidence as Markdown, for hovers and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warplens.lsp.view import View
from warplens.lsp.words import BEFORE_EDIT
from warplens.present import words
from warplens.present.abilities import abilities, summary
from warplens.service.report import KernelReport, ResourceReport
from warplens_tools.collect.doctor import Check
from warplens_tools.evidence import Observation, Unknown
from warplens_tools.finding import Finding


def kernel_page(view: View, kernel: KernelReport, uri: str) -> str:
    """All that is known of a kernel: what bounds it, its findings with links to their lines, what that rests on."""
    bottleneck, resources = kernel.bottleneck, kernel.resources
    basis = evidencetable(bottleneck.evidence)
    parts = [
        _headline(view, kernel, "##"),
        *(finding_section(f, uri=uri) for f in view.findings_of(kernel)),
        f"### What bounds it\n\n{basis}" if basis else "",
        f"### What it takes\n\n{_resources(resources)}" if resources is not None else "",
        "" if kernel.launch_lines else "No launch of this kernel in this file, so its block size is unknown.",
        unknown_list(_concerning(view, kernel)),
    ]
    return "\n\n".join(part for part in parts if part)


def kernel_card(view: View, kernel: KernelReport) -> str:
    """A kernel in a few lines, for a hover: its findings have hovers of their own."""
    findings = [
        f"- {_linked(f)}, line {f.line}" + (f": {words.gain(f.gain)}" if f.gain is not None else "")
        for f in view.findings_of(kernel)
    ]
    parts = [
        _headline(view, kernel, "####"),
        "\n".join(findings),
        _resources(kernel.resources) if kernel.resources is not None else "",
        "" if kernel.launch_lines else "No launch of this kernel in this file, so its block size is unknown.",
        unknown_list(_concerning(view, kernel)),
    ]
    return "\n\n".join(part for part in parts if part)


def _headline(view: View, kernel: KernelReport, level: str) -> str:
    stale = BEFORE_EDIT if kernel.qualified_name in view.edited else ""
    head = f"{level} `{kernel.qualified_name}`: {words.bound(kernel)}{stale}"
    reason, confidence = kernel.bottleneck.reason, kernel.bottleneck.confidence
    return f"{head}\n\n{_sentence(reason)} {_sentence(f'{confidence} confidence')}" if reason else head


def finding_section(finding: Finding, *, message: bool = True, uri: str = "") -> str:
    """One finding with its evidence; without its message where the editor already shows that.

    With the file's URI it is a section of a page, which links to the finding's line.
    """
    sure = words.confidence(finding)
    head = [
        words.gain(finding.gain) if finding.gain is not None else "",
        sure if finding.gain is not None else sure[:1].upper() + sure[1:],
        f"[line {finding.line}]({uri}#L{finding.line})" if uri else "",
    ]
    parts = [
        f"### {_linked(finding)}" if uri else f"**{_linked(finding)}**",
        " · ".join(part for part in head if part),
        finding.message if message else "",
        f"**What to do.** {finding.guidance}" if finding.guidance else "",
        evidencetable(finding.evidence),
    ]
    return "\n\n".join(part for part in parts if part)


def _linked(finding: Finding) -> str:
    code = f"[{finding.code}]({finding.page})" if finding.page else finding.code
    return f"{code} {words.title(finding)}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def evidencetable(evidence: Sequence[Observation]) -> str:
    """What was seen, against what where there is a threshold, by which tool; "" where nothing was."""
    bounds = any(o.threshold is not None or o.source for o in evidence)
    head = ("what", "seen", *(("against",) if bounds else ()), "by")
    rows = [
        (o.metric, words.quantity(o, o.value), *((_against(o),) if bounds else ()), f"{o.origin} ({o.tier})")
        for o in evidence
    ]
    return table(head, rows) if rows else ""


def _against(seen: Observation) -> str:
    if seen.threshold is None:
        return seen.source
    return f"{words.quantity(seen, seen.threshold)} {seen.source and f'({seen.source})'}".strip()


def unknown_list(unknown: Iterable[Unknown]) -> str:
    """What could not be established, and what would."""
    lines = [
        f"- {flat(u.what)}: {flat(u.why)}" + (f" *{flat(u.remedy)}*" if u.remedy else "") for u in unknown
    ]
    return "**Not known**\n\n" + "\n".join(lines) if lines else ""


def diagnosis(checks: Iterable[Check], buttons: Iterable[str] = ()) -> str:
    """The doctor's answer: what works here and what does not, what would change that, and what was looked at.

    `buttons` are links to what brings some of it.
    """
    checks = list(checks)
    lacking = [check for check in checks if check.status != "ok"]
    can = [(a.what, f"not here: {a.why}" if a.lacking else "works") for a in abilities(checks)]
    parts = [f"**{summary(checks)}**", table(("what Warplens does", "on this machine"), can)]
    if lacking:
        rows = [(c.name, c.takes_away or "nothing", c.remedy) for c in lacking]
        listed = table(("what is lacking", "what that takes away", "how to get it"), rows)
        parts.append(f"### What would add to that\n\n{listed}")
    parts.append(" · ".join(f"**{button}**" for button in buttons))
    looked = table(("what", "state", "found"), [(c.name, c.status, c.text) for c in checks])
    parts.append(f"### What was looked at\n\n{looked}")
    return "\n\n".join(part for part in parts if part)


def _concerning(view: View, kernel: KernelReport) -> list[Unknown]:
    """What is not known of this kernel, or of the file as a whole; not of its other kernels."""
    others = [k.qualified_name for k in view.report.kernels if k.qualified_name != kernel.qualified_name]
    return [u for u in view.unknown if not any(u.what.endswith(f" {name}") for name in others)]


def _resources(resources: ResourceReport) -> str:
    """A kernel's resources in two sentences."""
    spilled = (resources.spill_store_bytes or 0) + (resources.spill_load_bytes or 0)
    figures = [
        f"{resources.registers} registers per thread" if resources.registers is not None else "",
        f"{words.number(resources.shared_bytes)} B shared memory per block" if resources.shared_bytes else "",
        f"{words.number(resources.stack_bytes)} B stack" if resources.stack_bytes else "",
        f"{words.number(spilled)} B spilled" if spilled else "no spills",
    ]
    listed = ", ".join(figure for figure in figures if figure)
    compiled = f"Compiled for {resources.arch}{words.of_instantiation(resources)}: {listed}."
    note = words.occupancy(resources)
    return f"{compiled} {_sentence(note)}" if note else compiled


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(flat(cell) for cell in line) + " |" for line in lines)


def flat(cell: str) -> str:
    """A cell's text on one line, with nothing that would end the cell."""
    return " ".join(cell.split()).replace("|", "\\|")
