# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer on a program with a fault of each kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warplens.service.report import Report
from warplens.service.sanitize import with_faults
from warplens.service.service import CheckOptions, Service

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
FAULTY = Path(__file__).parents[1] / "data/sanitizer/faulty.cu"


def sanitized(folder: Path, argument: str) -> Report:
    path = folder / "faulty.cu"
    shutil.copy(FAULTY, path)
    (folder / "warplens.toml").write_text(f'[[program]]\nsource = "*.cu"\narguments = ["{argument}"]\n')
    service = Service(folder)
    return with_faults(service, service.check([path], CheckOptions(tier="source")))


@pytest.mark.parametrize(
    ("argument", "tool", "line"),
    [
        ("1", "memcheck", 7),
        ("2", "racecheck", 12),
        ("3", "initcheck", 18),
        ("4", "synccheck", 27),
        ("5", "memcheck", 35),
    ],
)
def test_each_fault_stands_on_its_line(tmp_path: Path, argument: str, tool: str, line: int) -> None:
    report = sanitized(tmp_path, argument)
    faults = report.files[0].faults
    assert faults, report.unknown
    assert (tool, line) in {(f.tool, f.place.line) for f in faults if f.place is not None}


def test_a_program_without_fault_has_none(tmp_path: Path) -> None:
    report = sanitized(tmp_path, "0")
    assert report.files[0].faults == (), report.unknown
