# SPDX-License-Identifier: Apache-2.0
"""Every kernel of `tests/data/micro` gets the findings its marks name, on their lines, and no others; hints, which
claim no cost, have marks of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.disassembled import checked_soon
from tests.services import service_for

from warplens.service.report import Report
from warplens.service.service import CheckOptions, Service

DATA = Path(__file__).parents[2] / "data" / "micro"
#: What `make test` checks: what memory, arithmetic, threads, registers, launches and the host show.
QUICK = frozenset(
    {
        *(
            "bank_conflicts.cu",
            "barriers.cu",
            "divergence.cu",
            "doubles.cu",
            "launch_shapes.cu",
            "local_memory.cu",
        ),
        *("lookups.cu", "reloads.cu", "host_copies.cu"),
    }
)
_MARK = re.compile(r"(expect|hint):\s*([\w-]+)")


def marks(path: Path) -> list[tuple[int, str, str]]:
    """(line, slug, "expect" or "hint") of every mark of a file."""
    lines = path.read_text("utf-8").splitlines()
    return [(n, slug, kind) for n, line in enumerate(lines, start=1) for kind, slug in _MARK.findall(line)]


def test_files_are_marked() -> None:
    assert sum(len(marks(path)) for path in DATA.glob("*.cu")) >= 60


def findings(report: Report) -> list[tuple[int, str, str]]:
    """As `marks`, of every finding, in line order."""
    kinds = {"hint": "hint"}
    return sorted(
        (f.line, f.slug, kinds.get(f.severity, "expect")) for file in report.files for f in file.findings
    )


@pytest.mark.compiler
@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*.cu")))
@pytest.mark.sampled(of=QUICK)
def test_marks_and_findings_agree_and_say_on_what_they_rest_and_what_to_do(name: str) -> None:
    path = DATA / name
    checked_soon(DATA, path, arch="sm_90", quick=frozenset(DATA / name for name in QUICK))
    report = service_for(DATA, path).check([path], CheckOptions(tier="binary", arch="sm_90"))
    assert findings(report) == sorted(marks(path))
    for finding in report.files[0].findings:
        assert finding.evidence
        assert all(seen.origin and seen.metric for seen in finding.evidence)
        assert finding.guidance.endswith(".")
        assert finding.message.endswith(".")
        gain = finding.gain
        assert gain is None or 1.0 <= gain.low <= gain.estimate <= gain.high


@pytest.mark.thorough
def test_the_source_tier_alone_finds_conflicts_doubles_and_reloads() -> None:
    report = Service(DATA).check([DATA], CheckOptions(tier="source", arch="sm_90"))
    found = {(Path(file.path).name, f.slug) for file in report.files for f in file.findings}
    assert ("bank_conflicts.cu", "shared-bank-conflicts") in found
    assert ("doubles.cu", "double-in-float-kernel") in found
    assert ("reloads.cu", "aliasing-reload") in found
    assert all(f.tier == "source" for file in report.files for g in file.findings for f in g.evidence)
