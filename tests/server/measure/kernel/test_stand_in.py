# SPDX-License-Identifier: Apache-2.0
"""What the user's program prints with a candidate in place, and with its own results where launches are compared."""

from __future__ import annotations

import pytest

from warplens.measure.kernel.accompany import AccompaniedRun
from warplens.measure.kernel.stand_in import InPlace
from warplens.measure.program.whole import ProgramRun

PLAIN = ProgramRun(0, 0.5, "2112 plates, 0 ahead\n", "")
AHEAD = ProgramRun(0, 0.9, "2112 plates, 1408 ahead\n", "")


def in_place(ran: ProgramRun, again: ProgramRun = PLAIN) -> InPlace:
    return InPlace(ran=AccompaniedRun("right", "5 of 12 launches compared", (), (), ran), again=again)


def never() -> ProgramRun | None:
    raise AssertionError("a program that prints the same is asked no more")


def test_what_prints_the_same_is_right() -> None:
    assert in_place(PLAIN).shown(PLAIN, 0.0, never).right
    assert in_place(ProgramRun(0, 0.9, "2112 plates, 3 ahead\n", ""), AHEAD).shown(PLAIN, 0.0, never).right


@pytest.mark.parametrize("control", [PLAIN, None])
def test_what_prints_otherwise_is_wrong_where_its_own_results_print_the_same_or_are_not_known(
    control: ProgramRun | None,
) -> None:
    shown = in_place(AHEAD).shown(PLAIN, 0.0, lambda: control)
    assert shown.odd is not None and shown.odd[0] == "wrong" and "1408 ahead" in shown.odd[1]


def test_what_prints_otherwise_with_its_own_results_too_is_not_known() -> None:
    shown = in_place(AHEAD).shown(PLAIN, 0.0, lambda: ProgramRun(0, 0.9, "2112 plates, 22434 ahead\n", ""))
    assert shown.odd is None and not shown.right
    assert "with its own results, too" in shown.unknown[0].why
