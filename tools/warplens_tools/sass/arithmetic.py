# SPDX-License-Identifier: Apache-2.0
"""What integer instructions of SASS compute, as `warplens_tools.sass.lanes` counts.

Opcodes as nvdisasm prints them for sm_75 to sm_120; those of the uniform path have the same rules.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgspec

from warplens_tools.evidence import Instruction
from warplens_tools.sass import lanes
from warplens_tools.sass.lanes import Atoms, Fresh, LaneValue, Unknown, Value


class Inputs(msgspec.Struct, frozen=True):
    """What one instruction computes with."""

    instruction: Instruction
    #: Its sources without predicates, in order.
    values: Sequence[Value]
    #: The register after the last source, of which some instructions read a pair.
    above: LaneValue
    atoms: Atoms
    #: Makes the atom that stands for its result.
    fresh: Fresh
    #: One of two values by its predicate operand.
    choose: Callable[[LaneValue, LaneValue], LaneValue]


Rule = Callable[[Inputs], LaneValue]


def rule_of(opcode: str) -> Rule | None:
    """The rule of an opcode; None where there is none."""
    return _RULES.get(opcode) or _RULES.get(opcode.removeprefix("U"))


def _sum(inputs: Inputs) -> LaneValue:
    total: LaneValue = lanes.ZERO
    for value in inputs.values:
        total = lanes.add(total, value) if isinstance(total, Value) else total
    return total


def _multiply_add(inputs: Inputs) -> LaneValue:
    if "HI" in inputs.instruction.modifiers:
        return _high_product(inputs)
    if len(inputs.values) != 3:
        return Unknown("it is computed by IMAD")
    a, b, c = inputs.values
    return _plus(lanes.multiply(a, b), c)


def _plus(product: LaneValue, c: Value) -> LaneValue:
    return lanes.add(product, c) if isinstance(product, Value) else product


def _high_product(inputs: Inputs) -> LaneValue:
    """The upper word of a product, as divisions by a constant use it; the addend is a pair of registers."""
    if len(inputs.values) != 3 or isinstance(inputs.above, Unknown):
        return Unknown("it is computed by IMAD.HI")
    operands = [*inputs.values, inputs.above]
    unsigned = "U32" in inputs.instruction.modifiers

    def high(a: int, b: int, low: int, up: int) -> int:
        product = a * b if unsigned else lanes.signed(a) * lanes.signed(b)
        return product + (up << 32 | low) >> 32

    exact = lanes.map_lanes(operands, high)
    if exact is not None:
        return exact
    if all(v.uniform for v in operands):
        return inputs.fresh(1, False)
    return Unknown("it is divided by a number that is no power of two", mixed=True)


def _scaled_add(inputs: Inputs) -> LaneValue:
    """LEA: a shifted left and added; with HI the part that a left shift pushes out, of a word or of a pair."""
    values, modifiers = inputs.values, inputs.instruction.modifiers
    shift = values[-1].number if len(values) > 2 else None
    if shift is None:
        return Unknown("it is shifted by an unknown number")
    if "HI" not in modifiers:
        return _plus(lanes.multiply(values[0], lanes.number(1 << (shift & 31))), values[1])
    arithmetic = "SX32" in modifiers
    if not arithmetic and (len(values) != 4 or values[2] != lanes.ZERO):
        return _HIGH_HALF
    return _plus(_right(inputs, values[0], 32 - (shift & 31), arithmetic=arithmetic), values[1])


def _shift(inputs: Inputs) -> LaneValue:
    """SHF takes a pair of registers; followed where the other one is zero."""
    values, modifiers = inputs.values, set(inputs.instruction.modifiers)
    if len(values) == 2:
        return _shifted(inputs, values[0], values[1], left=inputs.instruction.opcode.endswith("L"))
    if len(values) != 3 or "W" in modifiers:
        return Unknown("it is computed by SHF")
    if "HI" in modifiers:
        if "L" in modifiers or {"U64", "S64"} & modifiers:
            return _HIGH_HALF
        return _shifted(inputs, values[2], values[1], left=False)
    if "R" in modifiers and values[2] != lanes.ZERO:
        return Unknown("it is shifted out of 64 bits")
    return _shifted(inputs, values[0], values[1], left="L" in modifiers)


def _shifted(inputs: Inputs, value: Value, amount: Value, *, left: bool) -> LaneValue:
    bits = amount.number
    if bits is None or bits > 31:
        uniform = value.uniform and amount.uniform
        return inputs.fresh(1, False) if uniform else Unknown("it is shifted by a variable")
    if left:
        return lanes.multiply(value, lanes.number(1 << bits))
    arithmetic = not {"S32", "S64"}.isdisjoint(inputs.instruction.modifiers)
    return _right(inputs, value, bits, arithmetic=arithmetic)


def _right(inputs: Inputs, value: Value, bits: int, *, arithmetic: bool) -> LaneValue:
    if not bits:
        return value

    def fresh(multiple: int, natural: bool) -> Value:
        return inputs.fresh(multiple, natural or not arithmetic)

    return lanes.shift_right(value, bits, inputs.atoms, fresh, arithmetic=arithmetic)


def _logic(inputs: Inputs) -> LaneValue:
    table = inputs.values[3].number if len(inputs.values) > 3 else None
    if table is None:
        return Unknown("it is computed by LOP3")

    def operation(a: int, b: int, c: int) -> int:
        result = 0
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result & (lanes.MODULUS - 1)

    return lanes.bitwise(inputs.values[:3], operation, inputs.atoms, inputs.fresh)


def _select(inputs: Inputs) -> LaneValue:
    if len(inputs.values) != 2:
        return Unknown("it is selected")
    a, b = inputs.values
    test = inputs.instruction.operands[-1]
    if test.endswith("PT"):
        return b if test.startswith("!") else a
    return inputs.choose(a, b)


def _absolute(inputs: Inputs) -> LaneValue:
    value = inputs.values[0]
    if lanes.is_natural(value, inputs.atoms):
        return value
    exact = lanes.map_lanes([value], lambda a: abs(lanes.signed(a)))
    return exact if exact is not None else Unknown("it is computed by IABS")


def _least(inputs: Inputs) -> LaneValue:
    last = inputs.instruction.operands[-1]
    if len(inputs.values) != 2 or not last.endswith("PT"):
        return Unknown(f"it is computed by {inputs.instruction.opcode}")
    choose = max if last.startswith("!") else min
    unsigned = "U32" in inputs.instruction.modifiers

    def least(a: int, b: int) -> int:
        return choose(a, b) if unsigned else choose(lanes.signed(a), lanes.signed(b))

    exact = lanes.map_lanes(inputs.values, least)
    if exact is not None:
        return exact
    uniform = all(v.uniform for v in inputs.values)
    return inputs.fresh(1, False) if uniform else Unknown("it is cut off at a bound", mixed=True)


def _copy(inputs: Inputs) -> LaneValue:
    return inputs.values[0]


def halves(instruction: Instruction) -> LaneValue:
    """HFMA2 of zeros, by which the compiler loads some constants: two half-precision numbers."""
    operands = instruction.operands[-4:]
    packed = any(m.startswith("BF16") for m in instruction.modifiers)
    if packed or len(operands) != 4 or [o.strip("-") for o in operands[:2]] != ["RZ", "RZ"]:
        return Unknown("it is computed by HFMA2")
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(o)))[0] for o in operands[2:])
    except (ValueError, OverflowError):
        return Unknown("it is computed by HFMA2")
    return lanes.number(high << 16 | low)


_HIGH_HALF = Unknown("it is the high half of an address")
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("IADD3", "IADD", "VIADD", "IADD32I"), _sum),
    **dict.fromkeys(("IMAD", "IMAD32I"), _multiply_add),
    **dict.fromkeys(("SHF", "SHL", "SHR"), _shift),
    **dict.fromkeys(("IMNMX", "VIMNMX"), _least),
    **dict.fromkeys(("MOV", "MOV32I", "R2UR"), _copy),
    "LEA": _scaled_add,
    "LOP3": _logic,
    "SEL": _select,
    "IABS": _absolute,
}
