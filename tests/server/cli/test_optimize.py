# SPDX-License-Identifier: Apache-2.0
"""`warplens optimize` and `warplens history` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from rich.console import Console
from tests.server.agent.doubles import CODE, ComputedJudge, problem

from warplens.agent.result import OptimizeResult
from warplens.agent.search_loop import optimize
from warplens.cli.main import run
from warplens.cli.optimize import print_result, proof_lines
from warplens.measure.verdict import Outside
from warplens.store.database import open_store
from warplens.store.rates import HitRate
from warplens.store.runs import Run
from warplens_tools.arch.load import query_devices
from warplens_tools.text import SourceText

no_gpu = pytest.mark.skipif(bool(query_devices().devices), reason="there is a GPU, so edits get proven")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    (tmp_path / "scale.cu").write_text(CODE)
    return tmp_path / "home"


def valid(answer: object, kind: object) -> None:
    jsonschema.Draft202012Validator(msgspec.json.schema(kind)).validate(answer)


@no_gpu
def test_without_a_gpu_unproven_edits_are_offered_and_the_status_says_that_nothing_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["optimize", str(tmp_path / "scale.cu"), "--apply", "--format", "json"]) == 2
    said = capsys.readouterr()
    answer = json.loads(said.out)
    valid(answer, OptimizeResult)
    assert answer["outcome"] == "unproven" and answer["remedy"]
    assert {offer["status"] for offer in answer["offers"]} == {"unproven"}
    assert (tmp_path / "scale.cu").read_text() == CODE


@no_gpu
def test_the_text_names_the_reason_and_shows_the_diffs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["optimize", str(tmp_path / "scale.cu"), "--kernel", "scale"]) == 2
    out = capsys.readouterr().out
    assert "nothing can be measured" in out and "unproven: BLOCK: 256 to 128" in out
    assert "+#define BLOCK 128" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.cu"], "cannot read"),
        (["scale.cu", "--kernel", "other"], "no kernel other"),
        (["scale.cu", "--budget", "0"], "budget"),
        (["scale.cu", "--arch", "sm_1"], "sm_1"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["optimize", *arguments]) == 2
    streams = capsys.readouterr()
    assert streams.out == "" and said in streams.err and "Traceback" not in streams.err


def test_a_proof_is_shown_with_times_conditions_and_what_was_tried(home: Path) -> None:
    with open_store(home) as store:
        result = optimize(problem(control=True), ComputedJudge(SourceText(CODE)), store)
    console = Console(record=True, width=120)
    print_result(console, result)
    text = console.export_text()
    assert "+#define BLOCK 128" in text
    assert "a test double, driver 0, CUDA 0" in text
    assert "95 %" in text and "noise" in text and "random-search baseline, 24 candidates" in text
    assert text.count("\nc") >= 24


def test_a_proof_from_outside_says_so(home: Path) -> None:
    with open_store(home) as store:
        result = optimize(problem(), ComputedJudge(SourceText(CODE)), store)
    assert result.proof is not None
    (timing, *_) = result.proof.verdict.timings
    outside = Outside(("exit status 0",), ("standard error",), ("results remembered",))
    verdict = msgspec.structs.replace(
        result.proof.verdict, outside=outside, timings=(msgspec.structs.replace(timing, span="process"),)
    )
    lines = proof_lines(result, msgspec.structs.replace(result.proof, verdict=verdict))
    assert lines[:4] == [
        "judged from outside the program, because host code was edited",
        "compared: exit status 0",
        "not compared: standard error",
        "could not be ruled out: results remembered",
    ]
    assert " ms before, " in lines[4]
    assert lines[4].endswith("whole process, on the clock outside")


def test_history_lists_runs_and_what_rules_were_worth(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "runs"]) == 0
    assert "no runs yet" in capsys.readouterr().out
    with open_store(home) as store:
        optimize(problem(), ComputedJudge(SourceText(CODE)), store)
    assert run(["history", "runs", "--format", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    valid(runs, list[Run])
    assert [(r["outcome"], r["target"]["kernel"]) for r in runs] == [("faster", "scale")]
    assert run(["history", "rules", "--format", "json"]) == 0
    rules = json.loads(capsys.readouterr().out)
    valid(rules, list[HitRate])
    assert "parameter:block" in {rule["subject"] for rule in rules}
    assert run(["history", "rules"]) == 0
    assert "parameter:block" in capsys.readouterr().out
