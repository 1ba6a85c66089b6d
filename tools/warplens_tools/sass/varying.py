# SPDX-License-Identifier: Apache-2.0
"""Which instructions read registers that differ between the lanes of a warp, as far as data flow tells.

Lanes differ from `threadIdx`, the lane number and their own local memory on, through arithmetic, and through what is
loaded from addresses that differ. Values are followed along the ways that control may take, in and out of routines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import basic_blocks, body_of
from warplens_tools.sass.pipes import space_of
from warplens_tools.sass.registers import registers_of

_REGISTER = re.compile(r"U?R\d+")
_LOADS = ("LDG", "LDS", "LDL", "ATOM", "SHFL")
_LANE_SOURCES = ("SR_TID", "SR_LANEID", "SR_LANEMASK")
#: Numbers that a warp of a block as wide as one has in common.
_ROWS = ("SR_TID.Y", "SR_TID.Z")
#: The bank that holds the addresses of the module's variables; the names of the library's tables, where the linker puts
#: their addresses in: `32@lo(__cudart_sin_cos_coeffs)`.
_TABLES = ("c[0x4]", "(__cudart_")
#: What adds to a number, or multiplies it: a hash or a remainder of it takes others.
_LINEAR = frozenset({"IADD3", "IADD", "VIADD", "IMAD", "LEA", "MOV", "SHL", "UMOV"})
#: Takes an instruction's index, itself, and the registers that are marked before it; marks or clears what it writes.
_Step = Callable[[int, Instruction, set[str]], None]


def lane_dependent(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Indices of the instructions with an operand, an address among them, that may differ between lanes."""
    found: set[int] = set()

    def step(index: int, instruction: Instruction, differing: set[str]) -> None:
        written, read = registers_of(instruction)
        # A branch's or a guard's predicate chooses lanes; it is no operand.
        operands = {name for name in read if not name.startswith(("P", "UP"))}
        source = any(o.startswith(_LANE_SOURCES) for o in instruction.operands)
        if source or operands & differing:
            found.add(index)
            differing |= {name for name in written if not name.startswith("U")}
        elif instruction.opcode == "LDL":
            differing |= written  # One address of each lane's own memory.
        elif not instruction.predicate:
            differing -= written

    _follow(instructions, step)
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


def chosen_apart(instructions: Sequence[Instruction], differing: frozenset[int]) -> frozenset[int]:
    """Indices of the accesses to global memory whose address rests on what each lane loaded from a place of its own:
    no lane's neighbour tells where it goes. `differing`: those of `lane_dependent`. Tables of the module, such as those
    that the compiler's own sine looks a quadrant up in, are left out."""
    found: set[int] = set()
    tables = _in_tables(instructions)

    def step(index: int, instruction: Instruction, loaded: set[str]) -> None:
        written, read = registers_of(instruction)
        own = {name for name in read if not name.startswith(("P", "UP"))}
        if space_of(instruction) == "global" and _address(instruction) & loaded and index not in tables:
            found.add(index)
        if (instruction.opcode.startswith(("LDG", "LDS", "ATOMG")) and index in differing) or own & loaded:
            loaded |= written
        elif not instruction.predicate:
            loaded -= written

    _follow(instructions, step)
    return frozenset(found)


def in_constant_tables(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Indices of the loads from tables of the module or of the library that no kernel writes, such as the coefficients
    of a double sine."""
    return frozenset(i for i in _in_tables(instructions) if "CONSTANT" in instructions[i].modifiers)


def numbered(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Indices of the accesses to memory whose address is made of the thread's number along x itself, as in `x[first +
    lane]`: whatever was loaded for it, neighbouring lanes go on side by side."""
    found: set[int] = set()

    def step(index: int, instruction: Instruction, own: set[str]) -> None:
        written, read = registers_of(instruction)
        space = space_of(instruction)
        if space is not None and _address(instruction) & own:
            found.add(index)
        operands = {name for name in read if not name.startswith(("P", "UP"))}
        source = any(o.startswith(_LANE_SOURCES) and not o.startswith(_ROWS) for o in instruction.operands)
        adds = instruction.opcode in _LINEAR and "HI" not in instruction.modifiers
        if source or (adds and operands & own):
            own |= written
        elif not instruction.predicate:
            own -= written

    _follow(instructions, step)
    return frozenset(found)


def _in_tables(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Indices of the accesses whose address is made of that of a variable of the module or of the library."""
    found: set[int] = set()

    def step(index: int, instruction: Instruction, bases: set[str]) -> None:
        written, read = registers_of(instruction)
        space = space_of(instruction)
        if space is not None and _address(instruction) & bases:
            found.add(index)
        if any(table in o for o in instruction.operands for table in _TABLES) or (
            space is None and read & bases
        ):
            bases |= written
        elif not instruction.predicate:
            bases -= written

    _follow(instructions, step)
    return frozenset(found)


def _follow(instructions: Sequence[Instruction], step: _Step) -> None:
    """Takes `step` through the code until no way adds a register to what is marked before a block.

    A routine that only computes, such as a division's, gives marked results where one of its operands is marked at that
    call, whatever other calls hand it.
    """
    routines = _computing(instructions)
    inside = {i for body, _, _ in routines.values() for i in body}
    blocks = basic_blocks(instructions)
    starts = {instructions[block.first].address: b for b, block in enumerate(blocks)}
    before: list[set[str]] = [set() for _ in blocks]
    reached = {b for block in blocks for b in block.successors}
    returned: set[str] = set()
    written: dict[int | None, set[str]] = {}
    changed = True
    while changed:
        changed = False
        last: set[str] = set()
        for b, block in enumerate(blocks):
            # Where no branch is known to lead (a table's cases) the code before it is taken to.
            marked = set(before[b]) | (set() if b in reached else last)
            guarded: dict[str, str] = {}
            for i in range(block.first, block.last + 1):
                x = instructions[i]
                if x.predicate or guarded:
                    _under_guard(step, i, x, marked, guarded)
                else:
                    step(i, x, marked)
                if x.opcode == "CALL":
                    changed |= _add(before, starts.get(x.target or -1), marked)
                    if x.target in routines:
                        _, operands, results = routines[x.target]
                        marked = marked | results if marked & operands else marked - results
                    else:
                        if x.target not in written:
                            written[x.target] = _written_in(instructions, x.target)
                        marked |= returned & written[x.target]
            returns = instructions[block.last].opcode == "RET" and block.last not in inside
            if returns and not marked <= returned:
                returned |= marked
                changed = True
            for to in block.successors:
                changed |= _add(before, to, marked)
            last = marked


def _under_guard(step: _Step, index: int, x: Instruction, marked: set[str], guarded: dict[str, str]) -> None:
    """Takes one step where registers were given a value under a guard: whoever reads them under the same one, in the
    same block, sees that value, whatever they were marked for before. `guarded`: their guards."""
    written, read = registers_of(x)
    seen = marked
    if not x.predicate:
        step(index, x, marked)
    else:
        hidden = {name for name, guard in guarded.items() if guard == x.predicate}
        seen = marked - hidden - (written - read)
        step(index, x, seen)
        marked |= seen
    for name in written:
        guarded.pop(name, None)
        if x.predicate and name not in seen:
            guarded[name] = x.predicate
    for name in [n for n, guard in guarded.items() if guard.lstrip("!@") in written]:
        del guarded[name]


def _computing(instructions: Sequence[Instruction]) -> dict[int, tuple[frozenset[int], set[str], set[str]]]:
    """Routines without memory, calls and lane numbers, by address: their instructions, the registers that they read
    before they write them, and those that they write."""
    found: dict[int, tuple[frozenset[int], set[str], set[str]]] = {}
    for target in {x.target for x in instructions if x.opcode == "CALL" and x.target is not None}:
        body = body_of(instructions, target)
        if not body or any(_is_source(instructions[i]) for i in body):
            continue
        operands, results = set[str](), set[str]()
        for i in sorted(body):
            written, read = registers_of(instructions[i])
            operands |= {name for name in read if not name.startswith(("P", "UP"))} - results
            results |= written
        found[target] = (frozenset(body), operands, results)
    return found


def _is_source(instruction: Instruction) -> bool:
    """Whether what it writes may differ between lanes though nothing that it reads does, or it goes elsewhere."""
    lanes = any(o.startswith(_LANE_SOURCES) for o in instruction.operands)
    parameter = instruction.opcode == "LDC" and not _address(instruction)
    return (
        lanes
        or (space_of(instruction) is not None and not parameter)
        or instruction.opcode in ("CALL", "LDL", "LD", "SHFL", "BRX")
    )


def _written_in(instructions: Sequence[Instruction], target: int | None) -> set[str]:
    """The registers that a routine writes; all others come back as they were."""
    return {name for i in body_of(instructions, target) for name in registers_of(instructions[i])[0]}


def _add(before: list[set[str]], block: int | None, marked: set[str]) -> bool:
    """Adds to what is marked before a block; whether anything was new."""
    if block is None or marked <= before[block]:
        return False
    before[block] |= marked
    return True


def _address(instruction: Instruction) -> set[str]:
    return {name for o in instruction.operands if "[" in o for name in _REGISTER.findall(o)}
