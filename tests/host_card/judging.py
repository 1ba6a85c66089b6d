# SPDX-License-Identifier: Apache-2.0
"""A judge of a program on the card in software, and candidates for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.host_card.toolkit import environment

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.visits import VisitResult, Visits
from warplens.measure.turn import Turn
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.edited import edits_between
from warplens_tools.errors import MissingToolError
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.probe.records import ResultRecord
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText

#: A processor takes seconds for what a card does in milliseconds.
SETTINGS = MeasureSettings(
    assume_faster=True,
    measure_identical=True,
    learn_seconds=60.0,
    hang_seconds=20.0,
    visit_seconds_per_candidate=100.0,
    accompany_seconds=10.0,
    confirmations=1,
    program_runs=1,
)


def on_software_card(
    source: Path,
    kernel: str,
    monkeypatch: pytest.MonkeyPatch,
    locks: Path,
    settings: MeasureSettings = SETTINGS,
) -> Iterator[Judge]:
    """A judge of a program's kernel; skips the test where there is no toolkit."""
    try:
        card = environment()
    except MissingToolError as error:
        pytest.skip(str(error))
    for name in ("CUDA_HOME", "PATH", "LD_LIBRARY_PATH", "WARPLENS_DRIVER"):
        monkeypatch.setenv(name, card[name])
    monkeypatch.setenv("WARPLENS_LOCKS", str(locks))
    with Judge(Workload(str(source), str(source)), kernel=kernel, settings=settings) as opened:
        yield opened


def candidate(source: Path, name: str, old: str, new: str) -> Candidate:
    """One in which something that stands there once is another."""
    before = SourceText.read(source)
    assert before.text.count(old) == 1, old
    after = SourceText(before.text.replace(old, new))
    return Candidate(name, str(source), "", edits_between(before, after), title=name)


def compared_thoroughly(judge: Judge, candidates: Sequence[Candidate]) -> list[ResultRecord]:
    """What one visit on every set of inputs, as a winner is confirmed, says of candidates; all of them build."""
    opened, refused, heard = judge._open(UNATTENDED), list[Verdict](), list[VisitResult]()
    built = judge._build(opened, candidates, refused.append, UNATTENDED)
    assert not refused, [(one.candidate, one.reason) for one in refused]
    visits = Visits(opened.place, SETTINGS, opened.session.folder, thorough=True)
    with Turn(opened.session, "comparing", UNATTENDED) as turn:
        visits.judge([one.job for one in built], heard.append, UNATTENDED, turn)
    return [one.result for one in heard]
