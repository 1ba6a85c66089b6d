# SPDX-License-Identifier: Apache-2.0
"""Labels are counted as they say, and a set with a gap is no set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.wild.gather import drawn
from tests.wild.score import scored


def row(kernel: str, label: str, kind: str = "warning", **more: Any) -> dict[str, Any]:
    place = {"repository": "a/b", "path": "k.cu", "line": 3, "kernel": kernel, "confidence": "high"}
    return {**place, "kind": kind, "label": label, **more}


def test_shares_by_confidence_and_what_was_missed() -> None:
    rows = [
        row("a", "right"),
        row("b", "wrong", confidence="low"),
        row("c", "right", missed=True),
        row("d", "missed", kind="silent"),
        row("e", "said", kind="silent"),
        row("f", "nothing", kind="silent"),
    ]
    got = scored(rows)
    assert got["all"]["share"] == {"right": 0.667, "wrong": 0.333}
    assert got["by_confidence"]["high"]["share"] == {"right": 1.0, "wrong": 0.0}
    assert got["important_remarks"] == 4
    assert got["important_remarks_it_has"] == 0.5


def test_a_set_with_a_row_unlabelled_is_refused() -> None:
    with pytest.raises(ValueError, match=r"k\.cu:3"):
        scored([row("a", "")])


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
