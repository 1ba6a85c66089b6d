# SPDX-License-Identifier: Apache-2.0
"""Which operands of a SASS instruction are results, and which registers they may overwrite.

For following values, where it must never be missed that a register changed: unlike
`warplens_tools.sass.registers` this counts too many registers where the width of a result is not known.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from warplens_tools.evidence import Instruction
from warplens_tools.sass.pipes import pipe_of

REGISTER = re.compile(r"^([-~]?)(U?R(?:\d+|Z))(?:\.reuse)?$")
PREDICATE = re.compile(r"^!?(U?P(?:\d|T))$")
_WRITES_NOTHING = frozenset(
    {"STG", "STS", "STL", "ST", "RED", "REDG", "REDS", "STSM", "LDGSTS", "STAS", "BRA", "EXIT", "BAR", "NOP"}
    | {
        "MEMBAR",
        "BSSY",
        "BSYNC",
        "BREAK",
        "WARPSYNC",
        "DEPBAR",
        "LDGDEPBAR",
        "CCTL",
        "ERRBAR",
        "YIELD",
        "RET",
    }
    | {"NANOSLEEP", "KILL", "BPT", "FENCE", "WARPGROUP", "JMP", "ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3"}
    | {"UISETP", "UPLOP3", "FCHK", "R2P", "CALL", "UTMALDG", "UTMASTG", "UTMACMDFLUSH", "UBLKCP", "DEPBAR.LE"}
)
_SINGLE = frozenset({"S2R", "VOTE", "SHFL", "MATCH", "P2R", "BMOV", "REDUX", "S2UR", "R2UR", "B2R", "ELECT"})
_REGISTERS = 256
_WORDS = {"64": 2, "128": 4, "256": 8}


class Parts(NamedTuple):
    """What an instruction's text says of its operands."""

    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    #: See `registers_written`.
    written: tuple[str, ...]
    #: The predicates among the destinations, but for PT.
    tests: tuple[str, ...]
    #: The sources that are no predicates.
    values: tuple[str, ...]


def parts_of(instruction: Instruction) -> Parts:
    """Read once for a text: values are carried through an instruction in many passes."""
    return _parts(instruction.opcode, instruction.modifiers, instruction.operands)


@functools.lru_cache(maxsize=8192)
def _parts(opcode: str, modifiers: tuple[str, ...], operands: tuple[str, ...]) -> Parts:
    instruction = Instruction(0, opcode, modifiers, operands)
    results = _destinations(instruction)
    read = operands[len(results) :]
    tests = (m[1] for o in results if (m := PREDICATE.match(o)))
    return Parts(
        results,
        read,
        tuple(_written(instruction, results)),
        tuple(name for name in tests if name[-1] != "T"),
        tuple(o for o in read if not PREDICATE.match(o)),
    )


def registers_written(instruction: Instruction) -> list[str]:
    """Registers that may change, the first result first; too many where the width is not known."""
    return list(parts_of(instruction).written)


def _written(instruction: Instruction, results: tuple[str, ...]) -> list[str]:
    if instruction.opcode in _WRITES_NOTHING:
        return []
    names = [m[2] for o in results if (m := REGISTER.match(o))]
    found: list[str] = []
    for name in names:
        kind, digits = (name[:2], name[2:]) if name.startswith("U") else (name[:1], name[1:])
        if digits != "Z":
            first = int(digits)
            found += [f"{kind}{n}" for n in range(first, min(first + _width(instruction), _REGISTERS))]
    return found


def _width(instruction: Instruction) -> int:
    """Registers that one result may take."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode.endswith("GMMA") or opcode.startswith("LDT"):
        return _REGISTERS
    if opcode == "CS2R":
        return 1 if "32" in modifiers else 2
    if opcode in ("LDSM", "LDG", "LD", "LDS", "LDL", "LDC", "ULDC", "LDCU") or opcode.startswith("ATOM"):
        words = [int(m) for m in modifiers if opcode == "LDSM" and m in ("1", "2", "4")]
        return max([_WORDS.get(m, 1) for m in modifiers] + words, default=1)
    if opcode in _SINGLE:
        return 1
    wide = is_wide(instruction)
    pipe = pipe_of(instruction)
    if pipe in ("alu", "int", "fp32", "fp16", "sfu", "uniform"):
        return 2 if wide or (opcode.endswith("2") and opcode.startswith("F")) else 1
    return {"fp64": 2, "tensor": 4}.get(pipe, 8)


def is_wide(instruction: Instruction) -> bool:
    """Whether it computes with pairs of registers."""
    return any(m in ("64", "F64", "S64", "U64", "WIDE") for m in instruction.modifiers)


def destinations(instruction: Instruction) -> tuple[str, ...]:
    """Leading operands that may be results: registers and predicates before the first source."""
    return parts_of(instruction).destinations


def _destinations(instruction: Instruction) -> tuple[str, ...]:
    operands = instruction.operands
    if (
        instruction.opcode in ("TEX", "TLD", "TLD4", "TXQ", "SULD", "TMML", "TXD")
        or "ENL2" in instruction.modifiers
    ):
        return tuple(o for o in operands[:3] if REGISTER.match(o) or PREDICATE.match(o))
    count = 0
    seen = False
    for operand in operands:
        if PREDICATE.match(operand) and not operand.startswith("!"):
            count += 1
        elif not seen and REGISTER.match(operand):
            seen = True
            count += 1
        else:
            break
    return operands[:count]


def sources(instruction: Instruction) -> tuple[str, ...]:
    """Operands that are read."""
    return parts_of(instruction).sources
