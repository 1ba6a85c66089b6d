# SPDX-License-Identifier: Apache-2.0
"""One `check` as it was asked for: which texts, for which architectures, and which of the findings count."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.cli.streams import STDIN
from warplens.cli.text import displayed
from warplens.service.baseline import Baseline
from warplens.service.report import FileReport, Report
from warplens.service.service import CheckOptions, Service
from warplens.service.suppression import chosen
from warplens_tools.errors import InputError
from warplens_tools.evidence import Tier
from warplens_tools.finding import Finding
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText


class Selection(msgspec.Struct, frozen=True):
    """Which findings count."""

    selected: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    baseline: Baseline = Baseline()
    #: Whether a baseline was named.
    only_new: bool = False

    @classmethod
    def of(cls, selected: Sequence[str], ignored: Sequence[str], baseline: Path | None) -> Selection:
        """As the command line names them; names may stand in one word with commas between.

        Raises:
            InputError: there is no check of that name, or the baseline cannot be read.
        """
        old = Baseline() if baseline is None else Baseline.read(baseline)
        return cls(chosen(selected, "--select"), chosen(ignored, "--ignore"), old, baseline is not None)

    def of_file(self, file: FileReport) -> tuple[FileReport, int]:
        """The file's findings that count, and how many the baseline held."""
        named = [f for f in file.findings if self._named(f)]
        kept = self.baseline.new_of(file.path, named)
        return msgspec.structs.replace(file, findings=tuple(kept)), len(named) - len(kept)

    def _named(self, finding: Finding) -> bool:
        names = {finding.code.lower(), finding.slug}
        return (not self.selected or bool(names & self.selected)) and not names & self.ignored


class Answer(msgspec.Struct, frozen=True):
    """A report, with what the command line left out of it."""

    report: Report
    #: Findings that the baseline held.
    old: int = 0
    #: The files' texts as the report is of them, where they may change before it is shown.
    texts: dict[str, SourceText] = {}
    #: Whether people asked for what is new alone: files and kernels without a finding are not shown.
    only_new: bool = False

    def with_texts(self) -> Answer:
        """The same, with the files' texts as they are now."""
        texts = {}
        for file in self.report.files:
            with contextlib.suppress(InputError, OSError):
                texts[file.path] = displayed(Path(file.path).read_bytes())
        return msgspec.structs.replace(self, texts=texts | self.texts)

    def with_report(self, report: Report) -> Answer:
        """The same with another report."""
        return msgspec.structs.replace(self, report=report)


class CheckRun:
    """What was asked for; `answer` does it, as often as it is called."""

    def __init__(
        self,
        *,
        paths: tuple[Path, ...],
        tier: Tier | None,
        archs: tuple[str, ...],
        selection: Selection,
        sanitize: bool,
        stdin_name: Path,
        jobs: int | None = None,
    ) -> None:
        self.reads_stdin = Path(STDIN) in paths
        self.stdin = b""
        self._paths, self._tier, self._archs = paths, tier, archs
        self._jobs = jobs if jobs is not None else os.cpu_count() or 1
        if self._jobs < 1:
            raise InputError("--jobs takes a number from 1 on")
        self._selection, self._sanitize, self._stdin_name = selection, sanitize, stdin_name
        if self.reads_stdin:
            if len(paths) > 1:
                raise InputError("standard input is checked alone", remedy="leave out the other paths")
            if sanitize or tier not in (None, "source", "binary"):
                raise InputError("a text from standard input is no program to run", remedy="name its file")
            self.stdin = sys.stdin.buffer.read()

    def folders(self) -> list[Path]:
        """What to watch."""
        if self.reads_stdin:
            raise InputError("standard input cannot be watched")
        return [path if path.is_dir() else path.parent for path in self._paths]

    def answer(self, *, task: Task) -> Answer:
        """Look at everything.

        Raises:
            As `Service.check`.
        """
        service = Service(Path.cwd())
        reports = [self._report(service, arch or None, task) for arch in self._archs or (None,)]
        report = joined(reports)
        if self._sanitize:
            from warplens.service.sanitize import with_faults

            report = with_faults(service, report, task=task)
        chosen = [self._selection.of_file(file) for file in report.files]
        files = tuple(file for file, _ in chosen)
        texts = {file.path: displayed(self.stdin) for file in files} if self.reads_stdin else {}
        report = msgspec.structs.replace(report, files=files)
        return Answer(report, sum(old for _, old in chosen), texts, self._selection.only_new)

    def _report(self, service: Service, arch: str | None, task: Task) -> Report:
        options = CheckOptions(tier=self._tier, arch=arch)
        if self.reads_stdin:
            return service.check_stream(self._stdin_name, self.stdin, options, task=task)
        if service.tier_to_run(options) is None:
            return service.check(self._paths, options, task=task, jobs=self._jobs)
        from warplens.service.profile import check_measured

        return check_measured(service, self._paths, options, task=task)


def joined(reports: Sequence[Report]) -> Report:
    """The reports of several architectures as one: a file has an entry for each."""
    first = reports[0]
    unknown = dict.fromkeys(u for report in reports for u in report.unknown)
    files = tuple(file for report in reports for file in report.files)
    return msgspec.structs.replace(first, files=files, unknown=tuple(unknown))
