# SPDX-License-Identifier: Apache-2.0
"""Registers carried along all paths until nothing changes."""

from __future__ import annotations

from tests.tools.sass.written import code

from warplens_tools.sass import lanes
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.interpreter import AbstractInterpreter
from warplens_tools.sass.lanes import LaneValue, Unknown, Value
from warplens_tools.sass.paths import Paths, paths_of
from warplens_tools.sass.warps import Launch, launch_of


def settled(text: str) -> AbstractInterpreter:
    written, launch = code(text), launch_of((256, 1, 1), "sm_90")
    paths = paths_of(written, analyse(written))
    assert isinstance(paths, Paths)
    assert isinstance(launch, Launch)
    found = AbstractInterpreter(written, paths, launch)
    assert found.settle()
    return found


def before(text: str, index: int, register: str) -> LaneValue:
    """What a register holds before an instruction."""
    return next(s.registers[register] for _, i, s in settled(text).walk() if i == index)


def test_a_loop_that_adds_the_same_for_all_keeps_the_distance_of_lanes() -> None:
    text = "S2R R0, SR_TID.X\n.L:\nLDG.E R4, desc[UR4][R0.64]\nIADD3 R0, R0, 0x100, RZ\n@P0 BRA `(.L)\nEXIT"
    held = before(text, 1, "R0")
    assert isinstance(held, Value)
    assert lanes.stride_of(lanes.lanes_of(held, 32)) == 1
    assert any(name.startswith("iterations(R0") for name in held.atoms)


def test_a_loop_that_adds_each_lanes_own_loses_it() -> None:
    start = "S2R R0, SR_TID.X\nS2R R1, SR_TID.X\n"
    text = f"{start}.L:\nLDG.E R4, desc[UR4][R0.64]\nIADD3 R0, R0, R1, RZ\n@P0 BRA `(.L)\nEXIT"
    assert before(text, 2, "R0") == Unknown("iterations change it by what lanes do not share")


def test_paths_that_agree_join_and_others_do_not() -> None:
    join = "@P0 BRA `(.E)\n{}\nBRA `(.J)\n.E:\nMOV R2, 0x4\n.J:\nSTG.E desc[UR4][R6.64], R2\nEXIT"
    assert before(join.format("MOV R2, 0x4"), 4, "R2") == lanes.number(4)
    other = before(join.format("MOV R2, 0x8"), 4, "R2")
    assert isinstance(other, Unknown) or not other.known


def test_blocks_that_the_thread_index_alone_guards_are_told() -> None:
    text = "S2R R0, SR_TID.X\nISETP.NE.AND P0, PT, R0, RZ, PT\n@P0 EXIT\nSTG.E desc[UR4][R6.64], R2\nEXIT"
    assert settled(text).guarded()
