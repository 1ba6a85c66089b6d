# SPDX-License-Identifier: Apache-2.0
"""Loops that do no more than repeat one atomic until it brings what the threads wait for: a lock, or a poll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.micro.common.emulated import emulates
from warplens_tools.sass.listing import Sass
from warplens_tools.sass.pipes import is_load, space_of
from warplens_tools.sass.registers import place_registers, registers_of

#: Instructions of a loop that does no more than wait.
_SPIN = 24
_MEMORY = ("global", "generic", "shared")
_ATOMICS = ("ATOM", "ATOMG")


def spins(sass: Sass) -> Iterator[tuple[list[int], list[int]]]:
    """The loops: indices of their instructions, and of the atomics among them. That a loop loads again where its lock
    is, from one place, is no work of its own."""
    code = sass.instructions
    for loop in sass.flow.innermost_loops:
        body = sass.flow.instructions_of(loop)
        atomics = [i for i in body if code[i].opcode in _ATOMICS]
        if not atomics or len(body) > _SPIN or emulates(code, body):
            continue
        places = [i for i in body if _is_place(code, body, i)]
        work = [i for i in body if i not in atomics and i not in places]
        fixed = frozenset(name for i in places for name in registers_of(code[i])[0])
        if not any(space_of(code[i]) in _MEMORY for i in work) and not _is_update(
            code, [*work, *atomics], atomics[0], fixed
        ):
            yield body, atomics


def _is_place(code: Sequence[Instruction], body: Sequence[int], at: int) -> bool:
    """Whether a load brings an atomic's place and nothing else, from an address that the loop leaves as it is."""
    if not is_load(code[at]):
        return False
    left, read = registers_of(code[at])
    if any(read & registers_of(code[i])[0] for i in body):
        return False
    # What it brings, until something else is there; the turn after begins with the same.
    for x in (code[i] for i in (*(i for i in body if i > at), *(i for i in body if i < at))):
        used = registers_of(x)[1] & left
        if used and (x.opcode not in _ATOMICS or used - place_registers(x)):
            return False
        left -= registers_of(x)[0]
    return True


def _is_update(code: Sequence[Instruction], body: Sequence[int], atomic: int, fixed: frozenset[str]) -> bool:
    """Whether what the atomic is given comes of what it, or another load of the loop, brought the time before, or
    it goes to another place each time. What is `fixed` each turn finds as the one before."""
    if any((place_registers(code[atomic]) - fixed) & registers_of(code[i])[0] for i in body):
        return True
    brought: set[str] = set()
    for i in (*sorted(body), *sorted(body)):
        written, read = registers_of(code[i])
        if i == atomic and brought & read - {"PT"} - fixed:
            return True
        loads = i == atomic or is_load(code[i])
        # Not whether it is done again, but what with.
        values = frozenset(n for n in written if n.startswith("R"))
        brought = brought | values if loads or brought & read else brought - written
    return False
