# SPDX-License-Identifier: Apache-2.0
"""What an iteration may skip by the values it compares, as the blocks of its loop tell."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.tools.sass.written import code

from warplens_tools.evidence import Instruction
from warplens_tools.sass.by_data import counted_shares, skips_by_data
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
    (skip,) = skips_by_data(instructions, analyse(instructions)) or (None,)
    assert (set(skip.skipped) if skip else set()) == skipped
    assert skip is None or instructions[skip.test].opcode == compare.partition(".")[0]


def test_a_loop_that_values_end_skips_nothing() -> None:
    instructions = program("FSETP.GEU.AND P0, PT, R4, R9, PT", skip=".L_3")
    assert not any(s.skipped for s in skips_by_data(instructions, analyse(instructions)))


COUNT = "IADD3 R5, R5, 0x1, RZ\n"


@pytest.mark.parametrize(
    ("compare", "share"),
    [
        (f"{COUNT}ISETP.EQ.AND P0, PT, R5, 0x40, PT", 1 / 64),
        (f"{COUNT}ISETP.EQ.U32.AND P0, PT, R5, 0x10, PT", 1 / 16),
        ("VIADD R5, R5, 0x1\nISETP.EQ.AND P0, PT, R5, 0x40, PT", 1 / 64),
        # The branch goes past those that are there.
        (f"{COUNT}ISETP.NE.AND P0, PT, R5, 0x40, PT", None),
        # No counter, no number, steps that may pass it by, or a bound.
        ("LDG.E R5, desc[UR4][R2.64]\nISETP.EQ.AND P0, PT, R5, 0x40, PT", None),
        (f"{COUNT}ISETP.EQ.AND P0, PT, R5, R9, PT", None),
        (f"{COUNT}ISETP.EQ.AND P0, PT, R5, 0x40, P2", None),
        ("IADD3 R5, R5, 0x4, RZ\nISETP.EQ.AND P0, PT, R5, 0x40, PT", None),
        (f"{COUNT}ISETP.LT.AND P0, PT, R5, 0x40, PT", None),
        (f"{COUNT}ISETP.EQ.AND P0, PT, R5, RZ, PT", None),
    ],
)
def test_what_waits_for_a_counter_is_done_once_in_as_many_iterations(
    compare: str, share: float | None
) -> None:
    instructions = program(compare)
    found = counted_shares(instructions, analyse(instructions))
    guarded = [i for i, x in enumerate(instructions) if x.opcode in ("FFMA", "MUFU")]
    assert found == ({} if share is None else dict.fromkeys(guarded, share))


def test_a_branch_around_goes_by_the_counter_as_well() -> None:
    compare = f"{COUNT}ISETP.NE.AND P0, PT, R5, 0x40, PT"
    around = [
        x if x.opcode != "BRA" or x.predicate != "@!P0" else replace(x, predicate="@P0")
        for x in program(compare)
    ]
    assert set(counted_shares(around, analyse(around)).values()) == {1 / 64}
