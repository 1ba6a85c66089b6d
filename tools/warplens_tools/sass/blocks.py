# SPDX-License-Identifier: Apache-2.0
"""Basic blocks of one kernel's SASS, and the routines that it calls."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from warplens_tools.evidence import Instruction

#: Opcodes after which control does not fall through when unpredicated.
_ENDS = frozenset({"BRA", "BRX", "JMP", "EXIT", "RET", "KILL"})
#: Opcodes that end a basic block at all; a CALL returns, so it does not.
_BRANCHES = _ENDS | {"BREAK", "BSYNC"}
#: A predicate that a branch takes as an operand (`BRA.U !UP0, …` from sm_100 on).
_TESTED = re.compile(r"!?U?P\d$")


class Block(msgspec.Struct, frozen=True):
    """A basic block: instructions `first` to `last` (indices, inclusive) and its successors' indices."""

    first: int
    last: int
    successors: tuple[int, ...]


def basic_blocks(instructions: Sequence[Instruction]) -> list[Block]:
    """The blocks in address order; none of an empty kernel."""
    if not instructions:
        return []
    index_of = {instruction.address: i for i, instruction in enumerate(instructions)}
    leaders = {0}
    for i, instruction in enumerate(instructions):
        if instruction.target is not None and instruction.opcode != "CALL":
            leaders.add(index_of.get(instruction.target, 0))
        if instruction.opcode in _BRANCHES and i + 1 < len(instructions):
            leaders.add(i + 1)
    firsts = sorted(leaders)
    block_of = {first: b for b, first in enumerate(firsts)}
    blocks = []
    for b, first in enumerate(firsts):
        last = (firsts[b + 1] if b + 1 < len(firsts) else len(instructions)) - 1
        ending = instructions[last]
        successors = []
        if ending.target is not None and ending.opcode in _BRANCHES and ending.target in index_of:
            successors.append(block_of[index_of[ending.target]])
        if (ending.opcode not in _ENDS or _is_conditional(ending)) and b + 1 < len(firsts):
            successors.append(b + 1)
        blocks.append(Block(first, last, tuple(dict.fromkeys(successors))))
    return blocks


def _is_conditional(branch: Instruction) -> bool:
    """Whether control may go on behind it: by its guard, a predicate operand, or if lanes differ (BRA.DIV)."""
    return (
        bool(branch.predicate)
        or any(_TESTED.match(operand) for operand in branch.operands)
        or not {"DIV", "CONV"}.isdisjoint(branch.modifiers)
    )


def body_of(instructions: Sequence[Instruction], target: int | None) -> list[int]:
    """Indices of the routine that begins at an address, up to its return; none without an address."""
    found: list[int] = []
    if target is None:
        return found
    for i in range(bisect_left(instructions, target, key=lambda x: x.address), len(instructions)):
        found.append(i)
        if instructions[i].opcode == "RET" and not instructions[i].predicate:
            break
    return found
