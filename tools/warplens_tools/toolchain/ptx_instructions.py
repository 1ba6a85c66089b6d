# SPDX-License-Identifier: Apache-2.0
"""The instructions of a block of a kernel's PTX: what each makes, and what of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.toolchain.ptx_blocks import Block
from warplens_tools.toolchain.ptx_flow import split_operands

_INSTRUCTION = re.compile(r"^\s*(@!?%p\d+\s+)?([a-z][\w.]*(?:::[\w.]+)*)\s+([^;]*);")
REGISTER = re.compile(r"%(?:rd|rs|r|p|f|fd|h)\d+\b")


class Instruction(msgspec.Struct, frozen=True):
    """One instruction of a block: what it makes, and what of."""

    name: str
    to: tuple[str, ...]
    operands: tuple[str, ...]


def instructions_of(block: Block, lines: Sequence[str]) -> Iterator[Instruction]:
    """Those of a block of a body with these lines; branches by what they are taken by."""
    for number, _ in block.instructions:
        if (found := _INSTRUCTION.match(lines[number])) is None:
            continue
        name, parts = found[2], split_operands(found[3])
        if name.startswith("bra"):
            yield Instruction("bra", (), tuple(REGISTER.findall(found[1] or "")))
        elif name.startswith(("st.", "red.", "bar", "ret", "exit", "membar", "fence")) or not parts:
            yield Instruction(name, (), tuple(parts))
        else:
            yield Instruction(name, tuple(REGISTER.findall(parts[0])), tuple(parts[1:]))


def registers_of(one: Instruction) -> list[str]:
    """What an instruction reads."""
    return [register for operand in one.operands for register in REGISTER.findall(operand)]
