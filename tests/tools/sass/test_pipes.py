# SPDX-License-Identifier: Apache-2.0
"""Pipes, spaces, widths and operations of instructions."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import code

from warplens_tools.sass.pipes import access_bytes, flops, is_load, is_store, on_stack, pipe_of, space_of


@pytest.mark.parametrize(
    ("line", "pipe", "space", "width"),
    [
        ("LDG.E.128 R4, desc[UR4][R2.64]", "lsu", "global", 16),
        ("STG.E.U8 desc[UR4][R2.64], R8", "lsu", "global", 1),
        ("LDS.64 R4, [R2]", "lsu", "shared", 8),
        ("LDSM.16.M88.4 R4, [R2]", "lsu", "shared", 16),
        ("LDL R4, [R1+0x8]", "lsu", "local", 4),
        ("LDC R4, c[0x3][R2]", "lsu", "constant", 4),
        ("DFMA R4, R6, R8, R10", "fp64", None, 4),
        ("FFMA R4, R6, R8, R10", "fp32", None, 4),
        ("IMAD.WIDE R4, R6, R8, R10", "int", None, 4),
        ("LOP3.LUT R4, R6, 0x1f, RZ, 0xc0, !PT", "alu", None, 4),
        ("MUFU.EX2 R4, R6", "sfu", None, 4),
        ("ULDC UR4, c[0x0][0x210]", "uniform", None, 4),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "control", None, 4),
        ("WHATEVER R4", "other", None, 4),
    ],
)
def test_what_an_instruction_does(line: str, pipe: str, space: str | None, width: int) -> None:
    (x,) = code(line)
    assert (pipe_of(x), space_of(x), access_bytes(x)) == (pipe, space, width)


def test_loads_and_stores() -> None:
    load, store, atomic = code("LDG.E R4, [R2]\nSTG.E [R2], R4\nRED.E.ADD [R2], R4")
    assert (is_load(load), is_store(load)) == (True, False)
    assert (is_load(store), is_store(store)) == (False, True)
    assert (is_load(atomic), is_store(atomic)) == (False, False)
    assert on_stack("[R1+0x8]")
    assert not on_stack("[R2]")


@pytest.mark.parametrize(
    ("line", "operations"),
    [
        ("FADD R4, R6, R8", 1.0),
        ("DFMA R4, R6, R8, R10", 2.0),
        ("HFMA2 R4, R6, R8, R10", 4.0),
        ("HMMA.16816.F32 R4, R8, R12, R4", 2.0 * 16 * 8 * 16 / 32),
        ("IADD3 R4, R6, R8, RZ", 0.0),
    ],
)
def test_floating_point_operations_of_one_thread(line: str, operations: float) -> None:
    (x,) = code(line)
    assert flops(x) == operations
