# SPDX-License-Identifier: Apache-2.0
"""A candidate's two sides: what is asked of which compiler, and whose words count."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from warplens.measure.build.both_sides import both_sides
from warplens.measure.build.unit import Unit
from warplens_tools.errors import CompileError

UNIT = cast("Unit", Path("a unit"))


def failed(text: str) -> CompileError:
    return CompileError(text, status=1, output=text, messages=())


class Compilers:
    """Answer what they are given, an error by raising it, the gate the next of its answers; `asked` says who was."""

    def __init__(self, gate: list[Any], compiled: Any = UNIT) -> None:
        self._answers = {"gate": list(gate), "compiler": [compiled]}
        self.asked: list[str] = []

    def _answer(self, who: str) -> Any:
        self.asked.append(who)
        said = self._answers[who].pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def ask(self, *, at_once: bool) -> Unit | str:
        return both_sides(
            lambda: cast("str", self._answer("gate")),
            lambda: cast("Unit", self._answer("compiler")),
            at_once=at_once,
        )


@pytest.mark.parametrize("at_once", [False, True])
def test_what_the_gate_lets_through_is_compiled(at_once: bool) -> None:
    assert Compilers([""]).ask(at_once=at_once) is UNIT
    assert Compilers(["another count"]).ask(at_once=at_once) == "another count"


@pytest.mark.parametrize("at_once", [False, True])
def test_the_compilers_own_words_count_where_both_fail(at_once: bool) -> None:
    both = Compilers([failed("the host side cannot be told")], failed("k.cu:3: expected a ;"))
    with pytest.raises(CompileError, match="expected a ;"):
        both.ask(at_once=at_once)


def test_what_the_gate_refuses_is_not_compiled_where_cores_are_taken() -> None:
    one = Compilers(["another count"])
    assert one.ask(at_once=False) == "another count"
    assert one.asked == ["gate"]


def test_the_gate_is_asked_again_where_only_its_fence_was_in_the_way() -> None:
    one = Compilers([failed("Permission denied"), "another count"])
    assert one.ask(at_once=False) == "another count"
    assert one.asked == ["gate", "compiler", "gate"]
    assert Compilers([failed("Permission denied"), ""]).ask(at_once=False) is UNIT
