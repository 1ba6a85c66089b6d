# SPDX-License-Identifier: Apache-2.0
"""Registers that instructions read and write, and the cycles a warp alone needs."""

from __future__ import annotations

import pytest

from warplens_tools.arch.load import load_gpu
from warplens_tools.evidence import Instruction
from warplens_tools.sass.latency import waits
from warplens_tools.sass.registers import registers_of
from warplens_tools.sass.varying import lane_dependent

GPU = load_gpu("sm_90")


def sass(line: str, address: int = 0) -> Instruction:
    """One instruction as nvdisasm prints it: "@!P0 LDG.E.64 R2, desc[UR4][R6.64]"."""
    guard, rest = line.split(" ", 1) if line.startswith("@") else ("", line)
    name, _, operands = rest.partition(" ")
    opcode, *modifiers = name.split(".")
    listed = tuple(o.strip() for o in operands.split(",")) if operands else ()
    return Instruction(address, opcode, tuple(modifiers), listed, guard)


@pytest.mark.parametrize(
    ("line", "written", "read"),
    [
        ("FFMA R7, R2, UR6, R7", {"R7"}, {"R2", "UR6", "R7"}),
        ("LDG.E.128 R4, desc[UR4][R2.64+0x10]", {"R4", "R5", "R6", "R7"}, {"UR4", "UR5", "R2", "R3"}),
        ("STG.E.64 desc[UR4][R2.64], R8", set(), {"UR4", "UR5", "R2", "R3", "R8", "R9"}),
        ("ISETP.GE.AND P0, PT, R7, UR4, PT", {"P0"}, {"R7", "UR4"}),
        ("IADD3 R6, P1, R8, UR4, RZ", {"R6", "P1"}, {"R8", "UR4"}),
        ("SHFL.BFLY PT, R4, R5, 0x10, 0x1f", {"R4"}, {"R5"}),
        ("DFMA R4, R6, R8, R4", {"R4", "R5"}, {"R6", "R7", "R8", "R9", "R4", "R5"}),
        ("IMAD.WIDE R2, R5, 0x4, R2", {"R2", "R3"}, {"R5", "R2"}),
        ("@!P0 MOV R1, R2", {"R1"}, {"R2", "P0"}),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", set(), set()),
        ("S2R R0, SR_TID.X", {"R0"}, set()),
    ],
)
def test_registers(line: str, written: set[str], read: set[str]) -> None:
    found = registers_of(sass(line))
    assert (set(found[0]), set(found[1])) == (written, read)


def cycles(*lines: str) -> float:
    return waits([sass(line) for line in lines], GPU, 500.0).cycles


def test_a_chain_waits_for_each_result_and_two_chains_share_the_wait() -> None:
    assert cycles("FFMA R0, R0, R1, R2") == 4.0
    assert cycles("FFMA R0, R0, R1, R2", "FFMA R3, R3, R1, R2") == 4.0
    assert cycles("DFMA R0, R0, R2, R4") == 8.0
    assert cycles("FADD R0, R4, R1") == 1.0, "nothing waits for it"


def test_the_giver_of_a_late_result_is_blamed() -> None:
    found = waits([sass("LDS R4, [R0]"), sass("FADD R5, R4, R5"), sass("BAR.SYNC 0x0")], GPU, 500.0)
    assert found.blamed[0] == pytest.approx(GPU.costs.shared_wait - 1.0)
    assert found.blamed[2] == GPU.costs.barrier_clocks(8)
    memory = waits([sass("LDG.E R4, desc[UR4][R2.64]"), sass("FADD R5, R4, R5")], GPU, 500.0)
    assert memory.blamed[0] == pytest.approx(499.0)


def test_what_follows_from_the_thread_index_differs_between_lanes() -> None:
    code = [
        sass(line)
        for line in (
            "S2R R0, SR_TID.X",
            "S2R R1, SR_CTAID.X",
            "IMAD R2, R1, 0x100, R0",
            "MOV R3, R1",
            "LDG.E R4, desc[UR4][R2.64]",
            "LDC R5, c[0x3][R4]",
            "LDC R6, c[0x3][R1]",
            "MOV R4, R1",
            "LDC R7, c[0x3][R4]",
        )
    ]
    assert lane_dependent(code) == {0, 2, 4, 5}
