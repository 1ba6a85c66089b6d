# SPDX-License-Identifier: Apache-2.0
"""Multiply-adds of a loop that add up products: what a tile of results in registers would serve."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.registers import place_registers, registers_of

#: Operands of a multiply-add: the result, two factors, what the product is added to.
_OPERANDS = 4


def added_up(
    code: Sequence[Instruction],
    lane_dependent: Collection[int],
    body: Sequence[int],
    opcodes: Collection[str],
) -> list[int]:
    """Indices of a loop's multiply-adds that add a product to what another one of the loop, or its last iteration, came
    to, with a factor that differs between lanes; none of a loop that hands such a result on in shared memory, as a
    recursion does and an elimination. What lanes all work out alike has no second result to share a value with.
    `lane_dependent` holds the kernel's instructions with an operand that may differ between lanes.
    """
    adds = {i for i in body if code[i].opcode in opcodes}
    outside = {r for i in lane_dependent for r in registers_of(code[i])[0]}
    found = list[int]()
    for i, writers in _written_before(code, body):
        read = registers_of(code[i])[1]
        if code[i].opcode == "STS" and any(writers.get(r) in adds for r in read - place_registers(code[i])):
            return []
        operands = code[i].operands
        if i not in adds or len(operands) < _OPERANDS:
            continue
        factors, addend = _registers(operands[1:-1], read), _registers(operands[-1:], read)
        if any(writers.get(r) in adds for r in addend) and any(
            writers[r] in lane_dependent if r in writers else r in outside for r in factors
        ):
            found.append(i)
    return found


def _written_before(code: Sequence[Instruction], body: Sequence[int]) -> Iterator[tuple[int, dict[str, int]]]:
    """The instructions of a later iteration, each with the one that wrote a register last, by register."""
    writers: dict[str, int] = {}
    for turn in (0, 1):
        for i in body:
            if turn:
                yield i, writers
            writers |= dict.fromkeys(registers_of(code[i])[0], i)


def _registers(operands: Iterable[str], read: frozenset[str]) -> set[str]:
    """The registers that some operands name."""
    words = {w for o in operands for w in o.replace("-", " ").replace("|", " ").replace(".", " ").split()}
    return {r for r in read if r in words}
