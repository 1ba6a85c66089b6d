# SPDX-License-Identifier: Apache-2.0
"""`optimize` on a card: geometry that only the rebuilt program knows, template arguments, resuming."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warplens.cli.main import run

PROGRAMS = Path(__file__).parent / "programs"
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]


def optimized(name: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    capsys.readouterr()
    assert run(["optimize", str(PROGRAMS / name), "--format", "json", *options]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("program", ["sample_style.cu", "template_block.cu"])
def test_a_block_size_is_judged_with_the_geometry_the_program_computes(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path))
    answer = optimized(program, capsys, "--budget", "6")
    rows = [row for row in list(answer["tried"]) if row["title"].startswith("block.x")]  # type: ignore[call-overload]
    assert rows
    assert {row["state"] for row in rows} <= {"faster", "same", "slower"}, rows


def test_a_run_goes_on_without_paying_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path))
    first = optimized("sample_style.cu", capsys, "--budget", "4")
    again = optimized("sample_style.cu", capsys, "--budget", "6", "--resume")
    assert again["run"] == first["run"]
    spent = dict(again["spent"])  # type: ignore[call-overload]
    assert (spent["candidates"], spent["resumed"]) == (6, 4)
