"""What is shown of a file: the saved file's evidence, moved to the text on screen, and what typing found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from warplens.lsp.shift import LineChange, shift_lines, shift_report
from warplens.service.report import FileReport, FindingReport, KernelReport
from warplens_tools.evidence import Unknown

_Key = tuple[str, str, int, int]


class Saved(msgspec.Struct, frozen=True):
    """The last check of a saved file, in lines of the text on screen."""

    report: FileReport
    #: The source tier alone on the text the check read, to tell what the check overruled.
    source: FileReport
    #: Qualified names of the kernels whose text changed since.
    edited: frozenset[str] = frozenset()
    unknown: tuple[Unknown, ...] = ()

    def moved(self, changes: Sequence[LineChange]) -> Saved:
        """The same after edits."""
        if not changes:
            return self
        report = shift_report(self.report, changes)
        left = {kernel.qualified_name for kernel in report.kernels}
        touched = {k.qualified_name for k in self.report.kernels if _touched(k, changes)} & left
        return Saved(report, shift_report(self.source, changes), self.edited | touched, self.unknown)

    def keeping(self, before: Saved | None) -> Saved:
        """This early state of a check, with what the check before it added and overruled."""
        if before is None:
            return self
        added = {_key(f): f for f in before.report.findings if _above_source(f)}
        overruled = {_key(f) for f in before.source.findings} - {_key(f) for f in before.report.findings}
        own = {_key(f): f for f in self.report.findings if _key(f) not in overruled}
        report = msgspec.structs.replace(
            self.report,
            findings=tuple({**added, **own}.values()),
            kernels=tuple(_with_evidence(k, before.report.kernels) for k in self.report.kernels),
            tiers=before.report.tiers,
        )
        fresh = {k.qualified_name for k in self.report.kernels if k.resources is not None}
        return Saved(report, self.source, before.edited - fresh, self.unknown)


class View(msgspec.Struct, frozen=True):
    """A file as the features show it, in lines of the text on screen."""

    report: FileReport
    edited: frozenset[str] = frozenset()
    unknown: tuple[Unknown, ...] = ()

    def kernel_at(self, line: int) -> KernelReport | None:
        """The kernel whose definition holds 1-based `line`."""
        return next((k for k in self.report.kernels if k.line <= line <= k.end_line), None)

    def kernel(self, name: str) -> KernelReport | None:
        """The kernel of that qualified or plain name."""
        kernels = self.report.kernels
        return next((k for k in kernels if k.qualified_name == name), None) or next(
            (k for k in kernels if k.name == name), None
        )

    def findings_of(self, kernel: KernelReport) -> tuple[FindingReport, ...]:
        """The kernel's findings, best first."""
        return tuple(f for f in self.report.findings if f.kernel == kernel.qualified_name)


def merge(typed: FileReport | None, saved: Saved | None) -> View | None:
    """One view of what typing and the last save found; None where neither has finished.

    A finding of the source tier that the saved file's binary overruled stays away until its line is
    edited; one that the binary confirmed goes when the source tier no longer sees it.
    """
    if saved is None:
        return None if typed is None else View(typed)
    if typed is None:
        return View(saved.report, saved.edited, saved.unknown)
    source = {_key(f) for f in saved.source.findings}
    checked = {_key(f): f for f in saved.report.findings}
    now = {_key(f): f for f in typed.findings}
    kept = [
        _with_present_fixes(f, now.get(key), saved.edited)
        for key, f in checked.items()
        if key in now or key not in source
    ]
    new = [f for key, f in now.items() if key not in checked and key not in source]
    report = msgspec.structs.replace(
        saved.report,
        kernels=tuple(_with_evidence(k, saved.report.kernels) for k in typed.kernels),
        findings=(*kept, *new),
    )
    return View(report, saved.edited, saved.unknown)


def with_units(view: View | None, reports: Iterable[FileReport]) -> View | None:
    """A header's view together with what the units that include it found there."""
    for report in reports:
        if view is None:
            view = View(report)
            continue
        have = {_key(f) for f in view.report.findings}
        more = tuple(f for f in report.findings if _key(f) not in have)
        kernels = tuple(_with_evidence(k, report.kernels) for k in view.report.kernels)
        merged = msgspec.structs.replace(
            view.report, findings=view.report.findings + more, kernels=kernels or report.kernels
        )
        view = View(merged, view.edited, view.unknown)
    return view


def _key(finding: FindingReport) -> _Key:
    return finding.code, finding.kernel, finding.line, finding.column


def _above_source(finding: FindingReport) -> bool:
    return any(o.tier != "source" for o in finding.evidence)


def _touched(kernel: KernelReport, changes: Sequence[LineChange]) -> bool:
    return shift_lines(kernel.line, kernel.end_line, changes) is None


def _with_present_fixes(
    finding: FindingReport, now: FindingReport | None, edited: frozenset[str]
) -> FindingReport:
    """A fix was made for the whole kernel as it was: after an edit only a fresh one is offered."""
    if finding.kernel not in edited:
        return finding
    return msgspec.structs.replace(finding, fixes=now.fixes if now is not None else ())


def _with_evidence(kernel: KernelReport, saved: Sequence[KernelReport]) -> KernelReport:
    """The kernel where it stands now, with what the last check knows of it."""
    known = next((k for k in saved if k.qualified_name == kernel.qualified_name), None)
    if known is None or kernel.resources is not None:
        return kernel
    return msgspec.structs.replace(kernel, bottleneck=known.bottleneck, resources=known.resources)
