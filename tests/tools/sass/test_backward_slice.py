# SPDX-License-Identifier: Apache-2.0
"""What only prepares an instruction's operands goes with it; what others read stays."""

from __future__ import annotations

from warplens_tools.evidence import Instruction
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.listing import backward_slice


def sliced(listing: list[Instruction], wanted: list[int]) -> frozenset[int]:
    return backward_slice(listing, analyse(listing), wanted)


def code(*lines: str) -> list[Instruction]:
    """Instructions from "OPCODE target, source, …"; "@P0 …" is guarded, "BRA n" goes to the n-th."""
    found = []
    for index, line in enumerate(lines):
        guard, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
        opcode, _, operands = rest.partition(" ")
        words = tuple(operands.split(", ")) if operands else ()
        target = 16 * int(words[0]) if opcode == "BRA" else None
        found.append(Instruction(16 * index, opcode, (), words, guard, target=target))
    return found


def test_what_feeds_only_it_goes() -> None:
    listing = code(
        "FMUL R1, R0, R0", "FMUL R2, R1, 3", "MUFU R3, R2", "FADD R4, R3, R5", "STG [R6], R4", "EXIT"
    )
    assert sliced(listing, [2]) == {0, 1}


def test_what_another_reads_stays() -> None:
    listing = code(
        "FMUL R1, R0, R0", "FMUL R2, R1, 3", "MUFU R3, R2", "FADD R4, R3, R1", "STG [R6], R4", "EXIT"
    )
    assert sliced(listing, [2]) == {1}


def test_the_next_iteration_reads_too() -> None:
    listing = code("MUFU R3, R2", "FADD R4, R4, R3", "FADD R2, R2, 1", "@P0 BRA 0", "STG [R6], R4", "EXIT")
    assert sliced(listing, [0]) == frozenset()
    restarted = code("FADD R2, R8, 1", "MUFU R3, R2", "FADD R4, R4, R3", "@P0 BRA 0", "STG [R6], R4", "EXIT")
    assert sliced(restarted, [1]) == {0}


def test_loads_and_stores_stay() -> None:
    assert sliced(code("LDG R1, [R2]", "MUFU R3, R1", "STG [R6], R3", "EXIT"), [1]) == frozenset()
