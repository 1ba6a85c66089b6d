# SPDX-License-Identifier: Apache-2.0
"""Ordinary code that looks like a cause: every kernel of `tests/data/ordinary` is told what its marks name, and how
loudly, and nothing else of severity warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.disassembled import checked_soon
from tests.services import service_for

from warplens.service.service import CheckOptions

DATA = Path(__file__).parents[2] / "data" / "ordinary"
#: What `make test` checks.
QUICK = frozenset({"cold_paths.cu", "values_let_through.cu"})
_MARK = re.compile(r"//\s*told:\s*([\w-]+) (\w+)")


@pytest.mark.compiler
@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*.cu")))
@pytest.mark.sampled(of=QUICK)
def test_what_is_told_of_ordinary_code_and_how_loudly(name: str) -> None:
    path = DATA / name
    lines = path.read_text("utf-8").splitlines()
    marks = [(n, *mark) for n, text in enumerate(lines, 1) for mark in _MARK.findall(text)]
    checked_soon(DATA, path, arch="sm_90", quick=frozenset(DATA / name for name in QUICK))
    report = service_for(DATA, path).check([path], CheckOptions(tier="binary", arch="sm_90"))
    found = [(f.line, f.slug, f.severity) for file in report.files for f in file.findings]
    assert [f for f in sorted(found) if f in marks or f[2] == "warning"] == marks
