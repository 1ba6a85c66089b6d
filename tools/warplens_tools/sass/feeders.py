"""Instructions that only prepare what others read: what the compiler would drop with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.flow import Flow, analyse
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.registers import registers_of

_ARITHMETIC = frozenset({"fp64", "fp32", "fp16", "int", "alu", "sfu"})


def feeders(instructions: Sequence[Instruction], wanted: Collection[int]) -> frozenset[int]:
    """Indices of arithmetic whose every reader is one of `wanted`, or feeds one: none of `wanted` itself."""
    flow = analyse(instructions)
    readers = [_readers(instructions, flow, i) for i in range(len(instructions))]
    found: set[int] = set(wanted)
    grown = True
    while grown:
        fresh = {
            i
            for i, x in enumerate(instructions)
            if i not in found and pipe_of(x) in _ARITHMETIC and readers[i] and readers[i] <= found
        }
        found |= fresh
        grown = bool(fresh)
    return frozenset(found - set(wanted))


def _readers(instructions: Sequence[Instruction], flow: Flow, index: int) -> frozenset[int]:
    """Instructions that read what this one writes before it is written again, in order; around its loop once."""
    written, _ = registers_of(instructions[index])
    loop = flow.innermost(index)
    after = list(range(index + 1, len(instructions)))
    if loop is not None:
        inside = flow.instructions_of(loop)
        after = [i for i in inside if i > index] + [i for i in inside if i <= index]
        after += [i for i in range(index + 1, len(instructions)) if i not in set(inside)]
    left, found = set(written), set()
    for i in after:
        overwritten, read = registers_of(instructions[i])
        if left & read:
            found.add(i)
        if not instructions[i].predicate:
            left -= overwritten
        if not left:
            break
    return frozenset(found)
