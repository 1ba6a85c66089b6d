# SPDX-License-Identifier: Apache-2.0
"""Products of two 16-bit floating-point values that a loop loads: what matrix instructions would multiply.

A value comes from a load of shared or global memory, is widened (`HADD2.F32` for half; a shift by 16 bits, `PRMT` or a
mask for bfloat16) or stays packed, and is multiplied by another such value. It may be widened on its way into shared
memory: where a kernel stores nothing else there, what it loads from there are such values.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.evidence import Instruction
from warplens_tools.sass.flow import Flow, Loop
from warplens_tools.sass.pipes import access_bytes, is_load, is_store, space_of
from warplens_tools.sass.registers import registers_of

_WIDE_PRODUCTS, _PACKED_PRODUCTS = frozenset({"FFMA", "FMUL"}), frozenset({"HFMA2", "HMUL2"})
#: Operands of the instructions that make a float of a bfloat16: shift counts, factors and masks.
_WIDENING = frozenset({"0x10", "0x10000", "0xffff0000"})
_MOVES = frozenset({"MOV", "PRMT", "IMAD", "SEL"})


class _Value(msgspec.Struct, frozen=True):
    """What a register holds of a load: as loaded, or one element of it, widened by the instruction `made`."""

    load: int
    #: Negative where it was loaded wide.
    made: int
    wide: bool


class Products(msgspec.Struct, frozen=True):
    """The products of one loop. Indices of instructions."""

    products: tuple[int, ...]
    #: The loads, and what widens their values.
    loads: tuple[int, ...]
    widening: tuple[int, ...]
    #: Different values that are multiplied.
    values: int

    @property
    def is_outer(self) -> bool:
        """Whether values meet several others each, as in a tile of a matrix product: a dot product has more values
        than products."""
        return len(self.products) >= self.values


def fp16_products(instructions: Sequence[Instruction], flow: Flow) -> list[Products]:
    """The products of every loop that holds no other and multiplies such values, in address order."""
    staged = stages_widened(instructions)
    found = [_in_loop(instructions, flow, loop, staged) for loop in flow.innermost_loops]
    return [p for p in found if p.products]


def stages_widened(instructions: Sequence[Instruction]) -> bool:
    """Whether shared memory gets widened 16-bit values, and beside them at most zeros."""
    held: dict[str, _Value] = {}
    stored: set[str] = set()
    for _ in range(2):  # Twice: what a loop loads may be stored in its next iteration.
        stored = set()
        for i, x in enumerate(instructions):
            if space_of(x) == "shared" and not is_load(x):
                stored.add(_stored(x, held))
            _follow(i, x, held)
    return "widened" in stored and stored <= {"widened", "zero"}


def _stored(x: Instruction, held: dict[str, _Value]) -> str:
    """ "widened", "zero", or "other": what an instruction puts into shared memory."""
    if not is_store(x) or len(x.operands) != 2:
        return "other"
    first = _register(x.operands[1])
    if first == "RZ":
        return "zero"
    if not first[1:].isdigit():
        return "other"
    names = [f"R{int(first[1:]) + n}" for n in range(max(access_bytes(x) // 4, 1))]
    return "widened" if all(n in held and held[n].wide for n in names) else "other"


def _in_loop(instructions: Sequence[Instruction], flow: Flow, loop: Loop, staged: bool) -> Products:
    indices = flow.instructions_of(loop)
    held: dict[str, _Value] = {}
    pairs: dict[int, tuple[_Value, _Value]] = {}
    for _ in range(2):  # Twice: what one pass loads may be multiplied in the next.
        for i in indices:
            pair = _product(instructions[i], held)
            if pair is not None:
                pairs[i] = pair
            _follow(i, instructions[i], held, staged)
    values = {v for pair in pairs.values() for v in pair}
    return Products(
        tuple(sorted(pairs)),
        tuple(sorted({v.load for v in values})),
        tuple(sorted({v.made for v in values if v.wide and v.made >= 0})),
        len({(v.load, v.made) for v in values}),
    )


def _product(x: Instruction, held: dict[str, _Value]) -> tuple[_Value, _Value] | None:
    if x.opcode not in _WIDE_PRODUCTS | _PACKED_PRODUCTS or len(x.operands) < 3:
        return None
    a, b = (held.get(_register(operand)) for operand in x.operands[1:3])
    wide = x.opcode in _WIDE_PRODUCTS
    if a is None or b is None or a.wide != wide or b.wide != wide or (a.load, a.made) == (b.load, b.made):
        return None
    return a, b


def _follow(i: int, x: Instruction, held: dict[str, _Value], staged: bool = False) -> None:
    written, _ = registers_of(x)
    source = next((held[r] for o in x.operands[1:] if (r := _register(o)) in held), None)
    for name in written:
        held.pop(name, None)
    if staged and is_load(x) and space_of(x) == "shared":
        held.update({name: _Value(i, -1 - n, True) for n, name in enumerate(sorted(written))})
    elif is_load(x) and space_of(x) in ("shared", "global", "generic"):
        held.update({name: _Value(i, i + n, False) for n, name in enumerate(sorted(written))})
    elif source is not None and not source.wide:
        if _widens(x):
            held.update({name: _Value(source.load, i, True) for name in written})
        elif x.opcode in _MOVES and not {"WIDE", "HI"} & set(x.modifiers):
            held.update(dict.fromkeys(written, source))


def _widens(x: Instruction) -> bool:
    if x.opcode == "HADD2":
        return "F32" in x.modifiers
    return x.opcode in {"IMAD", "SHF", "LOP3", "PRMT", "SHL"} and not _WIDENING.isdisjoint(x.operands[1:])


def _register(operand: str) -> str:
    """ "R12" of "-R12.H0_H0" or "R12.reuse"."""
    return operand.lstrip("-|~").partition(".")[0].rstrip("|")
