# SPDX-License-Identifier: Apache-2.0
"""The judge's road with no GPU: probe, visits, comparison on varied inputs, whole runs with a candidate in place.

How fast anything is here says nothing; only right and wrong are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host_card.toolkit import environment

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.edited import edits_between
from warplens_tools.errors import MissingToolError
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText

pytestmark = [pytest.mark.compiler, pytest.mark.thorough, pytest.mark.slow]
SOURCE = Path(__file__).parent / "programs" / "scale.cu"
_KERNEL = "if (i < n) out[i] = in[i] * by + 1.0f;"
#: A processor takes seconds for what a card does in milliseconds.
_SETTINGS = MeasureSettings(
    assume_faster=True,
    learn_seconds=60.0,
    hang_seconds=20.0,
    visit_seconds_per_candidate=100.0,
    accompany_seconds=10.0,
    confirmations=1,
    program_runs=1,
)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Judge]:
    try:
        card = environment()
    except MissingToolError as error:
        pytest.skip(str(error))
    for name in ("CUDA_HOME", "PATH", "LD_LIBRARY_PATH", "WARPLENS_DRIVER"):
        monkeypatch.setenv(name, card[name])
    monkeypatch.setenv("WARPLENS_LOCKS", str(tmp_path))
    with Judge(Workload(str(SOURCE), str(SOURCE)), kernel="scale", settings=_SETTINGS) as opened:
        yield opened


def _candidate(name: str, body: str) -> Candidate:
    before = SourceText.read(SOURCE)
    after = SourceText(before.text.replace(_KERNEL, body))
    return Candidate(name, str(SOURCE), "", edits_between(before, after), title=name)


def test_right_and_wrong_candidates(judge: Judge) -> None:
    right = _candidate("right", "if (i < n) out[i] = 1.0f + by * __ldg(in + i);")
    wrong = {
        "constant": "if (i < n) out[i] = in[i] * 2.5f + 1.0f;",
        "guard": "if (i < 20000) out[i] = in[i] * by + 1.0f;",
        "beyond": "out[i] = i < n ? in[i] * by + 1.0f : 0.0f;",
        "race": "if (i < n) { out[i] += in[i] * by; out[(i + 1) % n] = 1.0f; }",
    }
    given = [right, *(_candidate(name, body) for name, body in wrong.items())]
    verdicts: dict[str, Verdict] = {v.candidate: v for v in judge.judge(given)}
    said = {name: (v.state, v.reason) for name, v in verdicts.items()}
    caught = {name for name, (state, _) in said.items() if state in ("wrong", "crashed", "illegal")}
    assert caught == set(wrong), said
    assert verdicts["right"].state in ("faster", "same", "slower"), verdicts["right"].reason
    confirmed = judge.confirm(right).verdict
    assert confirmed.state in ("faster", "same", "slower"), confirmed.reason
