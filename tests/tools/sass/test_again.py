# SPDX-License-Identifier: Apache-2.0
"""Loads from an address that a thread had before, a store between them."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import sass_of

from warplens_tools.sass.again import loaded_again

HEAD = """S2R R0, SR_TID.X
IMAD.WIDE R2, R0, 0x4, c[0x0][0x210]
IMAD.WIDE R4, R0, 0x4, c[0x0][0x218]
LDG.E R6, desc[UR4][R2.64]
LDG.E R7, desc[UR4][R4.64]
"""
STORE, BARRIER = "STG.E desc[UR4][R4.64], R6\n", "BAR.SYNC.DEFER_BLOCKING 0x0\n"
AGAIN = "LDG.E R8, desc[UR4][R2.64]\nLDG.E R9, desc[UR4][R4.64]\n"


@pytest.mark.parametrize(
    ("between", "again", "found"),
    [
        (STORE, AGAIN, (6, 7)),
        ("NOP\n", AGAIN, ()),
        (STORE + BARRIER, AGAIN, ()),
        (BARRIER + STORE, AGAIN, ()),
        (STORE, AGAIN.replace("LDG.E", "LDG.E.STRONG.GPU"), ()),
        (STORE, AGAIN.replace("R2.64]", "R2.64+0x4]"), (7,)),
    ],
    ids=["behind a store", "no store", "a barrier too", "its own store alone", "volatile", "another element"],
)
def test_only_what_a_store_alone_keeps_from_its_register_is_loaded_again(
    between: str, again: str, found: tuple[int, ...]
) -> None:
    assert loaded_again(sass_of(f"{HEAD}{between}{again}STG.E desc[UR4][R2.64], R9\nEXIT")) == found


def test_branches_that_exclude_each_other_load_once_each() -> None:
    code = (
        f"{HEAD}{STORE}ISETP.GE.AND P0, PT, R0, 0x4, PT\n@P0 BRA `(.L_x_0)\n{AGAIN}{STORE}EXIT\n"
        f".L_x_0:\n{AGAIN}STG.E desc[UR4][R2.64], R9\nEXIT"
    )
    # each branch's own two, and none of the other's stored element
    assert loaded_again(sass_of(code)) == (8, 9, 12, 13)
