# SPDX-License-Identifier: Apache-2.0
"""What instructions leave in registers and predicates, lane by lane."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import code

from warplens_tools.sass import lanes
from warplens_tools.sass.lanes import Unknown, Value
from warplens_tools.sass.semantics import Semantics, State
from warplens_tools.sass.warps import Launch, launch_atoms, launch_of


def after(text: str, block: tuple[int, int, int] = (256, 1, 1)) -> tuple[Semantics, State]:
    launch = launch_of(block, "sm_90")
    assert isinstance(launch, Launch)
    semantics, state = Semantics(launch, launch_atoms()), State()
    for x in code(text):
        semantics.step(state, x)
    return semantics, state


def value(text: str, name: str) -> Value:
    found = after(text)[1].registers[name]
    assert isinstance(found, Value), found
    return found


def test_the_lane_is_part_of_the_thread_index() -> None:
    found = value("S2R R0, SR_TID.X", "R0")
    assert lanes.lanes_of(found, 32) == tuple(range(32))
    assert lanes.stride_of(lanes.lanes_of(found, 32)) == 1


@pytest.mark.parametrize(
    ("line", "stride"),
    [
        ("IMAD R2, R0, 0xc, RZ", 12),
        ("SHF.L.U32 R2, R0, 0x3, RZ", 8),
        ("LEA R2, R0, UR4, 0x2", 4),
        ("IADD3 R2, R0, R0, RZ", 2),
        ("LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT", 1),
    ],
)
def test_arithmetic_scales_the_distance_of_lanes(line: str, stride: int) -> None:
    found = value(f"S2R R0, SR_TID.X\nULDC UR4, c[0x0][0x210]\n{line}", "R2")
    assert lanes.stride_of(lanes.lanes_of(found, 32)) == stride


def test_what_was_loaded_is_not_known() -> None:
    _, state = after("S2R R0, SR_TID.X\nLDG.E R2, desc[UR4][R0.64]\nIADD3 R3, R2, 0x1, RZ")
    assert isinstance(state.registers.get("R3", Unknown("")), Unknown)


@pytest.mark.parametrize(
    ("test", "split"),
    [
        ("ISETP.GE.AND P0, PT, R0, 0x10, PT", "lanes"),
        ("ISETP.GE.AND P0, PT, R0, c[0x0][0x210], PT", "bounds"),
        ("ISETP.GE.AND P0, PT, RZ, c[0x0][0x210], PT", "uniform"),
    ],
)
def test_a_predicate_tells_how_lanes_may_part(test: str, split: str) -> None:
    semantics, state = after(f"S2R R0, SR_TID.X\n{test}", block=(32, 1, 1))
    (guarded,) = code("@P0 EXIT")
    assert semantics.guard(state, guarded) == split
