# SPDX-License-Identifier: Apache-2.0
"""Reports for people in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from warplens.present.words import bound, confidence, gain
from warplens.service.fixes import needs_consent
from warplens.service.report import FileReport, KernelReport, Report
from warplens_tools.collect.sanitizer import Fault
from warplens_tools.encoded import REPLACEMENT
from warplens_tools.errors import InputError
from warplens_tools.evidence import LaunchTiming, Observation
from warplens_tools.finding import Finding, Fix, count
from warplens_tools.text import SourceText

_COLOURS = {"error": "bold red", "warning": "yellow", "information": "cyan", "hint": "dim"}


def print_report(
    console: Console,
    report: Report,
    *,
    old: int = 0,
    texts: Mapping[str, SourceText] | None = None,
    only_new: bool = False,
) -> None:
    """Kernels, findings with their evidence, then what could not be known; `old` findings a baseline held.

    `texts` are the files as the report is of them, where they are not as they were. With `only_new` kernels
    without a finding are left out, and of what is not known all but what failed.
    """
    summary = summary_lines(report, old)
    if only_new:
        report = _with_findings(report)
    several = len({file.arch for file in report.files}) > 1
    for file in report.files:
        _print_file(console, file, (texts or {}).get(file.path) or _source(file.path), several=several)
    if report.unknown:
        console.print(Text("Not known", style="bold"))
        for unknown in report.unknown:
            remedy = f" → {unknown.remedy}" if unknown.remedy else ""
            failed = "failed: " if unknown.failed else ""
            console.print(Text(f"  {failed}{unknown.what}: {unknown.why}{remedy}"))
    for line in summary:
        console.print(Text(line, style="bold"))


def _with_findings(report: Report) -> Report:
    """The files and kernels that a finding or a fault speaks of, and what failed."""
    files = []
    for file in report.files:
        named = {finding.kernel for finding in file.findings}
        kernels = tuple(kernel for kernel in file.kernels if kernel.qualified_name in named)
        if file.findings or file.faults:
            files.append(msgspec.structs.replace(file, kernels=kernels))
    failed = tuple(unknown for unknown in report.unknown if unknown.failed)
    return msgspec.structs.replace(report, files=tuple(files), unknown=failed)


def summary_lines(report: Report, old: int = 0) -> list[str]:
    """What was looked at and found, what was fixed, and what was left out."""
    findings = [f for file in report.files for f in file.findings]
    kernels = {(file.path, k.qualified_name) for file in report.files for k in file.kernels}
    lines = [f"{count(len(findings), 'finding')} in {count(len(kernels), 'kernel')}"]
    if old:
        lines[0] += f", and {old} of the baseline that {'is' if old == 1 else 'are'} not shown"
    fixed = sum(any(fix.applied for fix in f.fixes) for f in findings)
    if fixed:
        lines.append(f"{count(fixed, 'finding')} fixed (unproven); the lines above are of the text before")
    lines += [f"skipped by {why}: {_some(names)}" for why, names in _skipped(report).items()]
    return lines


def _skipped(report: Report) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for skipped in report.skipped:
        by_reason.setdefault(skipped.why, []).append(skipped.path)
    return by_reason


def _some(names: list[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _print_file(console: Console, file: FileReport, text: SourceText | None, *, several: bool) -> None:
    title = Text(file.path, style="bold underline")
    console.print(title.append(f" on {file.arch}", style="not underline") if several else title)
    for finding in file.findings:
        if not finding.kernel:
            _print_finding(console, finding, text)
    if not file.kernels and not file.findings:
        console.print(Text("  no kernel in this file", style="dim"))
    for kernel in file.kernels:
        _print_kernel(console, kernel)
        for finding in file.findings:
            if finding.kernel == kernel.qualified_name:
                _print_finding(console, finding, text)
    for fault in file.faults or ():
        _print_fault(console, fault, file.path)
    if file.faults == ():
        console.print(Text("  compute-sanitizer reports no fault", style="dim"))
    console.print()


def _print_fault(console: Console, fault: Fault, path: str) -> None:
    head = Text("  ")
    if fault.place is not None:
        elsewhere = "" if fault.place.path == path else f"{fault.place.path}:"
        head.append(f"{elsewhere}{fault.place.line} ")
    head.append("error", style=_COLOURS["error"])
    head.append(f" {fault.tool}: ", style="bold")
    head.append(fault.message + (f" in {fault.function}" if fault.function else ""))
    console.print(head)
    for place in fault.others:
        console.print(Text(f"      other access  {place.path}:{place.line}", style="dim"))
    told = "; ".join(filter(None, (fault.detail, f"{fault.count} times" if fault.count > 1 else "")))
    if told:
        console.print(Text(f"      {told}", style="dim"))


def _print_kernel(console: Console, kernel: KernelReport) -> None:
    bottleneck = kernel.bottleneck
    line = Text("  ")
    line.append(kernel.qualified_name, style="bold")
    line.append(f" (line {kernel.line}): ")
    line.append(bound(kernel), style="magenta")
    if bottleneck.bound != "unknown":
        line.append(f", {bottleneck.confidence} confidence")
    console.print(line)
    console.print(Text(f"    {bottleneck.reason}", style="dim"))
    if kernel.resources is not None:
        console.print(Text(f"    {resources_line(kernel)}", style="dim"))
    if kernel.timing is not None:
        console.print(Text(f"    {timing_line(kernel.timing)}", style="dim"))


def timing_line(timing: LaunchTiming) -> str:
    """Median duration with its interval, launches and share of kernel time in one line."""
    parts = [f"{timing.median_ns / 1e3:.4g} µs a launch"]
    parts += [f"95 % interval {timing.low_ns / 1e3:.4g} to {timing.high_ns / 1e3:.4g} µs"]
    parts += [f"{count(timing.launches, 'launch', 'launches')}"]
    parts += [] if timing.share is None else [f"{timing.share:.0%} of kernel time"]
    return " · ".join([*parts, timing.origin])


def resources_line(kernel: KernelReport) -> str:
    """Registers, shared memory, spills and occupancy in one line."""
    r = kernel.resources
    if r is None:
        return ""
    parts = [r.arch]
    if r.registers is not None:
        parts.append(f"{r.registers} registers")
    if r.shared_bytes:
        parts.append(f"{r.shared_bytes} B shared")
    if r.spill_store_bytes or r.spill_load_bytes:
        parts.append(f"spills {r.spill_store_bytes} B stored, {r.spill_load_bytes} B loaded")
    if r.occupancy is not None:
        by = f" by {r.occupancy_limiter}" if r.occupancy_limiter and r.occupancy < 1 else ""
        parts.append(f"occupancy {r.occupancy:.0%} at {r.block_threads} threads a block{by}")
    if r.instantiations > 1:
        parts.append(f"worst of {r.instantiations}: {r.instantiation}")
    return " · ".join(parts)


def _print_finding(console: Console, finding: Finding, text: SourceText | None) -> None:
    head = Text(f"    {finding.line}:{finding.column} ")
    head.append(finding.severity, style=_COLOURS[finding.severity])
    head.append(f" {finding.code} {finding.slug}: ", style="bold")
    head.append(finding.message)
    console.print(head)
    if text is not None:
        console.print(Text(f"      | {text.line_text(finding.line).strip()}", style="green"))
    for seen in finding.evidence:
        console.print(Text(f"      evidence  {observation_line(seen)}", style="dim"))
    if finding.gain is not None and finding.gain.estimate > 1.0:
        console.print(Text(f"      gain      {gain(finding.gain)}, {confidence(finding)}"))
    if finding.guidance:
        console.print(Text(f"      do        {finding.guidance}"))
    for fix in finding.fixes:
        console.print(Text(f"      fix       {fix_line(finding, fix)}"))
    where = f" · {finding.page}" if finding.page else ""
    console.print(Text(f"      more      warplens explain {finding.code}{where}", style="dim"))


def fix_line(finding: Finding, fix: Fix) -> str:
    """ "Pad the rows of tile (applied, unproven); results may change: ..."."""
    consent = needs_consent(finding, fix)
    state = f"applied, {fix.status}" if fix.applied else fix.status
    asks = " (--fix-all takes it)" if consent and not fix.applied else ""
    return f"{fix.title} ({state})" + (f"; {consent}{asks}" if consent else "")


def observation_line(seen: Observation) -> str:
    """ "spill stores 1564 byte/thread (threshold 0, ptxas -v) — binary, nvcc 13.0.88"."""
    value = f"{seen.value:g}" if isinstance(seen.value, float) else seen.value
    text = f"{seen.metric} {value}{' ' + seen.unit if seen.unit else ''}"
    if seen.threshold is not None:
        limit = f"{seen.threshold:g}" if isinstance(seen.threshold, float) else seen.threshold
        text += f" (against {limit}{', ' + seen.source if seen.source else ''})"
    return f"{text} [{seen.tier}, {seen.origin}]"


def _source(path: str) -> SourceText | None:
    try:
        return displayed(Path(path).read_bytes())
    except (InputError, OSError):
        return None


def displayed(data: bytes) -> SourceText:
    """A text for people: bytes that are no UTF-8 are taken for Latin-1, which has a character for each.

    Raises:
        InputError: the bytes are of a binary file.
    """
    text = SourceText.decode(data)
    return (
        SourceText(data.decode("latin-1")) if REPLACEMENT in text.text and text.encoding == "utf-8" else text
    )
