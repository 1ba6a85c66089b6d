# SPDX-License-Identifier: Apache-2.0
"""Expected gains from a bounded model."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import sass_of

from warplens_tools.evidence import Instruction
from warplens_tools.finding import Gain
from warplens_tools.machine.gain import bound_ratio, removal_gain, replacement_gain

SASS = sass_of("MUFU.EX2 R4, R6\nMUFU.EX2 R4, R6\nFADD R4, R6, R8\nEXIT")


def test_removing_what_bounds_gains_up_to_the_next_ceiling() -> None:
    found = removal_gain(SASS, [0], {})
    assert found is not None
    assert found.estimate == 2.0
    capped = removal_gain(SASS, [0], {"dram": 3.0})
    assert capped is not None
    assert capped.estimate == pytest.approx(1.33, abs=0.01)


def test_what_hides_behind_another_bound_gains_nothing_and_nothing_removed_is_no_gain() -> None:
    found = removal_gain(SASS, [2], {"dram": 10.0})
    assert found is not None
    assert found.estimate == 1.0
    assert removal_gain(SASS, [], {}) is None


def test_clocks_that_go_with_the_removed_count_before_alone() -> None:
    found = removal_gain(SASS, [2], {"l2": 1.0}, added={"l2": 15.0})
    assert found is not None
    assert found.estimate == 4.0


def test_replacing_goes_by_the_new_pipe() -> None:
    def single(_: int, x: Instruction) -> Instruction | None:
        return Instruction(0, "FADD", (), ()) if x.opcode == "MUFU" else x

    assert replacement_gain(SASS, SASS.weights, single, {}).estimate == 4.0


def test_a_gain_is_ordered_and_rounded() -> None:
    assert Gain.of(1.234, 1.1) == Gain(1.23, 1.0, 1.23)
    assert Gain.of(0.5, 0.5) == Gain(1.0, 1.0, 1.0)
    assert bound_ratio({"a": 4.0}, {"a": 1.0, "b": 2.0}) == 2.0
    assert bound_ratio({}, {}) == 1.0
