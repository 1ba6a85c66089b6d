# SPDX-License-Identifier: Apache-2.0
"""What an iteration may skip by the values it compares, as the blocks of its loop tell."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import code

from warplens_tools.evidence import Instruction
from warplens_tools.sass.by_data import skipped_by_data
from warplens_tools.sass.flow import analyse


def program(compare: str, skip: str = ".L_2") -> tuple[Instruction, ...]:
    """A loop whose middle block a comparison lets it skip."""
    return code(
        f"""MOV R1, R2
.L_1:
LDG.E R4, desc[UR4][R2.64]
{compare}
@!P0 BRA `({skip})
FFMA R6, R4, R4, R6
MUFU.SIN R7, R4
.L_2:
IADD3 R0, R0, 0x1, RZ
ISETP.GE.AND P1, PT, R0, R8, PT
@!P1 BRA `(.L_1)
.L_3:
EXIT"""
    )


@pytest.mark.parametrize(
    ("compare", "skipped"),
    [
        ("FSETP.GEU.AND P0, PT, R4, R9, PT", {4, 5}),
        ("DSETP.GEU.AND P0, PT, R4, R10, PT", {4, 5}),
        ("ISETP.GE.AND P0, PT, R4, R9, PT", set()),
    ],
)
def test_values_let_an_iteration_skip_what_one_side_of_a_branch_has(compare: str, skipped: set[int]) -> None:
    instructions = program(compare)
    assert skipped_by_data(instructions, analyse(instructions)) == skipped


def test_a_loop_that_values_end_skips_nothing() -> None:
    instructions = program("FSETP.GEU.AND P0, PT, R4, R9, PT", skip=".L_3")
    assert skipped_by_data(instructions, analyse(instructions)) == frozenset()
