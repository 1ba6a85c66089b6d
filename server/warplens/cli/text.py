"""Reports for people in a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from warplens.service.report import FileReport, FindingReport, KernelReport, Report
from warplens_tools.collect.sanitizer import Fault
from warplens_tools.errors import InputError
from warplens_tools.evidence import LaunchTiming, Observation
from warplens_tools.text import SourceText

_COLOURS = {"error": "bold red", "warning": "yellow", "information": "cyan", "hint": "dim"}


def print_report(console: Console, report: Report) -> None:
    """Kernels, findings with their evidence, then what could not be known."""
    for file in report.files:
        _print_file(console, file)
    if report.unknown:
        console.print(Text("Not known", style="bold"))
        for unknown in report.unknown:
            remedy = f" → {unknown.remedy}" if unknown.remedy else ""
            console.print(Text(f"  {unknown.what}: {unknown.why}{remedy}"))
    count = sum(len(file.findings) for file in report.files)
    kernels = sum(len(file.kernels) for file in report.files)
    console.print(Text(f"{_count(count, 'finding')} in {_count(kernels, 'kernel')}", style="bold"))


def _print_file(console: Console, file: FileReport) -> None:
    console.print(Text(file.path, style="bold underline"))
    text = _source(file.path)
    for finding in file.findings:
        if not finding.kernel:
            _print_finding(console, finding, text)
    if not file.kernels:
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
    line.append(bottleneck.bound, style="magenta")
    if bottleneck.bound != "unknown":
        line.append(f" bound, {bottleneck.confidence} confidence")
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
    parts += [f"{_count(timing.launches, 'launch', 'launches')}"]
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


def _print_finding(console: Console, finding: FindingReport, text: SourceText | None) -> None:
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
        g = finding.gain
        console.print(
            Text(
                f"      expect    {g.estimate:g}x ({g.low:g}x to {g.high:g}x), {finding.confidence} confidence"
            )
        )
    if finding.guidance:
        console.print(Text(f"      do        {finding.guidance}"))
    for fix in finding.fixes:
        console.print(Text(f"      fix       {fix.title} ({fix.status})"))


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
        return SourceText.read(Path(path))
    except InputError:
        return None


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
