# SPDX-License-Identifier: Apache-2.0
"""The math library's slow paths: behind the test for a huge angle, wherever its answer is used."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from tests.tools.sass.test_flow import program

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import basic_blocks
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.slow_paths import slow_starts


def rare(code: Sequence[Instruction]) -> frozenset[int]:
    """Instructions of slow paths."""
    return analyse(tuple(code)).rare


def test_a_kernel_without_such_a_test_has_none() -> None:
    code = program("FSETP", ("BRA", 3, "@!P1"), "STL", "EXIT")
    assert slow_starts(code, basic_blocks(code)) == []


def huge_test(code: list[Instruction], at: int, opcode: str, limit: str) -> None:
    """Make one instruction the test for a huge angle, in P1."""
    code[at] = msgspec.structs.replace(
        code[at], opcode=opcode, modifiers=("GE", "AND"), operands=("P1", "PT", "|R4|", limit, "PT")
    )


def test_a_second_function_of_the_angle_uses_the_test_of_the_first() -> None:
    branch = ("BRA", 3, "@!P1")
    code = program("FSETP", branch, "STL", "FMUL", ("BRA", 6, "@!P1"), "LDL", "FADD", "EXIT")
    huge_test(code, 0, "FSETP", "105615")
    assert rare(code) == {2, 5}


def test_a_predicate_that_was_set_again_is_the_test_no_longer() -> None:
    code = program("FSETP", ("BRA", 3, "@!P1"), "STL", "ISETP", ("BRA", 6, "@!P1"), "LDL", "FADD", "EXIT")
    huge_test(code, 0, "FSETP", "105615")
    code[3] = msgspec.structs.replace(code[3], operands=("P1", "PT", "R4", "RZ", "PT"))
    assert rare(code) == {2}


def test_one_way_without_the_test_leaves_a_branch_undecided() -> None:
    code = program(("BRA", 3, "@P3"), "FSETP", ("BRA", 4, ""), "ISETP", ("BRA", 6, "@!P1"), "LDL", "EXIT")
    huge_test(code, 1, "FSETP", "105615")
    code[3] = msgspec.structs.replace(code[3], operands=("P1", "PT", "R4", "RZ", "PT"))
    assert rare(code) == frozenset()


def test_the_routine_of_a_huge_double_angle_is_rare_and_so_is_what_it_alone_calls() -> None:
    branch, call = ("BRA", 3, "@!P1"), ("CALL", 5, "")
    code = program("DSETP", branch, call, "DFMA", "EXIT", "LDL", ("CALL", 9, ""), "STL", "RET", "DMUL", "RET")
    huge_test(code, 0, "DSETP", "2.14748364800000000000e+09")
    assert rare(code) == {2, 5, 6, 7, 8, 9, 10}
    other = program("DSETP", branch, call, ("CALL", 9, ""), "EXIT", "LDL", call, "RET", "NOP", "DMUL", "RET")
    huge_test(other, 0, "DSETP", "2.14748364800000000000e+09")
    assert 9 not in rare(other)
