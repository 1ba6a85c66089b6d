# SPDX-License-Identifier: Apache-2.0
"""Routines behind a kernel's own code, and how often they are called."""

from __future__ import annotations

from tests.tools.sass.test_flow import program

from warplens_tools.sass.blocks import body_of
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.routines import RARE_WEIGHT, with_routines


def test_a_routine_weighs_what_its_calls_weigh_unless_a_branch_passes_over_them() -> None:
    code = tuple(program("MOV", ("CALL", 5, ""), ("BRA", 0), "EXIT", "NOP", "DMUL", "RET"))
    assert body_of(code, 80) == [5, 6]
    assert body_of(code, None) == []
    assert with_routines(code, analyse(code), [1.0, 32.0, 1.0, 1.0, 1.0, 1.0, 1.0])[5:] == (32.0, 32.0)


def test_the_way_out_for_rare_operands_does_not_count() -> None:
    code = tuple(program(("BRA", 2), ("CALL", 5, ""), "FADD", ("BRA", 0), "EXIT", "DMUL", "RET"))
    assert with_routines(code, analyse(code), [1.0] * 7) == (1.0,) * 5 + (RARE_WEIGHT,) * 2


def test_one_of_two_sides_counts_half() -> None:
    code = tuple(
        program(("BRA", 3), ("CALL", 6, ""), ("BRA", 4, ""), "FADD", ("BRA", 0), "EXIT", "DMUL", "RET")
    )
    assert with_routines(code, analyse(code), [1.0] * 8)[6:] == (0.5, 0.5)
