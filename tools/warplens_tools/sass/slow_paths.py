# SPDX-License-Identifier: Apache-2.0
"""Where the math library's own slow paths begin: the exact reduction of a huge angle.

sinf, cosf and tanf take it from an angle of 105615 on, sin, cos and tan from 2^31 on (CUDA math library, as compiled).
Two functions of one angle share the test, whose predicate then guards a branch some blocks later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import Block, body_of
from warplens_tools.sass.registers import registers_of

#: Comparisons, and the operand from which on an angle is huge.
_HUGE_ANGLE = {"FSETP": 105615.0, "DSETP": 2147483648.0}

#: Predicates that hold the answer of a test for a huge angle: whether they hold where it is one.
_Tests = Mapping[str, bool]


def slow_starts(instructions: Sequence[Instruction], blocks: Sequence[Block]) -> list[int]:
    """Blocks in which such a reduction begins: entered only behind the test for a huge angle."""
    if not any(_tested(x) is not None for x in instructions):
        return []
    entered = [s for block in blocks for s in block.successors]
    known = _known_tests(instructions, blocks)
    starts = []
    for b, block in enumerate(blocks):
        branch, tests = instructions[block.last], _after(instructions, block, known.get(b, {}))
        holds = tests.get(branch.predicate.strip("@!"))
        if holds is None or branch.opcode != "BRA" or len(block.successors) != 2:
            continue
        taken, passed = block.successors
        start = passed if holds == branch.predicate.startswith("@!") else taken
        if entered.count(start) == 1 and start != b:
            starts.append(start)
    return starts


def rare_routines(
    instructions: Sequence[Instruction], blocks: Sequence[Block], slow: set[int]
) -> frozenset[int]:
    """Blocks of routines that only the blocks `slow` call, and of those that only such routines call."""
    calls = [(i, x.target) for i, x in enumerate(instructions) if x.opcode == "CALL" and x.target is not None]
    of = {i: b for b, block in enumerate(blocks) for i in range(block.first, block.last + 1)} if calls else {}
    found: set[int] = set()
    grown = True
    while grown:
        rare = slow | found
        from_rare = {target for i, target in calls if of[i] in rare}
        alone = from_rare - {target for i, target in calls if of[i] not in rare}
        bodies = {of[i] for target in alone for i in body_of(instructions, target)}
        grown = not bodies <= found
        found |= bodies
    return frozenset(found)


def _known_tests(instructions: Sequence[Instruction], blocks: Sequence[Block]) -> dict[int, _Tests]:
    """What each block that is reached finds in the predicates: what all ways to it agree on."""
    known: dict[int, _Tests] = {0: {}}
    work = [0]
    while work:
        b = work.pop()
        after = _after(instructions, blocks[b], known[b])
        for s in blocks[b].successors:
            before = known.get(s)
            both = after if before is None else {p: h for p, h in before.items() if after.get(p) is h}
            if both != before:
                known[s] = both
                work.append(s)
    return known


def _after(instructions: Sequence[Instruction], block: Block, before: _Tests) -> _Tests:
    found = dict(before)
    for x in instructions[block.first : block.last + 1]:
        huge = _tested(x)
        for name in [p for p in registers_of(x)[0] if p in found] if found else ():
            del found[name]
        if huge is not None:
            found[x.operands[0]] = huge
    return found


def _tested(instruction: Instruction) -> bool | None:
    """Of a test for a huge angle whether its predicate then holds; None of any other instruction."""
    limit = _HUGE_ANGLE.get(instruction.opcode)
    if limit is None or not any(_is_number(o, limit) for o in instruction.operands[2:]):
        return None
    return not {"GE", "GEU", "GT", "GTU"}.isdisjoint(instruction.modifiers)


def _is_number(operand: str, value: float) -> bool:
    try:
        return float(operand) == value
    except ValueError:
        return False
