# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from warplens.measure.kernel.shapes import over_shapes
from warplens.measure.verdict import State, Verdict


def over(*states: State) -> Verdict:
    names = ["", *(f"with grid {n}" for n in range(1, len(states)))]
    return over_shapes([(n, Verdict("c", s, f"it was {s}")) for n, s in zip(names, states, strict=True)])


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("faster",), "faster"),
        (("faster", "same"), "faster"),
        (("same", "faster"), "faster"),
        (("same", "same"), "same"),
        (("faster", "slower"), "same"),
        (("same", "slower"), "slower"),
        (("slower", "slower", "slower"), "slower"),
        (("faster", "wrong"), "wrong"),
        (("faster", "same", "hung"), "hung"),
    ],
)
def test_faster_is_faster_somewhere_and_slower_nowhere(states: tuple[State, ...], expected: State) -> None:
    assert over(*states).state == expected


def test_the_reason_names_the_shape() -> None:
    assert over("faster", "wrong").reason == "with grid 1: it was wrong"
    assert over("faster", "same").reason == "it was faster; with grid 1: it was same"
    assert over("faster", "slower").reason.startswith("faster at one launch shape and slower at another: ")
