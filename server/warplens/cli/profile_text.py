# SPDX-License-Identifier: Apache-2.0
"""A profile for people in a terminal: the findings, then the roofline, stalls, lines and timeline as tables."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warplens.cli.text import print_report
from warplens.service.profile_report import LineProfile, ProfileReport
from warplens.service.report import Report
from warplens_tools.errors import InputError
from warplens_tools.evidence import Advice, TimelineEvidence
from warplens_tools.roofline.model import LEVELS, Reach
from warplens_tools.roofline.svg import si
from warplens_tools.text import SourceText

#: Cells of a bar; a roof fully reached fills it.
_BAR = 24
#: Stall reasons below this share are noise of the sampling.
_LEAST_SHARE = 0.02


def print_profile(console: Console, report: Report) -> None:
    """The measured sections of every kernel, then what `check` prints."""
    for file in report.files:
        text = _source(file.path)
        for kernel in file.kernels:
            if kernel.profile is not None:
                _print_kernel(console, kernel.qualified_name, kernel.profile, text)
        if file.timeline is not None:
            _print_timeline(console, file.timeline)
    print_report(console, report)


def _print_kernel(console: Console, name: str, profile: ProfileReport, text: SourceText | None) -> None:
    console.print(Text(name, style="bold underline"))
    console.print(Text(f"  {_headline(profile)}", style="dim"))
    if profile.roofline is not None:
        _show(console, _roofs(profile.roofline.reaches))
    stalls = {reason: share for reason, share in profile.stalls.items() if share >= _LEAST_SHARE}
    if stalls:
        _show(console, _bars("stalled warps wait on", stalls))
    if profile.lines:
        _show(console, _lines(profile.lines, text))
    for advice in profile.advice:
        console.print(Text(f"  Nsight Compute: {advice_line(advice)}"))
    console.print()


def advice_line(advice: Advice) -> str:
    """A rule of Nsight Compute in its own words, with its own estimate."""
    saves = (
        ""
        if advice.speedup_percent is None
        else f" (its estimate: {advice.speedup_percent:.3g} % of the time)"
    )
    return f"{advice.rule}: {' '.join(advice.message.split())}{saves}"


def _headline(profile: ProfileReport) -> str:
    parts = [profile.gpu, profile.origin + (f" ({Path(profile.report).name})" if profile.report else "")]
    if profile.duration_ns is not None:
        parts.append(
            f"{si(profile.duration_ns * 1e-9)}s" if profile.duration_ns >= 1e9 else _time(profile.duration_ns)
        )
    parts.append(f"grid {_extent(profile.grid)}, block {_extent(profile.block)}")
    if profile.launches > 1:
        parts.append(f"one of {profile.launches} launches")
    if profile.passes is not None:
        parts.append(f"{profile.passes} replay passes")
    return " · ".join(parts)


def _roofs(reaches: tuple[Reach, ...]) -> Table:
    table = _table("roof", "reached", "of", "", "share", "headroom", "ceiling")
    for reach in reaches:
        label = LEVELS.get(reach.roof, reach.roof.replace("_", " "))  # type: ignore[call-overload]
        headroom = f"{reach.headroom:.2f}x" if reach.headroom and reach.headroom < 100 else "over 100x"
        table.add_row(
            label,
            f"{si(reach.achieved)}{reach.unit}",
            f"{si(reach.ceiling)}{reach.unit}",
            _bar(reach.share),
            f"{reach.share:.1%}",
            headroom,
            reach.kind,
        )
    return table


def _bars(title: str, shares: dict[str, float]) -> Table:
    table = _table(title, "", "share")
    for name, share in shares.items():
        table.add_row(name.replace("_", " "), _bar(share), f"{share:.1%}")
    return table


def _lines(lines: tuple[LineProfile, ...], text: SourceText | None) -> Table:
    table = _table("line", "stalls", "mostly", "sectors", "wavefronts", "source")
    for line in lines:
        source = text.line_text(line.line).strip() if text is not None else ""
        table.add_row(
            str(line.line),
            "" if line.share is None else f"{line.share:.1%}",
            line.stall.replace("_", " "),
            _excess(line.sectors, line.ideal_sectors),
            _excess(line.wavefronts, line.ideal_wavefronts),
            Text(source[:80], style="green"),
        )
    return table


def _excess(actual: float | None, ideal: float | None) -> str:
    """How many times the least that would do; "" where nothing was accessed."""
    if not actual or not ideal:
        return ""
    return f"{actual / ideal:.1f}x least" if actual > ideal else "least"


def _print_timeline(console: Console, timeline: TimelineEvidence) -> None:
    console.print(Text("program timeline", style="bold underline"))
    busy = timeline.busy_ns / timeline.span_ns if timeline.span_ns else 0.0
    idle = ", ".join(f"{cause} {_time(ns)}" for cause, ns in timeline.idle_ns.items())
    head = f"  {timeline.gpu_name} · {timeline.origin} · device busy {busy:.0%} of {_time(timeline.span_ns)}"
    console.print(Text(head + (f" · idle: {idle}" if idle else ""), style="dim"))
    table = _table("activity", "count", "total", "detail")
    for kernel in timeline.kernels[:8]:
        table.add_row(
            kernel.name.split("(")[0],
            str(kernel.launches),
            _time(kernel.total_ns),
            f"median {_time(kernel.median_ns)}",
        )
    for transfer in timeline.transfers:
        rate = transfer.bytes / transfer.total_ns * 1e9 if transfer.total_ns else 0.0
        detail = f"{transfer.host_memory} {si(rate)}B/s, {transfer.small_count} small, {transfer.serial_count} serial"
        table.add_row(
            f"copy {transfer.direction}", str(transfer.count), _time(transfer.total_ns), detail.strip()
        )
    for call in timeline.synchronisations[:4]:
        table.add_row(f"wait in {call.name}", str(call.count), _time(call.total_ns), "host time")
    if timeline.launches is not None:
        each = timeline.launches.total_ns / timeline.launches.count
        table.add_row(
            "launch calls",
            str(timeline.launches.count),
            _time(timeline.launches.total_ns),
            f"{_time(each)} each",
        )
    _show(console, table)
    console.print()


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), show_header=True, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _show(console: Console, table: Table) -> None:
    """Print a table; only its last column gives way where the terminal is narrow."""
    for column in table.columns[:-1]:
        column.min_width = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
    console.print(table, crop=False)


def _bar(share: float) -> str:
    cells = min(max(share, 0.0), 1.0) * _BAR
    return "█" * int(cells) + ("▌" if cells % 1 >= 0.5 else "")


def _extent(extent: tuple[int, int, int]) -> str:
    return "x".join(str(n) for n in extent[: 3 if extent[2] > 1 else 2 if extent[1] > 1 else 1])


def _time(ns: float) -> str:
    if ns >= 1e6:
        return f"{ns / 1e6:.3g} ms"
    return f"{ns / 1e3:.3g} µs" if ns >= 1e3 else f"{ns:.0f} ns"


def _source(path: str) -> SourceText | None:
    try:
        return SourceText.read(Path(path))
    except InputError:
        return None
