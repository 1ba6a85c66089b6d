# SPDX-License-Identifier: Apache-2.0
"""The judge's road with no GPU: probe, visits, comparison on varied inputs, whole runs with a candidate in place.

How fast anything is here says nothing; only right and wrong are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.host_card.judging import candidate, compared_thoroughly, on_software_card

from warplens.measure.costs import LOST
from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict

pytestmark = [pytest.mark.compiler, pytest.mark.thorough, pytest.mark.slow]
SOURCE = Path(__file__).parent / "programs" / "scale.cu"
_KERNEL = "if (i < n) out[i] = in[i] * by + 1.0f;"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Judge]:
    yield from on_software_card(SOURCE, "scale", monkeypatch, tmp_path)


def _candidate(name: str, body: str) -> Candidate:
    return candidate(SOURCE, name, _KERNEL, body)


def test_right_and_wrong_candidates(judge: Judge) -> None:
    right = _candidate("right", "if (i < n) out[i] = 1.0f + by * __ldg(in + i);")
    wrong = {
        "bound": "if (i < n) out[i] = in[i] * fminf(by, 2.5f) + 1.0f;",
        "guard": "if (i < 20000) out[i] = in[i] * by + 1.0f;",
        "beyond": "out[i] = i < n ? in[i] * by + 1.0f : 0.0f;",
        "race": "if (i < n) { out[i] += in[i] * by; out[(i + 1) % n] = 1.0f; }",
    }
    given = [right, *(_candidate(name, body) for name, body in wrong.items())]
    # as a winner is confirmed: a search's visit draws some of the inputs
    said = {one.candidate: (one.state, one.reason) for one in compared_thoroughly(judge, given)}
    caught = {name for name, (state, _) in said.items() if state in ("wrong", "crashed", "illegal")}
    assert caught == set(wrong), said
    (searched,) = judge.judge([right])
    assert searched.state in ("faster", "same", "slower"), searched.reason
    confirmed = judge.confirm(right).verdict
    assert confirmed.state in ("faster", "same", "slower"), confirmed.reason


@pytest.mark.parametrize(
    ("name", "state", "said"),
    [
        ("beyond", "faster", "taken for faster, not timed"),
        (
            "leftovers",
            "unproven",
            "the kernel's own results follow from what other launches left in shared memory",
        ),
    ],
)
def test_a_kernel_with_a_fault_of_its_own_is_not_wrong_against_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, state: str, said: str
) -> None:
    source = SOURCE.with_stem(name)
    with contextmanager(on_software_card)(source, "", monkeypatch, tmp_path) as judge:
        (verdict,) = judge.judge([Candidate("same", str(source), "", (), title="as it is")])
    assert (verdict.state, verdict.reason[: len(said)]) == (state, said)


def test_a_kernel_that_hangs_on_what_its_memory_may_hold_costs_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, settings = SOURCE.with_stem("locked"), MeasureSettings(measure_identical=True)
    with contextmanager(on_software_card)(source, "", monkeypatch, tmp_path, settings) as judge:
        (verdict,) = judge.judge([Candidate("same", str(source), "", (), title="as it is")])
        seconds = judge.costs()["card, judging dot"]
    # a card would wait for the launch with whoever frees memory: so does this one, a minute and more
    assert verdict.state in ("same", "faster", "slower"), verdict.reason
    assert 0 < verdict.cost[LOST] < seconds < 60


def test_a_race_of_the_kernel_is_not_laid_at_anybody_elses_door(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, settings = SOURCE.with_stem("racy"), MeasureSettings(measure_identical=True)
    with contextmanager(on_software_card)(source, "", monkeypatch, tmp_path, settings) as judge:
        (verdict,) = judge.judge([Candidate("same", str(source), "", (), title="as it is")])
    said = "the kernel's own results differ from run to run"
    assert (verdict.state, verdict.reason[: len(said)]) == ("unproven", said)


def test_who_once_comes_to_the_same_is_right_where_drawn_numbers_have_the_kernel_race_with_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = SOURCE.with_stem("racy_elsewhere")
    wrong = candidate(source, "wrong", "= in[i] * apart;", "= in[i] * max(apart, kApart);")
    same = [
        candidate(source, f"same {k}", "= in[i] * apart;", f"= apart * in[i] + {k} - {k};") for k in range(12)
    ]
    with contextmanager(on_software_card)(source, "", monkeypatch, tmp_path) as judge:
        *found, odd = compared_thoroughly(judge, [*same, wrong])
    assert not [one.reason for one in found if "run to run" in one.reason]
    assert odd.state in ("wrong", "unproven"), odd.reason


def test_a_grid_of_its_own_may_follow_another_of_equal_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = SOURCE.with_stem("volume")
    launch = (
        "dim3 block({});\n    dim3 blocks((grid.nx + {}) / {}, (grid.ny + {}) / {}, (grid.nz + {}) / {});"
    )
    old = launch.format("8, 8, 4", 7, 8, 7, 8, 3, 4)
    new = launch.format("2, 32, 1", 1, 2, 31, 32, 0, 1)
    flat, short = (
        msgspec.structs.replace(candidate(source, name, old, new), grid=(12, 1, planes), block=(2, 32, 1))
        for name, planes in (("flat", 24), ("short", 23))
    )
    with contextmanager(on_software_card)(source, "", monkeypatch, tmp_path) as judge:
        right, wrong = compared_thoroughly(judge, [flat, short])
    assert right.state == "right", right.reason
    assert wrong.state == "wrong", wrong.reason


def test_what_is_not_better_than_the_best_is_looked_at_briefly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = _candidate("right", "if (i < n) out[i] = 1.0f + by * __ldg(in + i);")
    wrong = _candidate("wrong", "if (i < n) out[i] = in[i] * by;")
    # no version of this kernel is a thousand times as fast, nor a thousand times as slow
    unreached, reached = (
        [msgspec.structs.replace(c, bar=bar) for c in (right, wrong)] for bar in (1e3, 1e-3)
    )
    with contextmanager(on_software_card)(SOURCE, "scale", monkeypatch, tmp_path, MeasureSettings()) as judge:
        behind, ahead = judge.judge(unreached), judge.judge(reached)
    assert [one.state for one in behind] == ["provisional", "wrong"], [one.reason for one in behind]
    assert behind[0].timings and behind[0].timings[0].rounds < 15
    assert ahead[0].state in ("faster", "same", "slower") and ahead[1].state == "wrong"
    assert 1 < len(_sets(behind[0])) <= 3 < len(_sets(ahead[0]))


def _sets(verdict: Verdict) -> list[str]:
    return str(next(o.value for o in verdict.evidence if o.metric == "input sets compared")).split(", ")
