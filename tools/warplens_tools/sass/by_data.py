# SPDX-License-Identifier: Apache-2.0
"""Instructions that a comparison of floating-point values, or of a counter, lets an iteration of their loop skip.

Such a value is loaded or worked out from what is (a distance against a cut-off, a weight against nothing), so that no
text says how often the comparison holds. Bounds of loops and of arrays are compared as integers. Of a counter that an
iteration adds one to the text does say it: it comes to a number once in so many iterations, or once in all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import Block
from warplens_tools.sass.flow import Flow, Loop

_COMPARES = frozenset({"FSETP", "DSETP", "HSETP2"})
_PREDICATE = re.compile(r"!?(U?P\d)\b")
_NUMBER = re.compile(r"0x[0-9a-f]+")
#: What adds one to a counter.
_ADDS = frozenset({"IADD3", "VIADD", "UIADD3"})
#: Predicates joined to one, at most.
_JOINED = 4


class Skip(msgspec.Struct, frozen=True):
    """A branch in a loop by which such a comparison, `test`, lets an iteration skip instructions, and their indices."""

    branch: int
    test: int
    loop: Loop
    skipped: frozenset[int]


def skips_by_data(instructions: Sequence[Instruction], flow: Flow) -> tuple[Skip, ...]:
    """Every such branch, for each loop around it; what it skips is without the compiler's own slow paths."""
    found = []
    for loop in flow.loops:
        for at in sorted(loop.blocks):
            block = flow.blocks[at]
            test = _test(instructions, block) if len(block.successors) > 1 else None
            if test is not None:
                sides = _one_sided(flow, loop, at)
                every = {i for b in sides for i in range(flow.blocks[b].first, flow.blocks[b].last + 1)}
                found.append(Skip(block.last, test, loop, frozenset(every - flow.rare)))
    return tuple(found)


def counted_shares(instructions: Sequence[Instruction], flow: Flow) -> dict[int, float]:
    """Share of their loop's iterations that come to instructions which wait for a counter, by index; others have none,
    the compiler's own slow paths neither."""
    found: dict[int, float] = {}
    for loop in flow.loops:
        for at in loop.blocks:
            sides = flow.blocks[at].successors
            told = _count_to(instructions, flow.blocks[at]) if len(sides) == 2 else None
            if told is None or any(s not in loop.blocks for s in sides):
                continue
            count, falls = told
            reached = {s: _reached(flow, loop, s) for s in sides}
            there = next((s for s in sides if (s == at + 1) is falls), at)
            others = set().union(*(blocks for s, blocks in reached.items() if s != there))
            for b in reached.get(there, set()) - others:
                for i in range(flow.blocks[b].first, flow.blocks[b].last + 1):
                    found[i] = found.get(i, 1.0) / count
    return {i: share for i, share in found.items() if i not in flow.rare}


def _count_to(instructions: Sequence[Instruction], block: Block) -> tuple[int, bool] | None:
    """The number at which a block's branch parts a counter that the block adds one to, and whether those that are there
    fall through; None for any other branch."""
    inside = instructions[block.first : block.last + 1]
    named = _PREDICATE.search(inside[-1].predicate.removeprefix("@"))
    test = next((x for x in reversed(inside) if named is not None and x.operands[:1] == (named[1],)), None)
    if (
        test is None
        or test.opcode != "ISETP"
        or not {"EQ", "NE"} & set(test.modifiers)
        or len(test.operands) != 5
    ):
        return None
    counter, number = test.operands[2:4]
    counts = any(
        x.opcode in _ADDS and x.operands[0] == counter and {*x.operands[1:]} - {"RZ"} == {counter, "0x1"}
        for x in inside
    )
    if not counts or _NUMBER.fullmatch(number) is None or test.operands[4] != "PT" or int(number, 16) < 2:
        return None
    return int(number, 16), ("NE" in test.modifiers) is not inside[-1].predicate.startswith("@!")


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


def _test(instructions: Sequence[Instruction], block: Block) -> int | None:
    """The comparison of floating-point values, in the block, that its branch hangs on; None for any other branch."""
    named = _PREDICATE.search(instructions[block.last].predicate.removeprefix("@"))
    wanted = {named[1]} if named is not None else set()
    for i in range(block.last - 1, block.first - 1, -1):
        x = instructions[i]
        own = {o for o in x.operands[:2] if o in wanted}
        if not own or not x.opcode.endswith(("SETP", "SETP2", "PLOP3")):
            continue
        if x.opcode in _COMPARES:
            return i
        taken = {m[1] for o in x.operands[2:] if (m := _PREDICATE.fullmatch(o)) is not None}
        wanted = (wanted - own) | taken
        if len(wanted) > _JOINED:
            return None
    return None
