# SPDX-License-Identifier: Apache-2.0
"""Findings of an earlier report, which do not count again."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.service.report import Report
from warplens_tools.errors import InputError
from warplens_tools.finding import Finding

_FIGURE = re.compile(r"\d[\d.,]*")
Mark = tuple[str, str, str, str]


class Baseline(msgspec.Struct, frozen=True):
    """How often each finding was there."""

    marks: dict[Mark, int] = {}

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """An answer of `warplens check --format json`.

        Raises:
            InputError: there is no such file, or it holds no such answer.
        """
        try:
            report = msgspec.json.decode(path.read_bytes(), type=Report)
        except OSError as error:
            raise InputError(
                f"cannot read the baseline {path}: {error.strerror or error}",
                remedy=f"make it: warplens check --format json > {path}",
            ) from error
        except msgspec.MsgspecError as error:
            raise InputError(
                f"{path} is no answer of `warplens check --format json`: {error}",
                remedy=f"make it anew: warplens check --format json > {path}",
            ) from error
        return cls(dict(Counter(mark(f.path, finding) for f in report.files for finding in f.findings)))

    def new_of(self, path: str, findings: Sequence[Finding]) -> list[Finding]:
        """Those that were not there, or not so often: of alike ones the first count as old."""
        seen: Counter[Mark] = Counter()
        new = []
        for finding in findings:
            name = mark(path, finding)
            seen[name] += 1
            if seen[name] > self.marks.get(name, 0):
                new.append(finding)
        return new


def mark(path: str, finding: Finding) -> Mark:
    """What a finding is known by when lines and figures have moved: file, code, kernel, and its words."""
    return os.path.normpath(path), finding.code, finding.kernel, _FIGURE.sub("#", finding.message)
