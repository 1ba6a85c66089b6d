# SPDX-License-Identifier: Apache-2.0
"""The study's rounds on both sides of the files: prompts, answers, candidates, verdicts, a repair, the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.server.agent.doubles import CODE
from tests.server.measure.test_exchange import Judged
from tests.suite.study import confirm, drive, report

from warplens.agent.llm.files import ANSWER, PROMPT
from warplens.service.exchange import answer
from warplens_tools.text import SourceText

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
        if not reply(folder):
            assert answer(folder / "asks" / "scale", judge=lambda *_: Judged(SourceText(CODE)))
    assert standing["ended"] == "faster"
    # which the search has asked for already
    asked = sorted((folder / "asks").glob("*/asks/confirm-*.json"))
    confirm(folder)
    assert sorted((folder / "asks").glob("*/asks/confirm-*.json")) == asked and len(asked) == 1
    other = tmp_path / "suite.json"
    other.write_text(json.dumps({"rows": [{"program": "scale", "expert": 1.6, "judged": 2, "speedup": 1.1}]}))
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
    assert row["without_model"]["speedup"] == 1.1 and said["prompts"]["debugger"] == 1
