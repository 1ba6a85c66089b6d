# SPDX-License-Identifier: Apache-2.0
"""The study's rounds on both sides of the files: prompts, answers, candidates, verdicts, a repair, the report."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec
import pytest
from tests.server.agent.doubles import CODE
from tests.server.measure.test_exchange import Judged
from tests.suite.between import between, interval
from tests.suite.study import confirm, drive, join, report, verdicts_of

from warplens.agent.edits import text_hash
from warplens.agent.llm.files import ANSWER, PROMPT
from warplens.measure.exchange import Description, Exchange, confirmed_as, judged_as
from warplens.measure.verdict import Candidate
from warplens.service.exchange import answer
from warplens_tools.text import SourceText, Span, TextEdit

PLAN = {
    "title": "another block",
    "idea": "fewer threads a block",
    "answers": [],
    "gain": 1.2,
    "anchors": [
        {
            "id": "A1",
            "first_line": 1,
            "last_line": 1,
            "first_text": "#define BLOCK 256",
            "last_text": "#define BLOCK 256",
            "change": "another size",
        }
    ],
}
#: The first is judged wrong and repaired, the second faster.
CODED = {"planner": [json.dumps(PLAN)], "coder": ["1024"], "debugger": ["128"]}


def reply(folder: Path) -> int:
    """Answer every prompt that has no answer yet."""
    replied = 0
    for prompt in sorted((folder / "prompts").glob(f"*{PROMPT}")):
        path = prompt.with_name(prompt.name.replace(PROMPT, ANSWER))
        if path.exists():
            continue
        said = CODED[prompt.name.split("-")[1]][0]
        path.write_text(
            said if said.startswith("{") else f'<anchor id="A1">\n#define BLOCK {said}\n</anchor>\n'
        )
        replied += 1
    return replied


def test_a_study_goes_on_with_verdicts_and_reports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "study"
    (folder / "prompts").mkdir(parents=True)
    (folder / "scale").mkdir()
    (folder / "scale" / "scale.cu").write_text(CODE)
    (folder / "scale" / "warplens.toml").write_text('tier = "source"\n')
    plan = {"kernels": {"scale": "scale"}, "budget": 2, "batch": 1, "feedback": "guidance"}
    (folder / "study.json").write_text(json.dumps(plan))
    for _ in range(12):
        drive(folder, once=True)
        standing = json.loads((folder / "standing.json").read_text())["scale"]
        if standing["ended"]:
            break
        # the prompts that want an answer are said, and no others
        said = [Path(line) for line in capsys.readouterr().out.splitlines()]
        wanted = [name for name in standing["waiting"] if name.endswith(ANSWER)]
        assert [path.name.replace(PROMPT, ANSWER) for path in said] == sorted(wanted)
        assert all(path.is_file() and path.parent == folder / "prompts" for path in said)
        assert reply(folder) == len(said)
        if not said:
            assert answer(folder / "asks" / "scale", judge=lambda *_: Judged(SourceText(CODE)))
    assert standing["ended"] == "faster"
    # which the search has asked for already
    asked = sorted((folder / "asks").glob("*/asks/confirm-*.json"))
    confirm(folder)
    assert sorted((folder / "asks").glob("*/asks/confirm-*.json")) == asked and len(asked) == 1
    other = tmp_path / "suite.json"
    other.write_text(
        json.dumps({"rows": [{"program": "scale", "expert": 1.6, "judged": 2, "speedup": {"median": 1.1}}]})
    )
    capsys.readouterr()
    report([folder], [other], None)
    (said,) = json.loads(capsys.readouterr().out)["arms"]
    (row,) = said["rows"]
    assert (row["judged"], row["right"], row["faster"], row["waiting"]) == (2, 1, 1, 0)
    assert row["states"] == {"wrong": 1, "faster": 1}
    assert [(t["state"], t.get("reason")) for t in row["tried"]] == [("wrong", "planted"), ("faster", None)]
    assert said["programs_made_faster"] == said["programs_with_a_verdict"] == 1
    assert row["best"] == row["confirmed"] > 1 and 0 < row["share"] <= 2
    # what is measured meanwhile is told from the first verdict on, so that nobody is asked the same twice
    early, *later = [
        p.read_text() for p in sorted((folder / "prompts").glob(f"*{PROMPT}")) if "-coder-" not in p.name
    ]
    assert "The original is launched" not in early and len(later) == 1
    assert row["without_model"]["speedup"]["median"] == 1.1 and said["prompts"]["debugger"] == 1
    spent = said["tokens_of_a_proposal"]
    assert set(spent) == {"planner", "coder", "debugger"}
    assert all(0 < role["replies"] < role["prompts"] < 5000 for role in spent.values())
    assert "+#define BLOCK 128" in row["diff"] and said["geometric_mean_of_the_search_without_a_model"] == 1.1
    # a search at as many evaluations that comes later
    kept = tmp_path / "report.json"
    report([folder], [], kept)
    assert "without_model" not in json.loads(kept.read_text())["arms"][0]["rows"][0]
    join(kept, [other])
    (joined,) = json.loads(kept.read_text())["arms"]
    assert joined == said


def test_what_did_not_hold_is_followed_by_the_next_best(tmp_path: Path) -> None:
    exchange, judge = Exchange(tmp_path / "asks" / "scale"), Judged(SourceText(CODE))
    exchange.begin(Description("1", "scale.cu", "/scale.cu", ""))
    known = {}
    for number, block in enumerate((160, 128, 512), 1):
        text = SourceText(CODE.replace("256", str(block), 1))
        edits = (TextEdit(Span(1, 1, 1, 18), f"#define BLOCK {block}"),)
        candidate = Candidate(f"c{number}", "/scale.cu", "scale", edits, text_hash=text_hash(text))
        exchange.ask(judged_as(candidate), candidate)
        (verdict,) = judge.judge([candidate])
        exchange.put(judged_as(candidate), verdict)
        known[candidate.id] = candidate
    states = {v.candidate: v.state for v in verdicts_of(exchange)}
    assert states == {"c1": "faster", "c2": "faster", "c3": "slower"}

    def asked() -> list[str]:
        confirm(tmp_path)
        return [name.split("-")[1] for name in exchange.waiting()]

    def answered(identity: str, state: str) -> None:
        held = judge.confirm(known[identity])
        verdict = msgspec.structs.replace(held.verdict, state=state)
        exchange.put(confirmed_as(known[identity]), msgspec.structs.replace(held, verdict=verdict))

    assert asked() == ["c2"] == asked(), "the fastest, once"
    answered("c2", "wrong")
    assert asked() == ["c1"]
    answered("c1", "faster")
    assert asked() == [], "one has held"


def arm(name: str, *programs: tuple[str, list[float]]) -> dict[str, Any]:
    """An arm's figures; 0 for what is not faster."""
    rows = [
        {
            "program": program,
            "tried": [{"state": "faster", "speedup": s} if s else {"state": "wrong"} for s in speedups],
        }
        for program, speedups in programs
    ]
    return {"name": name, "rows": rows}


def test_arms_are_compared_by_as_many_proposals_of_the_same_programs() -> None:
    told = arm("told", ("a", [4.0, 4.0, 0.0, 64.0]), ("b", [2.0, 2.0]), ("c", [9.0]), ("d", []))
    bare = arm("bare", ("a", [2.0, 1.0, 2.0]), ("b", [2.0, 2.0]), ("d", [3.0]))
    found = between(told, bare)
    assert found is not None and found["proposals_of_each"] == {"a": 3, "b": 2}
    # of a: 16 ** (1/3) against 4 ** (1/3), and 4 against 2; of b nothing
    assert found["by_program"]["a"] == {"proposal": 1.587, "best": 2.0}
    assert found["proposal"]["ratio"] == 1.26 and found["best"]["ratio"] == 1.414
    assert found["proposal"]["low"] < 1.26 < found["proposal"]["high"]
    alone = between(arm("x", ("b", [2.0, 2.0])), bare)
    assert alone is not None and set(alone["proposal"].values()) == {1.0}
    assert between(arm("x", ("c", [1.5])), bare) is None


@pytest.mark.thorough
def test_an_interval_holds_what_it_should() -> None:
    """Of two arms that draw alike, about one in twenty intervals leaves 1 out."""
    draw = random.Random(3)

    def drawn() -> tuple[list[float], list[float]]:
        return [draw.gauss(1, 0.5) for _ in range(6)], [draw.gauss(1, 0.5) for _ in range(6)]

    found = [interval([drawn() for _ in range(4)], mean, resamples=300) for _ in range(60)]
    outside = sum(not one["low"] <= 1 <= one["high"] for one in found)
    assert outside <= 12
