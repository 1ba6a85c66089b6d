# SPDX-License-Identifier: Apache-2.0
"""Blocks between blocks: order, back edges, where ways meet again."""

from __future__ import annotations

from tests.tools.sass.written import code

from warplens_tools.sass.flow import analyse
from warplens_tools.sass.paths import Paths, paths_of

DIAMOND = """
    ISETP.GE.AND P0, PT, R0, R1, PT
    @P0 BRA `(.ELSE)
    FADD R2, R2, 1
    BRA `(.END)
    .ELSE:
    FADD R2, R2, 2
    .END:
    STG.E desc[UR4][R4.64], R2
    EXIT
"""
LOOP = ".L:\nFADD R2, R2, 1\n@P0 BRA `(.L)\nEXIT"


def paths(text: str) -> Paths:
    found = paths_of(code(text), analyse(code(text)))
    assert isinstance(found, Paths), found
    return found


def test_lanes_that_part_meet_where_their_ways_do() -> None:
    found = paths(DIAMOND)
    assert found.influenced(0) == {3}
    assert found.region(0) == {1, 2}
    assert found.reachable(1) == {1, 3}
    assert found.order[0] == 0
    assert found.reducible


def test_the_edge_that_closes_a_loop_goes_back() -> None:
    found = paths(LOOP)
    assert found.is_back(0, 0)
    assert list(found.instructions(0)) == [0, 1]


def test_a_computed_branch_is_not_followed() -> None:
    text = "BRX R2, -0x10\nEXIT"
    assert paths_of(code(text), analyse(code(text))) == "the kernel branches to computed addresses"


def test_a_call_changes_what_its_routine_and_all_behind_it_write() -> None:
    found = paths("CALL.REL.NOINC `(.R)\nEXIT\n.R:\nFADD R5, R5, 1\nRET.REL.NODEC R20 `(k)")
    assert found.clobbered(0, lambda x: [x.operands[0]] if x.opcode == "FADD" else []) == {"R5"}
