# SPDX-License-Identifier: Apache-2.0
"""Which instructions read registers that differ between the lanes of a warp, as far as data flow tells.

Lanes differ from `threadIdx` and the lane number on, through arithmetic, and through what is loaded from
addresses that differ. Code is followed in address order, twice, so that loops see what they carry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.pipes import space_of
from warplens_tools.sass.registers import registers_of

_REGISTER = re.compile(r"U?R\d+")
_LOADS = ("LDG", "LDS", "LDL", "ATOM", "SHFL")
_LANE_SOURCES = ("SR_TID", "SR_LANEID", "SR_LANEMASK")


def lane_dependent(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Indices of the instructions with an operand, an address among them, that may differ between lanes."""
    differing: set[str] = set()
    found: set[int] = set()
    for _ in range(2):
        for index, instruction in enumerate(instructions):
            written, read = registers_of(instruction)
            # A branch's or a guard's predicate chooses lanes; it is no operand.
            operands = {name for name in read if not name.startswith(("P", "UP"))}
            source = any(o.startswith(_LANE_SOURCES) for o in instruction.operands)
            if source or operands & differing:
                found.add(index)
                differing |= {name for name in written if not name.startswith("U")}
            elif not instruction.predicate:
                differing -= written
    return frozenset(found)


def gathering(instructions: Sequence[Instruction], *, by_tests: bool = False) -> frozenset[int]:
    """Indices of the memory instructions whose address rests on data that was loaded, as in `x[column[j]]`;
    `by_tests`: also on what a test of such data selected, as in a search.

    Loads of constants are none: a kernel's parameters come by them.
    """
    loaded: set[str] = set()
    found: set[int] = set()
    for _ in range(2):
        for index, instruction in enumerate(instructions):
            written, read = registers_of(instruction)
            operands = {name for name in read if by_tests or not name.startswith(("P", "UP"))}
            if space_of(instruction) is not None and _address(instruction) & loaded:
                found.add(index)
            if instruction.opcode == "LD" or instruction.opcode.startswith(_LOADS) or operands & loaded:
                loaded |= written
            elif not instruction.predicate:
                loaded -= written
    return frozenset(found)


def chosen_apart(
    instructions: Sequence[Instruction], differing: frozenset[int], *, looped: bool
) -> frozenset[int]:
    """Indices of the accesses to global memory whose address rests on what each lane loaded from a place of its own:
    no lane's neighbour tells where it goes. `differing`: those of `lane_dependent`; `looped`: whether a loop may
    carry such a place on."""
    loaded: set[str] = set()
    found: set[int] = set()
    for _ in range(2 if looped else 1):
        for index, instruction in enumerate(instructions):
            written, read = registers_of(instruction)
            own = {name for name in read if not name.startswith(("P", "UP"))}
            if space_of(instruction) == "global" and _address(instruction) & loaded:
                found.add(index)
            if (
                instruction.opcode.startswith(("LDG", "LDS", "ATOMG")) and index in differing
            ) or own & loaded:
                loaded |= written
            elif not instruction.predicate:
                loaded -= written
    return frozenset(found)


def _address(instruction: Instruction) -> set[str]:
    return {name for o in instruction.operands if "[" in o for name in _REGISTER.findall(o)}
