# SPDX-License-Identifier: Apache-2.0
"""Instructions that only prepare what others read: what the compiler would drop with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.flow import Flow, Loop
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.registers import registers_of

_ARITHMETIC = frozenset({"fp64", "fp32", "fp16", "int", "alu", "sfu"})


def backward_slice(
    instructions: Sequence[Instruction], flow: Flow, wanted: Collection[int]
) -> frozenset[int]:
    """Indices of arithmetic whose every reader is one of `wanted`, or feeds one: none of `wanted` itself."""
    candidates = [i for i, x in enumerate(instructions) if pipe_of(x) in _ARITHMETIC]
    orders = _Orders(flow, len(instructions))
    readers = {i: _readers(instructions, orders.after(i), i) for i in candidates}
    found: set[int] = set(wanted)
    grown = True
    while grown:
        fresh = {i for i in candidates if i not in found and readers[i] and readers[i] <= found}
        found |= fresh
        grown = bool(fresh)
    return frozenset(found - set(wanted))


class _Orders:
    """Where control goes on from an instruction: around its innermost loop once, then on behind it."""

    def __init__(self, flow: Flow, count: int) -> None:
        self.flow, self.count = flow, count
        self.kept: dict[Loop | None, tuple[list[int], list[int]]] = {None: ([], list(range(count)))}

    def after(self, index: int) -> Iterator[int]:
        """Indices from the next instruction on."""
        loop = self.flow.innermost(index)
        if loop not in self.kept:
            inside = self.flow.instructions_of(loop) if loop is not None else []
            members = set(inside)
            self.kept[loop] = inside, [i for i in range(self.count) if i not in members]
        inside, outside = self.kept[loop]
        yield from (i for i in inside if i > index)
        yield from (i for i in inside if i <= index)
        yield from (i for i in outside if i > index)


def _readers(instructions: Sequence[Instruction], after: Iterable[int], index: int) -> frozenset[int]:
    """Instructions that read what this one writes before it is written again."""
    left, found = set(registers_of(instructions[index])[0]), set()
    for i in after:
        overwritten, read = registers_of(instructions[i])
        if left & read:
            found.add(i)
        if not instructions[i].predicate:
            left -= overwritten
        if not left:
            break
    return frozenset(found)
