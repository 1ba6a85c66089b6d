# SPDX-License-Identifier: Apache-2.0
"""What the suite's searches are summed up to, and how one is watched."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.suite.catalogue import SUITE, Program, programs
from tests.suite.paced import Takes, paced
from tests.suite.search import Runs, chosen, known_of, rate, share_of_gain, summary
from tests.suite.seconds import shares, told
from tests.suite.watched import half_gain, risen, searched, watched

from warplens.service.service import Service
from warplens.store.database import open_store
from warplens.store.runs import Target, append_step, start_run


def test_a_watched_command_says_what_it_does_with_the_seconds() -> None:
    line = "import sys; sys.stderr.write('here\\n' if sys.stderr.isatty() else 'nobody\\n'); print(3)"
    done = watched([sys.executable, "-c", line], os.environ, 20)
    assert (done.status, done.answer) == (0, "3\n")
    assert [said.split()[1] for said in done.said] == ["here"]
    assert float(done.said[0].split()[0]) <= done.seconds + 0.1


def test_a_command_that_does_not_end_is_ended() -> None:
    done = watched([sys.executable, "-c", "import time; time.sleep(60)"], os.environ, 0.5)
    assert done.status not in (0, 1)
    assert "did not end in time" in done.said[-1]


def _told(store: Path, *verdicts: tuple[str, float]) -> None:
    with open_store(store) as connection:
        run = start_run(connection, Target("k.cu", "k", "", "", "mcts", 0), settings="{}")
        for number, (state, speedup) in enumerate(verdicts):
            timings = [{"speedup": {"median": speedup}}] if speedup else []
            append_step(
                connection,
                run,
                "tell",
                json.dumps({"state": state, "timings": timings}),
                candidate=f"c{number}",
            )


def test_a_curve_rises_with_faster_verdicts_alone(tmp_path: Path) -> None:
    _told(tmp_path, ("faster", 1.5), ("wrong", 9.0), ("not_built", 0.0), ("faster", 1.2), ("faster", 4.0))
    curve = risen(tmp_path / "warplens.sqlite3", 0.0)
    assert [best for _, best in curve] == [1.5, 4.0]
    assert risen(tmp_path / "none", 0.0) == []


def test_where_the_seconds_of_a_search_went() -> None:
    def tell(at: float, state: str, **cost: float) -> tuple[float, str, dict[str, Any]]:
        return at, "tell", {"candidate": f"c{at:g}", "state": state, "cost": cost}

    def ask(at: float, name: str) -> tuple[float, str, dict[str, Any]]:
        return at, "ask", {"candidate": {"id": name}}

    one = told(
        [
            (3.0, "baseline", {}),
            ask(4.0, "c13"),
            ask(4.0, "c33"),
            ask(32.0, "c90"),
            tell(13.0, "provisional", build=2.0, learn=0.5, compare=0.25, time=0.25),
            tell(
                33.0, "faster", build=3.0, start=1.5, compare=4.0, time=1.0, **{"waiting for the card": 2.0}
            ),
            (53.0, "confirm", {"verdict": {"state": "wrong"}, "cost": {"rebuild": 5.0}}),
        ]
    )
    assert one["judged_a_minute"] == 4.0 and one["in_full"] == 1
    # nine seconds and 29, of thirty
    assert one["ask_to_verdict"] == 19.0 and one["in_hand"] == 1.3
    assert one["seconds"] == {
        "compile": 5.0, "wait": 2.0, "begin": 2.0, "compare": 4.2, "time": 1.2, "confirm": 20.0,
    }  # fmt: skip
    assert one["confirmations"] == [{"state": "wrong", "at": 53.0, "rebuild": 5.0}]
    found = shares([one | {"wall_seconds": 60.0}, {"wall_seconds": 9.0}])
    assert found["judged_a_minute"] == {"median": 4.0, "least": 4.0}
    assert found["share_of_search_seconds"]["compile"] == pytest.approx(5 / 30, abs=0.01)
    assert found["share_of_all_seconds_in_confirmation"] == 0.33
    assert told([(3.0, "baseline", {})]) == shares([]) == {}


def test_half_of_the_gain_is_of_its_logarithm() -> None:
    curve = [(3.0, 1.9), (5.0, 2.0), (9.0, 4.1)]
    assert half_gain(curve, 4.0) == 5.0
    assert half_gain(curve, 1.0) is None
    assert half_gain([], 4.0) is None


def test_a_search_that_cannot_measure_is_an_error_and_keeps_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    program = programs()[0]
    (tmp_path / "programs").mkdir()
    moved = type(program)(program.name, "no_such_kernel", program.area, folder=str(tmp_path))
    moved.path.write_bytes(program.path.read_bytes())
    row = searched(moved, ["--budget", "2"], 5, os.environ, tmp_path / "kept")
    assert "no_such_kernel" in row["error"]
    assert "no_such_kernel" in (tmp_path / "kept" / f"{program.name}.said").read_text()


def test_the_share_of_the_experts_gain_is_of_all_logarithms() -> None:
    rows: list[dict[str, Any]] = [
        {"speedup": {"median": 4.0}, "expert": 16.0, "half_gain_seconds": 7.0},
        {"speedup": None, "expert": 4.0},
        {"speedup": {"median": 2.0}, "expert": 1.01},
    ]
    assert share_of_gain(rows) == pytest.approx(2 / 6)
    found = summary(rows)
    assert found["geometric_mean"] == pytest.approx(2.0)
    assert found["expert_geometric_mean"] == pytest.approx(8.0)
    low, high = found["share_interval"]
    assert 0.0 <= low <= found["share_of_the_experts_gain"] <= high <= 0.5
    assert found["half_of_the_gain_after_seconds"] == {"median": 7.0, "most": 7.0}
    assert not math.isnan(found["share_of_the_experts_gain"])


def test_an_experts_gain_is_of_the_kernels_own_time() -> None:
    row: dict[str, Any] = {"kernel_us": 8.0, "expert_us": 2.0, "speedup": {"median": 2.0}}
    rate(row)
    assert (row["expert"], row["share"]) == (4.0, 0.5)
    known: dict[str, Any] = {"kernel_us": 8.0, "expert": 16.0, "speedup": {"median": 2.0}}
    rate(known)
    assert known["share"] == 0.25
    without: dict[str, Any] = {"expert_us": 8.0}
    rate(without)
    assert "share" not in without


def test_each_search_has_a_card_and_each_row_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, most, on = dict.fromkeys(("A", "B"), 0), [0], list[tuple[str, str]]()

    def search(program: Program, _: argparse.Namespace, seconds: float, card: str) -> dict[str, Any]:
        assert seconds == 45.0
        busy[card] += 1
        most.append(max(busy.values()))
        time.sleep(0.05)
        busy[card] -= 1
        on.append((program.name, card))
        return {"program": program.name, "kernel_us": 8.0, "wall_seconds": 1.0, "speedup": {"median": 2.0}}

    monkeypatch.setattr("tests.suite.search.measured", search)
    monkeypatch.setattr("tests.suite.search.expert_ns", lambda *_: 2000.0)
    known = {"p1": {"expert": 16.0}}
    given = argparse.Namespace(at_once=1, until=None, seconds=45, without_experts=False, known=known)
    waiting = [Program(f"p{n}", "k", "x") for n in range(6)]
    rows = {row["program"]: row for row in Runs(given, ["A", "B"]).of(waiting)}
    assert max(most) == 1
    assert {card for _, card in on} == {"A", "B"}
    assert sorted(name for name, _ in on) == sorted(rows) == [f"p{n}" for n in range(6)]
    assert rows["p1"]["expert"] == 16.0
    assert all(rows[name]["share"] == 0.5 for name in rows if name != "p1")


def test_what_would_not_end_in_time_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.suite.search.measured", lambda *_: pytest.fail("it was begun"))
    given = argparse.Namespace(at_once=1, until=30.0, seconds=45.0, without_experts=True, known={})
    assert list(Runs(given, ["A"]).of([Program("p", "k", "x")])) == []


def test_searches_share_the_time_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def search(program: Program, _: argparse.Namespace, seconds: float, card: str) -> dict[str, Any]:
        asked.append(seconds)
        return {"program": program.name, "wall_seconds": 1.0, "card": card}

    monkeypatch.setattr("tests.suite.search.measured", search)
    given = argparse.Namespace(at_once=1, until=315.0, seconds=45.0, without_experts=True, known={})
    waiting = [Program(f"p{n:02}", "k", "x") for n in range(14)]
    assert len({row["program"] for row in Runs(given, ["A", "B"]).of(waiting)}) == len(asked) == 14
    assert asked[0] == pytest.approx(315 / 7 - 22, abs=1)
    # what the first ones left is for the others, as far as they may use it
    assert asked[-1] == 45.0


def test_a_suite_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text('[b]\nkernel = "k"\narea = "x"\n[a]\nkernel = "k"\narea = "x"\n')
    given = argparse.Namespace(suite=tmp_path, names=["b"])
    assert [program.expert for program in chosen(given)] == [tmp_path / "experts" / "b.cu"]
    with pytest.raises(SystemExit, match="has no c; it has a, b"):
        chosen(argparse.Namespace(suite=tmp_path, names=["c"]))


def test_what_an_earlier_run_has_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.suite.search.measured", lambda *_: pytest.fail("it was searched again"))
    monkeypatch.setattr("tests.suite.search.expert_ns", lambda *_: 2000.0)
    given = argparse.Namespace(at_once=1, until=None, without_experts=False, known={})
    done = {"program": "p", "kernel_us": 8.0, "wall_seconds": 1.0, "speedup": {"median": 2.0}}
    (row,) = Runs(given, ["A"]).of([Program("p", "k", "x")], [done])
    assert row is done and row["share"] == 0.5
    assert list(Runs(given, ["A"]).of([Program("p", "k", "x")], [row])) == []


def test_experts_of_another_card_are_not_taken(tmp_path: Path) -> None:
    result = {
        "gpu": "A",
        "rows": [{"program": "p", "kernel_us": 2.0, "expert": 3.0, "judged": 4}, {"program": "q"}],
    }
    (tmp_path / "r.json").write_text(json.dumps(result))
    assert known_of(tmp_path / "r.json", "A") == {"p": {"kernel_us": 2.0, "expert": 3.0}}
    assert known_of(tmp_path / "r.json", "B") == {}
    assert known_of(None, "A") == {}


@pytest.mark.thorough
def test_a_search_is_paced_with_no_card() -> None:
    program = next(program for program in programs() if program.name == "softmax")
    given = argparse.Namespace(idioms=False, seconds=300.0, budget=6, lanes=2, chunk=2, at_once=1)
    takes = Takes(*(0.02 for _ in Takes.__struct_fields__))
    (row,) = paced(program, Service(SUITE), given, takes)
    assert row["judged"] == 6 and 0.0 < row["first_verdict"] < row["seconds"] < 300.0
    assert 0.0 < row["card_busy"] < 1.0 and row["asking_cpu_ms_each"] > 0
