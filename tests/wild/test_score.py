# SPDX-License-Identifier: Apache-2.0
"""Labels are counted as they say, a set with a gap is no set, and what is drawn is drawn within its caps."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.wild.calibrate import calibrated, findings_now, held, kinds, left_out, written
from tests.wild.commands import written as database_of
from tests.wild.density import density
from tests.wild.draw import Most, entries, parts, taken
from tests.wild.gather import drawn
from tests.wild.score import joined, scored

from warplens_tools.toolchain.flags import unit_flags

Row = dict[str, Any]


def row(kernel: str, kind: str = "warning", **more: Any) -> Row:
    place = {"repository": "a/b", "path": "k.cu", "line": 3, "kernel": kernel, "confidence": "high"}
    return {**place, "id": kernel, "code": "WL101", "tool": "1234", "kind": kind, **more}


def test_shares_by_confidence_and_what_was_missed() -> None:
    rows = [
        row("a", label="right"),
        row("b", label="wrong", confidence="low"),
        row("c", label="right", missed="the loads are not coalesced"),
        row("d", "silent", hot=True, remarks=["x", "y"], has=[False, True]),
        row("e", "silent", hot=True, remarks=["x"], has=[True]),
        row("f", "silent", hot=False, remarks=[], has=[]),
    ]
    got = scored(rows)
    assert got["all"]["share"] == {"right": 0.667, "wrong": 0.333}
    assert got["by_confidence"]["high"]["share"] == {"right": 1.0, "wrong": 0.0}
    assert got["kernels_with_an_important_remark"] == 4
    assert got["of_these_the_tool_has_it"] == 0.5
    assert got["silent_kernels"]["remarks_said_below_a_warning"] == 2


@pytest.mark.parametrize("answers", [[], [{"id": "a", "label": ""}], [{"id": "a", "label": "perhaps"}]])
def test_a_set_with_a_row_unlabelled_is_refused(answers: list[Row]) -> None:
    with pytest.raises(ValueError, match=r"k\.cu:3"):
        joined([row("a")], answers)


def test_a_silent_kernel_needs_a_word_on_every_remark() -> None:
    with pytest.raises(ValueError, match=r"k\.cu:3"):
        joined([row("a", "silent")], [{"id": "a", "hot": True, "remarks": ["x"], "has": []}])


def test_repositories_take_turns_and_the_draw_repeats(tmp_path: Path) -> None:
    for repository in ("a+a", "b+b"):
        (tmp_path / repository).mkdir()
        for i in range(3):
            (tmp_path / repository / f"{i}.cu").write_text("__global__ void k() {}\n")
        (tmp_path / repository / "host.cu").write_text("int main() {}\n")
    first = list(drawn(tmp_path, 4, seed=1))
    assert [name for name, _ in first] == ["a+a", "b+b", "a+a", "b+b"]
    assert first == list(drawn(tmp_path, 4, seed=1))
    assert all(path.name != "host.cu" for _, path in drawn(tmp_path, 99, seed=1))
    assert Counter(name for name, _ in drawn(tmp_path, 99, 1, {"a+a": 1, "b+b": 0})) == {"a+a": 1}


def answer(repository: str, path: str, findings: list[Row], kernels: list[str]) -> Row:
    reports: list[Row] = [
        {"qualified_name": name, "line": 1, "end_line": 2, "resources": {}, "bottleneck": None}
        for name in kernels
    ]
    file = {"path": f"/r/{repository}/{path}", "arch": "sm_90", "findings": findings, "kernels": reports}
    place = {"repository": repository, "commit": "c", "path": path, "root": f"/r/{repository}"}
    return {**place, "answer": {"files": [file]}}


def finding(kernel: str, line: int, severity: str = "warning", code: str = "WL101") -> Row:
    shown = {"kernel": kernel, "code": code, "slug": "s", "severity": severity, "confidence": "high"}
    return {**shown, "message": "m", "guidance": "g", "span": {"line": line}}


def test_what_is_drawn_is_each_warning_once_and_kernels_without_one() -> None:
    twice = answer("a", "k.cuh", [finding("k", 3), finding("m", 9, "information")], ["k", "m"])
    found = entries([twice, twice, answer("a", "x.cu", [finding("", 1, code="WL901")], ["x"])])
    assert [(e["kind"], e["kernel"]) for e in found] == [("silent", "m"), ("warning", "k")]
    assert found[0]["others"][0]["line"] == 9


def test_no_file_and_no_repository_fills_the_draw() -> None:
    answers = [
        answer(name, f"{file}.cu", [finding("k", line) for line in range(20)], ["k"])
        for name in "ab"
        for file in range(10)
    ]
    got = taken(entries(answers), "warning", 45, random.Random(0))
    assert Counter(e["repository"] for e in got) == {"a": 23, "b": 22}
    assert max(Counter((e["repository"], e["path"]) for e in got).values()) <= 6
    assert got == taken(entries(answers), "warning", 45, random.Random(0))
    split = parts(got, 3)
    assert sorted(map(len, split))[0] >= 12
    files = [{(e["repository"], e["path"]) for e in part} for part in split]
    assert not files[0] & files[1] | files[1] & files[2] | files[0] & files[2]


def test_no_check_fills_a_file_either() -> None:
    two = [finding("k", line, code=code) for line in range(9) for code in ("WL101", "WL102")]
    got = taken(
        entries([answer("a", "k.cu", two, ["k"])]), "warning", 9, random.Random(0), {"warning": Most(5, 9, 3)}
    )
    assert len(got) == 5
    assert max(Counter(e["code"] for e in got).values()) == 3


def test_density_counts_a_header_once_and_nothing_of_what_does_not_compile() -> None:
    twice = answer("a", "k.cuh", [finding("k", 3), finding("m", 9, "information")], ["k", "m"])
    got = density([twice, twice, answer("a", "x.cu", [finding("", 1, code="WL901")], ["x"])])
    assert (got["kernels"], got["kernel_lines"], got["warnings"]) == (1, 2, 1)
    assert got["warnings_per_1000_kernel_lines"] == 500.0


def test_include_folders_are_those_that_make_includes_resolve(tmp_path: Path) -> None:
    (tmp_path / "src/ops").mkdir(parents=True)
    (tmp_path / "include/lib").mkdir(parents=True)
    (tmp_path / "old/lib").mkdir(parents=True)
    (tmp_path / "old/lib/a.h").write_text("")
    (tmp_path / "include/lib/a.h").write_text('#include "deep/b.h"\n')
    (tmp_path / "include/lib/more/deep").mkdir(parents=True)
    (tmp_path / "include/lib/more/deep/b.h").write_text("#include <b.h>\n")
    (tmp_path / "src/ops/near.h").write_text("")
    unit = tmp_path / "src/ops/k.cu"
    unit.write_text('#include "near.h"\n#include <lib/a.h>\n#include <stdio.h>\n')
    assert database_of(tmp_path, [], None, ["-DX=1"]) == 1
    flags = unit_flags(unit, root=tmp_path)
    assert flags.include_dirs == (tmp_path / "include", tmp_path / "include/lib/more")
    assert "-DX=1" in flags.arguments


def test_labels_are_held_against_what_is_said_now() -> None:
    seen = {"gain": {"estimate": 2.0}, "missing": [], "evidence": [{"tier": "binary"}]}
    now = [
        finding("k", 3) | seen,
        finding("k", 9, "information") | seen | {"missing": ["the grid size"]},
        finding("k", 30, "information") | seen | {"gain": None},
    ]
    labelled = [
        row("k", label="right"), row("k", label="wrong", line=9), row("k", label="wrong", line=20),
        row("k", label="wrong", line=30),
    ]  # fmt: skip
    found = held(labelled, findings_now([answer("a/b", "k.cu", now, ["k"])]))
    assert [entry["now"] for entry in found] == ["warning", "information", "gone", "information"]
    assert kinds(found) == {"WL101 compiled, seen": {"right": 1}, "WL101 compiled, size unseen": {"wrong": 1}}
    tables = calibrated(found)
    assert tables["code"] == {"WL101": {"right": 1, "arguable": 0, "misleading": 0, "wrong": 0}}
    table = tomllib.loads(written(kinds(found), Counter({"WL101 compiled, seen": 2})))
    assert table["kinds"]["WL101 compiled, seen"] == {"right": 1, "of": 1, "planted": 2}


def test_a_set_left_out_has_no_say_in_what_warns_of_it() -> None:
    said = {"code": "WL101", "gain": {"estimate": 2.0}, "missing": [], "evidence": [{"tier": "source"}],
            "severity": "information"}  # fmt: skip
    first = [{"set": "a", "label": "right", "said": said} for _ in range(9)]
    second = [{"set": "b", "label": label, "said": said} for label in ("wrong", "wrong", "right")]
    small = {"set": "b", "label": "wrong", "said": said | {"gain": {"estimate": 1.1}}}
    silent = {"set": "b", "label": "wrong", "said": said | {"gain": None}}
    found = left_out([*first, *second, small, silent], {})
    assert found["b"] == {"right": 1, "arguable": 0, "misleading": 0, "wrong": 2}
    assert sum(found["a"].values()) == 0
