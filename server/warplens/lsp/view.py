# SPDX-License-Identifier: Apache-2.0
"""What is known of a file, in lines of the text on screen, and how it changes.

One rule: a finding changes only when something newer and at least as well founded says so. An edit moves what it
did not touch and marks what it did; the source tier, on a newer text, takes back or adds what it says itself, and
says nothing of what the compiler found; a check of the saved file replaces all. A text that the parser can read
less of than before is a text in the midst of typing, and takes back nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from warplens.lsp.shift import LineChange, carry_finding, carry_kernel, carry_report
from warplens.service.report import FileReport, KernelReport
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.evidence import Unknown
from warplens_tools.finding import Finding
from warplens_tools.text import SourceText

#: How well founded what is said of a kernel is: its text; what the compiler reports; its machine code, or more.
Ground = Literal[0, 1, 2]
SOURCE: Ground = 0
RESOURCES: Ground = 1
CODE: Ground = 2

_Place = tuple[str, str, int, int]


class View(msgspec.Struct, frozen=True):
    """A file as the features show it."""

    report: FileReport
    #: What the source tier last said, to tell what it takes back and what the compiler overruled.
    source: FileReport
    ground: Mapping[str, Ground]
    #: Qualified names of the kernels whose text changed since their evidence was collected.
    edited: frozenset[str] = frozenset()
    #: Findings whose own lines changed since, by `place`.
    touched: frozenset[_Place] = frozenset()
    unknown: tuple[Unknown, ...] = ()
    #: By qualified name: a kernel's text, without comments, that its evidence was collected from.
    code: Mapping[str, str] = {}

    def kernel_at(self, line: int) -> KernelReport | None:
        """The kernel whose definition holds 1-based `line`, else the one that is launched on it."""
        inside = (k for k in self.report.kernels if k.line <= line <= k.end_line)
        return next(inside, None) or next((k for k in self.report.kernels if line in k.launch_lines), None)

    def kernel(self, name: str) -> KernelReport | None:
        """The kernel of that qualified or plain name."""
        kernels = self.report.kernels
        return next((k for k in kernels if k.qualified_name == name), None) or next(
            (k for k in kernels if k.name == name), None
        )

    def findings_of(self, kernel: KernelReport) -> tuple[Finding, ...]:
        """The kernel's findings, best first."""
        return tuple(f for f in self.report.findings if f.kernel == kernel.qualified_name)

    def is_touched(self, finding: Finding) -> bool:
        """Whether a finding's lines changed since it was found."""
        return place(finding) in self.touched

    def moved(self, changes: Sequence[LineChange]) -> View:
        """The same after edits."""
        if not changes:
            return self
        kernels = [k for k in (carry_kernel(k, changes) for k in self.report.kernels) if k is not None]
        found = [(f, carry_finding(f, changes)) for f in self.report.findings]
        kept = [(c[0], c[1] or self.is_touched(f)) for f, c in found if c is not None]
        names = {k.qualified_name for k, _ in kernels}
        edited = {k.qualified_name for k, touched in kernels if touched}
        return msgspec.structs.replace(
            self,
            report=msgspec.structs.replace(
                self.report, kernels=tuple(k for k, _ in kernels), findings=tuple(f for f, _ in kept)
            ),
            source=carry_report(self.source, changes),
            edited=(self.edited | edited) & names,
            touched=frozenset(place(f) for f, touched in kept if touched),
        )

    def on(self, text: SourceText) -> View:
        """The same on `text`: a kernel whose code is again what its evidence is of does not count as edited.

        So it is after an undo, and after an edit of comments or of white space.
        """
        kernels = {k.qualified_name: k for k in self.report.kernels if k.qualified_name in self.edited}
        same = {name for name, kernel in kernels.items() if self.code.get(name) == code_of(text, kernel)}
        if not same:
            return self
        touched = frozenset(at for at in self.touched if at[1] not in same)
        return msgspec.structs.replace(self, edited=self.edited - same, touched=touched)

    def checked(self, fresh: View, *, complete: bool) -> View:
        """The same after a stage of a check, which `fresh` holds in lines of the text on screen.

        A check that did not get to the compiler's report says of it only why, and what the compiler had against it.
        """
        if complete and not fresh.failed:
            return fresh
        if complete:
            ours = [f for f in self.report.findings if f.kernel]
            theirs = [f for f in fresh.report.findings if not f.kernel]
            report = msgspec.structs.replace(self.report, findings=(*theirs, *ours))
            return msgspec.structs.replace(self, report=report, unknown=fresh.unknown)
        better = {name for name, ground in fresh.ground.items() if ground > self.ground.get(name, SOURCE)}
        kernels = {k.qualified_name: k for k in fresh.report.kernels}
        findings = [f for f in self.report.findings if f.kernel not in better]
        findings += [f for f in fresh.report.findings if f.kernel in better]
        report = msgspec.structs.replace(
            self.report,
            kernels=tuple(
                _resources_of(kernels.get(k.qualified_name), k, whole=k.qualified_name in better)
                for k in self.report.kernels
            ),
            findings=tuple(findings),
        )
        ground = {**self.ground, **{name: fresh.ground[name] for name in better}}
        code = {**self.code, **{name: fresh.code[name] for name in better if name in fresh.code}}
        return msgspec.structs.replace(
            self, report=report, ground=ground, edited=self.edited - better, code=code
        )

    def heard(self, source: FileReport) -> View:
        """The same after the source tier has looked at the text on screen."""
        if source.syntax_errors > self.report.syntax_errors:
            return self
        old = self._renamed(source.kernels)
        now_at = pairs(old.report.findings, source.findings)
        said = pairs(old.report.findings, old.source.findings)
        names = {"", *(k.qualified_name for k in source.kernels)}
        kept: list[tuple[Finding, bool]] = []
        for index, finding in enumerate(old.report.findings):
            now = source.findings[now_at[index]] if index in now_at else None
            if not old._is_held(finding):
                kept += [(now, False)] if now is not None else []
            elif now is not None:
                kept.append((old._confirmed(finding, now), old.is_touched(finding)))
            elif finding.kernel in names and index not in said:
                kept.append((old._unconfirmed(finding), old.is_touched(finding)))
        overruled = old._overruled(source)
        shown = {*now_at.values(), *overruled}
        kept += [(f, False) for index, f in enumerate(source.findings) if index not in shown]
        known = {k.qualified_name: k for k in old.report.kernels if old.ground.get(k.qualified_name)}
        report = msgspec.structs.replace(
            old.report,
            kernels=tuple(_with_evidence(k, known.get(k.qualified_name)) for k in source.kernels),
            findings=tuple(f for f, _ in kept),
            syntax_errors=source.syntax_errors,
        )
        return msgspec.structs.replace(
            old,
            report=report,
            source=source,
            ground={name: old.ground.get(name, SOURCE) for name in names},
            edited=old.edited & known.keys(),
            touched=frozenset(place(f) for f, touched in kept if touched),
        )

    @property
    def failed(self) -> bool:
        """Whether a check got no further than the text where more was wanted."""
        return "binary" not in self.report.tiers and any(
            u.what.startswith("binary tier of") for u in self.unknown
        )

    def _is_held(self, finding: Finding) -> bool:
        # what is said of the file as a whole is the compiler's
        return not finding.kernel or self.ground.get(finding.kernel, SOURCE) > SOURCE

    def _confirmed(self, finding: Finding, now: Finding) -> Finding:
        """A finding that the text still shows, where it shows it; a fix is made for the kernel as it is."""
        return msgspec.structs.replace(
            finding,
            span=now.span,
            fixes=now.fixes if finding.kernel in self.edited or not finding.fixes else finding.fixes,
        )

    def _unconfirmed(self, finding: Finding) -> Finding:
        """A finding of the compiler's alone; its fixes were made for the kernel as it was."""
        return msgspec.structs.replace(finding, fixes=()) if finding.kernel in self.edited else finding

    def _overruled(self, source: FileReport) -> set[int]:
        """Indices of what the source tier says again though the compiler has taken it back."""
        shown = pairs(self.source.findings, self.report.findings)
        again = pairs(self.source.findings, source.findings)
        return {
            index
            for before, index in again.items()
            if before not in shown
            and self._is_held(source.findings[index])
            and source.findings[index].message == self.source.findings[before].message
        }

    def _renamed(self, kernels: Sequence[KernelReport]) -> View:
        """The same with the names that kernels have now: a kernel keeps its evidence while its name is typed."""
        mine = {k.qualified_name for k in self.report.kernels}
        theirs = {k.qualified_name for k in kernels}
        new = {k.name_line: k.qualified_name for k in kernels if k.qualified_name not in mine}
        names = {
            k.qualified_name: new[k.name_line]
            for k in self.report.kernels
            if k.qualified_name not in theirs and k.name_line in new
        }
        if not names:
            return self

        def renamed(report: FileReport) -> FileReport:
            return msgspec.structs.replace(
                report,
                kernels=tuple(
                    msgspec.structs.replace(k, qualified_name=names.get(k.qualified_name, k.qualified_name))
                    for k in report.kernels
                ),
                findings=tuple(
                    msgspec.structs.replace(f, kernel=names.get(f.kernel, f.kernel)) for f in report.findings
                ),
            )

        return msgspec.structs.replace(
            self,
            report=renamed(self.report),
            source=renamed(self.source),
            ground={names.get(name, name): ground for name, ground in self.ground.items()},
            edited=frozenset(names.get(name, name) for name in self.edited) | frozenset(names.values()),
            touched=frozenset((code, names.get(name, name), *at) for code, name, *at in self.touched),
            code={names.get(name, name): text for name, text in self.code.items()},
        )


def view_of(
    report: FileReport,
    source: FileReport,
    text: SourceText,
    unknown: Sequence[Unknown] = (),
    *,
    complete: bool = True,
) -> View:
    """What one stage of a check of `text` knows by itself; `source` is the source tier on the same text."""
    ground = SOURCE if "binary" not in report.tiers else CODE if complete else RESOURCES
    names = ["", *(k.qualified_name for k in report.kernels)]
    code = {k.qualified_name: code_of(text, k) for k in report.kernels} if ground > SOURCE else {}
    return View(report, source, dict.fromkeys(names, ground), unknown=tuple(unknown), code=code)


def code_of(text: SourceText, kernel: KernelReport) -> str:
    """A kernel's lines without comments, and with one blank for all white space."""
    lines = (text.line_text(line) for line in range(kernel.line, min(kernel.end_line, text.line_count) + 1))
    return " ".join(without_comments(to_ascii("\n".join(lines)), keep_strings=True).split())


def place(finding: Finding) -> _Place:
    """What tells a finding from the others of its file."""
    return finding.code, finding.kernel, finding.line, finding.column


def pairs(old: Sequence[Finding], new: Sequence[Finding]) -> dict[int, int]:
    """Which finding is which: indices of `new` by those of `old`.

    The same place first, then the same line, then, a few lines off, the same words.
    """
    found: dict[int, int] = {}
    free = dict(enumerate(new))
    by_place = {place(finding): index for index, finding in reversed(free.items())}
    for index, finding in enumerate(old):
        at = by_place.get(place(finding))
        if at in free:
            found[index] = at
            del free[at]
    for index, finding in enumerate(old):
        if index in found or not free:
            continue
        near = [(_distance(finding, other), at) for at, other in free.items() if _alike(finding, other)]
        if near:
            found[index] = min(near)[1]
            del free[found[index]]
    return found


#: Lines that a finding may be off after its own lines were rewritten.
_NEAR = 3


def _alike(one: Finding, other: Finding) -> bool:
    if (one.code, one.kernel) != (other.code, other.kernel):
        return False
    return one.line == other.line or (one.message == other.message and abs(one.line - other.line) <= _NEAR)


def _distance(one: Finding, other: Finding) -> tuple[int, int]:
    return abs(one.line - other.line), abs(one.column - other.column)


def _with_evidence(kernel: KernelReport, known: KernelReport | None) -> KernelReport:
    """The kernel where it stands now, with what a check knows of it."""
    if known is None:
        return kernel
    return msgspec.structs.replace(
        kernel,
        bottleneck=known.bottleneck,
        resources=known.resources,
        timing=known.timing,
        profile=known.profile,
    )


def _resources_of(fresh: KernelReport | None, kernel: KernelReport, *, whole: bool) -> KernelReport:
    """A kernel after the compiler's report: with all of it, or where more was known with its resources alone."""
    if fresh is None or fresh.resources is None:
        return kernel
    if whole:
        return _with_evidence(kernel, fresh)
    return msgspec.structs.replace(kernel, resources=fresh.resources)
