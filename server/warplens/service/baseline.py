# SPDX-License-Identifier: Apache-2.0
"""Findings of an earlier report, which do not count again."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.service.build_messages import NOT_COMPILED
from warplens.service.report import Report
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError
from warplens_tools.finding import Finding

#: A name of its own: the path that was given may be the user's source.
_MAKE = "make one: warplens check --format json > warplens-baseline.json"
_FIGURE = re.compile(r"\d[\d.,]*")
#: What does not compile hides what the checks would find: no baseline makes it old.
_NEVER_OLD = frozenset({NOT_COMPILED[0]})
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
            report = from_json(path.read_bytes(), Report)
        except OSError as error:
            raise InputError(
                f"cannot read the baseline {path}: {error.strerror or error}",
                remedy=_MAKE,
            ) from error
        except msgspec.MsgspecError as error:
            raise InputError(
                f"{path} is no answer of `warplens check --format json`",
                remedy=_MAKE,
            ) from error
        return cls(dict(Counter(mark(f.path, finding) for f in report.files for finding in f.findings)))

    def new_of(self, path: str, findings: Sequence[Finding]) -> list[Finding]:
        """Those that were not there, or not so often: of alike ones the first count as old."""
        seen: Counter[Mark] = Counter()
        new = []
        for finding in findings:
            name = mark(path, finding)
            seen[name] += 1
            if finding.code in _NEVER_OLD or seen[name] > self.marks.get(name, 0):
                new.append(finding)
        return new


def mark(path: str, finding: Finding) -> Mark:
    """What a finding is known by when lines and figures have moved: file, code, kernel, and its words."""
    return os.path.normpath(path), finding.code, finding.kernel, _FIGURE.sub("#", finding.message)
