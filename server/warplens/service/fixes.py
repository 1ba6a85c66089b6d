# SPDX-License-Identifier: Apache-2.0
"""The edits that answer a report's findings: which of them are taken, written into the files or shown as a patch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from warplens.service.patch import patch_of, patch_root
from warplens.service.report import FileReport, Report
from warplens.service.writing import replace_file
from warplens_tools.encoded import EncodedText
from warplens_tools.errors import InputError
from warplens_tools.evidence import Unknown
from warplens_tools.finding import Finding, Fix
from warplens_tools.text import TextEdit

#: "sure": edits without a caveat that answer a finding of at least medium confidence. "all": the others too.
Reach = Literal["sure", "all"]
#: Which of a file's entries in the report, and which of its findings.
Place = tuple[int, int]


class Fixed(msgspec.Struct, frozen=True):
    """What became of a report's fixes."""

    #: The report of the text before, with `applied` on the fixes that were written.
    report: Report
    #: What `patch -p1 -d root` takes; b"" where nothing was to be changed.
    patch: bytes
    root: str
    #: Files that were written.
    written: tuple[str, ...] = ()
    #: Where nothing was within reach: how many edits `--fix-all` would take.
    beyond: int = 0
    #: Edits within reach that overlap one that was taken: the next run sees whether they still apply.
    waiting: int = 0


def needs_consent(finding: Finding, fix: Fix) -> str:
    """Why a fix is taken only by `--fix-all`; "" where `--fix` takes it."""
    if fix.caveat:
        return f"results may change: {fix.caveat}"
    return "the finding is of low confidence" if finding.confidence == "low" else ""


def apply_fixes(report: Report, reach: Reach, *, write: bool, stdin: bytes | None = None) -> Fixed:
    """Take the first fix of every finding within reach; one that overlaps an earlier one waits for the next run.

    A file is written once, however many names and architectures the report has it under. What could not be
    written is in the report's `unknown`, as failed; the other files are written all the same. `stdin` is the
    text itself where the report is of a stream, whose fixes can only be shown.
    """
    files = list(report.files)
    unknown = list(report.unknown)
    changes: list[tuple[Path, bytes, bytes]] = []
    groups: dict[str, list[int]] = {}
    waiting = 0
    for index, file in enumerate(files):
        groups.setdefault(os.path.realpath(file.path), []).append(index)
    for places in groups.values():
        chosen, overlapping = first_fixes([files[place] for place in places], reach)
        waiting += overlapping
        if not chosen:
            continue
        first = files[places[0]]
        try:
            before = EncodedText.read(Path(first.path)) if not stdin else EncodedText(stdin)
            kept, after = _edited(first, before, chosen)
            if write and after != before.data:
                replace_file(Path(first.path), before.data, after)
            changes.append((Path(first.path), before.data, after))
        except InputError as error:
            unknown.append(Unknown(f"fixes of {first.path}", str(error), error.remedy, failed=True))
            continue
        for number, place in enumerate(places if write else ()):
            applied = {finding: fix for (entry, finding), fix in kept.items() if entry == number}
            files[place] = with_applied(files[place], applied)
    changed = msgspec.structs.replace(report, files=tuple(files), unknown=tuple(unknown))
    changes = [change for change in changes if change[1] != change[2]]
    root = patch_root([path for path, _, _ in changes], Path.cwd())
    patch = b"".join(patch_of(*change, root) for change in changes)
    written = tuple(str(path) for path, _, _ in changes) if write else ()
    return Fixed(changed, patch, str(root), written, changes_of(report, "all") if not changes else 0, waiting)


def changes_of(report: Report, reach: Reach) -> int:
    """How many edits are within reach."""
    return len({(f.path, fix.edits) for f in report.files for fix in first_fixes([f], reach)[0].values()})


def first_fixes(entries: Sequence[FileReport], reach: Reach) -> tuple[dict[Place, Fix], int]:
    """By place: each finding's first fix within reach, where it is one already taken or overlaps none.

    And how many other edits overlap one that is taken.
    """
    taken: list[tuple[TextEdit, ...]] = []
    waiting: set[tuple[TextEdit, ...]] = set()
    chosen: dict[Place, Fix] = {}
    for number, file in enumerate(entries):
        for index, finding in enumerate(file.findings):
            fix = next((f for f in finding.fixes if reach == "all" or not needs_consent(finding, f)), None)
            if fix is None or not fix.edits:
                continue
            if fix.edits not in taken:
                if any(_overlap(a, b) for a in fix.edits for edits in taken for b in edits):
                    waiting.add(fix.edits)
                    continue
                taken.append(fix.edits)
            chosen[number, index] = fix
    return chosen, len(waiting)


def _edited(
    file: FileReport, before: EncodedText, chosen: dict[Place, Fix]
) -> tuple[dict[Place, Fix], bytes]:
    """The fixes that can be made, and the bytes after them.

    Raises:
        InputError: the text is not the one the report is of, or no fix can be made of its bytes.
    """
    if file.digest != before.text.digest:
        raise InputError(f"{file.path} changed since it was read", remedy="run the command again")
    kept: dict[Place, Fix] = {}
    problem: InputError | None = None
    for place, fix in chosen.items():
        try:
            before.apply(fix.edits)
            kept[place] = fix
        except InputError as error:
            problem = error
    if not kept and problem is not None:
        raise problem
    distinct = dict.fromkeys(fix.edits for fix in kept.values())
    return kept, before.apply([edit for edits in distinct for edit in edits])


def with_applied(file: FileReport, applied: dict[int, Fix]) -> FileReport:
    """The report with those fixes marked, by the finding's place."""
    findings = [
        msgspec.structs.replace(finding, fixes=_marked(finding.fixes, applied[index]))
        if index in applied
        else finding
        for index, finding in enumerate(file.findings)
    ]
    return msgspec.structs.replace(file, findings=tuple(findings))


def _marked(fixes: Sequence[Fix], applied: Fix) -> tuple[Fix, ...]:
    return tuple(msgspec.structs.replace(fix, applied=True) if fix is applied else fix for fix in fixes)


def _overlap(a: TextEdit, b: TextEdit) -> bool:
    first, second = sorted((a.span, b.span))
    if first == second:
        return True
    return (first.end_line, first.end_column) > (second.line, second.column)
