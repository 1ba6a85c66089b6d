# SPDX-License-Identifier: Apache-2.0
"""How many values a register can hold, whatever the data."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import code

from warplens_tools.sass.flow import analyse
from warplens_tools.sass.value_count import ValueCount


def places(text: str, *, in_block: bool = True) -> int | None:
    """Of the access that stands last."""
    written = code(text)
    return ValueCount(written, analyse(written), in_block=in_block).places(len(written) - 1)


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("LDG.E R4, desc[UR4][R2.64]\nLOP3.LUT R5, R4, 0x3f, RZ, 0xc0, !PT", 64),
        ("LDG.E.U8 R4, desc[UR4][R2.64]\nIMAD.SHL.U32 R5, R4, 0x4, RZ", 256),
        ("LDG.E R4, desc[UR4][R2.64]\nSHF.R.U32.HI R5, RZ, 0x1c, R4", 16),
        ("LDG.E R4, desc[UR4][R2.64]\nMOV R5, R4", None),
        ("MOV R5, RZ", 1),
        ("LDG.E.U8 R4, desc[UR4][R2.64]\nVIMNMX R5, R4, 0x7, PT", 8),
    ],
)
def test_masks_shifts_and_narrow_loads_bound_a_place(made: str, count: int | None) -> None:
    assert places(f"{made}\nATOMS.POPC.INC.32 RZ, [R5]") == count


def test_the_number_of_the_block_is_one_value_within_a_block() -> None:
    text = "S2R R5, SR_CTAID.X\nATOMS.POPC.INC.32 RZ, [R5]"
    assert places(text) == 1
    assert places(text, in_block=False) is None
    assert places("S2R R5, SR_TID.X\nATOMS.POPC.INC.32 RZ, [R5]") is None


def test_what_a_loop_carries_round_is_not_followed() -> None:
    step = "ATOMS.POPC.INC.32 RZ, [R5]"
    assert places(f"MOV R5, RZ\n.L:\n{step}\nIADD3 R5, R5, R9, RZ\n@P0 BRA `(.L)\n{step}") is None


class Counted(ValueCount):
    """How often a register is followed."""

    followed = 0

    def _register(self, name: str, at: int, depth: int) -> int:
        self.followed += 1
        return super()._register(name, at, depth)


def test_rounds_of_a_hash_are_followed_once_each() -> None:
    # 20 rounds that each read what the one before made twice: a million ways back to the load
    rounds = "\n".join(f"SHF.L.U32 R6, R4, {n % 7 + 1:#x}, RZ\nIADD3 R4, R6, R4, R7" for n in range(20))
    text = f"LDG.E R4, desc[UR4][R2.64]\n{rounds}\nLOP3.LUT R5, R4, 0x3f, RZ, 0xc0, !PT\nATOMS.POPC.INC.32 RZ, [R5]"
    written = code(text)
    count = Counted(written, analyse(written), in_block=True)
    assert count.places(len(written) - 1) == 64
    # at most each register of each instruction at each depth
    assert count.followed < 2 * len(written) * 25
