# SPDX-License-Identifier: Apache-2.0
"""Instructions that a comparison of floating-point values lets an iteration of their loop skip.

Such a value is loaded or worked out from what is (a distance against a cut-off, a weight against nothing), so that no
text says how often the comparison holds. Bounds of loops and of arrays are compared as integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import Block
from warplens_tools.sass.flow import Flow, Loop

_COMPARES = frozenset({"FSETP", "DSETP", "HSETP2"})
_PREDICATE = re.compile(r"!?(U?P\d)\b")
#: Predicates joined to one, at most.
_JOINED = 4


def skipped_by_data(instructions: Sequence[Instruction], flow: Flow) -> frozenset[int]:
    """Indices of those, without the compiler's own slow paths."""
    found: set[int] = set()
    for loop in flow.loops:
        for at in loop.blocks:
            block = flow.blocks[at]
            if len(block.successors) > 1 and _is_by_data(instructions, block):
                found |= _one_sided(flow, loop, at)
    every = {i for b in found for i in range(flow.blocks[b].first, flow.blocks[b].last + 1)}
    return frozenset(every - flow.rare)


def _one_sided(flow: Flow, loop: Loop, at: int) -> set[int]:
    """Blocks of the loop that the rest of an iteration comes to on one side of a branch alone; none where the other
    side leaves the loop."""
    sides = flow.blocks[at].successors
    if any(s not in loop.blocks for s in sides):
        return set()
    reached = [_reached(flow, loop, s) for s in sides]
    first, *others = reached
    return first.union(*others) - first.intersection(*others)


def _reached(flow: Flow, loop: Loop, start: int) -> set[int]:
    found: set[int] = set()
    work = [start]
    while work:
        at = work.pop()
        if at not in found and at in loop.blocks and at != loop.header:
            found.add(at)
            work.extend(flow.blocks[at].successors)
    return found


def _is_by_data(instructions: Sequence[Instruction], block: Block) -> bool:
    """Whether the block's branch hangs on a comparison of floating-point values that the block makes."""
    named = _PREDICATE.search(instructions[block.last].predicate.removeprefix("@"))
    wanted = {named[1]} if named is not None else set()
    for i in range(block.last - 1, block.first - 1, -1):
        x = instructions[i]
        own = {o for o in x.operands[:2] if o in wanted}
        if not own or not x.opcode.endswith(("SETP", "SETP2", "PLOP3")):
            continue
        if x.opcode in _COMPARES:
            return True
        taken = {m[1] for o in x.operands[2:] if (m := _PREDICATE.fullmatch(o)) is not None}
        wanted = (wanted - own) | taken
        if len(wanted) > _JOINED:
            return False
    return False
