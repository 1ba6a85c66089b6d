# SPDX-License-Identifier: Apache-2.0
"""Which registers a SASS instruction reads and writes.

Operand order and register widths follow the listings of NVIDIA's "CUDA Binary Utilities" manual. Registers that
hold constants (RZ, URZ, PT) are left out.
"""

from __future__ import annotations

import functools
import re

from warplens_tools.evidence import Instruction
from warplens_tools.sass.pipes import access_bytes, is_store, pipe_of

_REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)")
_PREDICATE = re.compile(r"U?P(?:\d+|T)")
#: Instructions that write no register, besides stores and control flow.
_WRITES_NONE = frozenset(
    {"RED", "REDG", "REDS", "LDGSTS", "CCTL", "MEMBAR", "FENCE", "ERRBAR", "DEPBAR", "LDGDEPBAR"}
)
_SETS_PREDICATES = ("ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "UISETP", "UPLOP3", "VOTE", "R2P", "FCHK")


def registers_of(instruction: Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """(written, read) of one instruction, by name: "R4", "UR6", "P0"."""
    return _registers(instruction.opcode, instruction.modifiers, instruction.operands, instruction.predicate)


def place_registers(instruction: Instruction) -> frozenset[str]:
    """The registers that its address is made of."""
    return frozenset(
        name for o in instruction.operands if "[" in o for name in _names(o, 2 if ".64" in o else 1)
    )


@functools.lru_cache(maxsize=8192)
def _registers(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[str, ...], predicate: str
) -> tuple[frozenset[str], frozenset[str]]:
    """By what is written alone: an instruction that is kept here would keep its whole listing."""
    instruction = Instruction(0, opcode, modifiers, operands, predicate)
    at = _targets(instruction)
    written = [
        name for operand in instruction.operands[:at] for name in _names(operand, _written_width(instruction))
    ]
    width = _read_width(instruction)
    read = [
        name
        for operand in instruction.operands[at:]
        for name in _names(operand, 2 if ".64" in operand else 1 if "[" in operand else width)
    ]
    read += _names(instruction.predicate, 1)
    return frozenset(written), frozenset(read)


def _targets(instruction: Instruction) -> int:
    """How many of the leading operands are written."""
    operands = instruction.operands
    if is_store(instruction) or instruction.opcode in _WRITES_NONE or pipe_of(instruction) == "control":
        return 1 if instruction.opcode in _SETS_PREDICATES and operands else 0
    leading = 0
    while leading < len(operands) and _PREDICATE.fullmatch(operands[leading]):
        leading += 1
    if instruction.opcode.startswith(_SETS_PREDICATES):
        return min(max(leading, 1), 2)
    count = leading + 1 if leading < len(operands) else leading
    # A carry or a mask comes out beside the result: IADD3 R4, P0, …
    while count < len(operands) and not leading and _PREDICATE.fullmatch(operands[count]) and count < 3:
        count += 1
    return count


def _names(operand: str, width: int) -> list[str]:
    found = []
    for kind, number in _REGISTER.findall(operand):
        wide = width if kind in ("R", "UR") else 1
        found += [f"{kind}{int(number) + i}" for i in range(wide)]
    return found


def _written_width(instruction: Instruction) -> int:
    if pipe_of(instruction) == "lsu" and instruction.opcode.startswith(("LD", "ATOM")):
        return max(access_bytes(instruction) // 4, 1)
    if instruction.opcode in ("HMMA", "IMMA", "QMMA"):
        return 2 if instruction.modifiers[-1:] == ("F16",) else 4
    return 2 if _is_wide(instruction) else 1


def _read_width(instruction: Instruction) -> int:
    if is_store(instruction):
        return max(access_bytes(instruction) // 4, 1)
    if instruction.opcode in ("HMMA", "IMMA", "QMMA"):
        return 4
    return 2 if pipe_of(instruction) == "fp64" else 1


def _is_wide(instruction: Instruction) -> bool:
    if instruction.opcode == "F2I":
        return any(m in ("U64", "S64") for m in instruction.modifiers)
    if instruction.opcode == "CS2R":
        return "32" not in instruction.modifiers
    return pipe_of(instruction) == "fp64" or "WIDE" in instruction.modifiers or "64" in instruction.modifiers
