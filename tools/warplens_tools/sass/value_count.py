# SPDX-License-Identifier: Apache-2.0
"""How many different values a register can hold, from masks, shifts, narrow loads and remainders.

For addresses that data decides: an atomic on `bins[(event & 1023) >> 4]` goes to at most 64 places, whichever the
data, and wherever the source hides the mask. A register is followed to the instruction before it in address order
that writes it, so what a loop carries round is not followed. What a launch fixes for all threads counts as one value,
what numbers threads or blocks as any, unless it is masked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.flow import Flow
from warplens_tools.sass.results import REGISTER, destinations, registers_written, sources

#: Values from which a register counts as anything.
_MANY = 1 << 32
_BITS, _WARP_BITS = 32, 5
_MAX_DEPTH = 24
_LANE_SOURCES = ("SR_TID", "SR_LANEID", "SR_LANEMASK", "SR_VIRTID")
_BLOCK_SOURCES = ("SR_CTAID",)
_NARROW = {"U8": 1 << 8, "S8": 1 << 8, "U16": 1 << 16, "S16": 1 << 16}
#: Results that are sums or products: each operand's values with each of the others'.
_SUMS = frozenset(
    {"IMAD", "IADD3", "IADD", "VIADD", "LEA", "MOV", "UMOV", "SHF", "I2IP", "LOP3", "PRMT", "IABS"}
)
_ADDRESS = re.compile(r"\[(R\d+)")


class ValueCount:
    """Follows the registers of one kernel; `in_block`: of the threads of one block, whose number is one value."""

    def __init__(self, instructions: Sequence[Instruction], flow: Flow, *, in_block: bool) -> None:
        self.instructions, self.in_block = instructions, in_block
        self.loops = [frozenset(flow.instructions_of(loop)) for loop in flow.loops]
        #: By register, reader and depth: a hash's rounds read each value several times, each of them of several.
        self._known: dict[tuple[str, int, int], int] = {}
        self.writers: dict[str, list[int]] = {}
        for index, instruction in enumerate(instructions):
            for name in registers_written(instruction):
                self.writers.setdefault(name, []).append(index)

    def places(self, index: int) -> int | None:
        """Addresses that the access at `index` can have; None where nothing bounds them."""
        operand = next((o for o in self.instructions[index].operands if "[" in o), "")
        found = _ADDRESS.search(operand)
        return self._bounded(self.register(found[1], index)) if found else None

    def register(self, name: str, at: int, depth: int = 0) -> int:
        """Values that a register can hold where the instruction at `at` reads it; 2^32 where nothing bounds them."""
        key = (name, at, depth)
        if key not in self._known:
            self._known[key] = self._register(name, at, depth)
        return self._known[key]

    def _register(self, name: str, at: int, depth: int) -> int:
        before = [i for i in self.writers.get(name, ()) if i < at]
        if not before or depth > _MAX_DEPTH:
            return _MANY
        last = before[-1]
        if any(at in loop and last not in loop and self._writes_in(name, loop) for loop in self.loops):
            return _MANY  # The loop carries another value round.
        values = self._result(last, name, depth + 1)
        if self.instructions[last].predicate:
            values += self.register(name, last, depth + 1)
        return min(values, _MANY)

    def _writes_in(self, name: str, loop: frozenset[int]) -> bool:
        return any(i in loop for i in self.writers[name])

    @staticmethod
    def _bounded(values: int) -> int | None:
        return values if values < _MANY else None

    def _result(self, index: int, name: str, depth: int) -> int:
        x = self.instructions[index]
        if name.startswith("U"):
            return self._uniform(index, depth)
        if x.opcode == "LDC":
            return 1 if all(o.startswith("c[") for o in sources(x)) else _MANY
        if x.opcode in ("LDG", "LDS", "LDL", "LD"):
            return next((_NARROW[m] for m in x.modifiers if m in _NARROW), _MANY)
        if x.opcode == "S2R":
            return self._special(x)
        operands = [o for o in sources(x) if not re.fullmatch(r"!?U?P(?:\d|T)", o)]
        if x.opcode == "LOP3":
            return self._logic(index, operands, depth)
        if x.opcode == "PRMT":
            return self._bytes(index, operands, depth)
        if x.opcode == "SHF" and "R" in x.modifiers:
            return self._shifted(index, operands, depth)
        if x.opcode in ("VIMNMX", "IMNMX"):
            return self._least(index, operands, depth)
        if x.opcode == "SEL":
            return min(_MANY, sum(self._operand(o, index, depth) for o in operands[:2]))
        if x.opcode in _SUMS and "HI" not in x.modifiers[:1]:
            remainder = self._remainder(index, operands)
            return remainder or self._product(index, operands, depth)
        if x.opcode == "LEA":
            return self._product(index, operands, depth)
        return _MANY

    def _special(self, instruction: Instruction) -> int:
        varying = _LANE_SOURCES if self.in_block else (*_LANE_SOURCES, *_BLOCK_SOURCES)
        return _MANY if any(o.startswith(varying) for o in instruction.operands) else 1

    def _uniform(self, index: int, depth: int) -> int:
        """Of a register that a warp's lanes share: one, unless it is made of the block's number."""
        x = self.instructions[index]
        if x.opcode == "S2UR":
            return self._special(x)
        if self.in_block or x.opcode in ("ULDC", "LDCU"):
            return 1
        names = [m[2] for o in sources(x) if (m := REGISTER.match(o)) and not m[2].endswith("Z")]
        return max((self.register(name, index, depth) for name in names), default=1)

    def _operand(self, operand: str, at: int, depth: int) -> int:
        found = REGISTER.match(operand)
        if found is None or found[2].endswith("Z"):
            return 1
        return self.register(found[2], at, depth)

    def _product(self, index: int, operands: Sequence[str], depth: int) -> int:
        # The same register twice, as in `x * x`, has no more values than once.
        different = dict.fromkeys(o.removesuffix(".reuse") for o in operands)
        return min(_MANY, math.prod(self._operand(o, index, depth) for o in different))

    def _logic(self, index: int, operands: Sequence[str], depth: int) -> int:
        """Of each operand as many values as the bits of it that the result hangs on tell apart."""
        numbers = [_number(o) for o in operands[:4]]
        table = numbers[3] if len(numbers) > 3 else None
        if table is None:
            return _MANY
        total = 1
        for place, operand in enumerate(operands[:3]):
            if numbers[place] is None:
                bits = _felt(table, place, numbers[:3])
                total *= min(1 << bits, self._operand(operand, index, depth))
        return min(_MANY, total)

    def _bytes(self, index: int, operands: Sequence[str], depth: int) -> int:
        """PRMT: bytes 0 to 3 of the first operand, 4 to 7 of the last, as the digits of the middle one name them."""
        selected = _number(operands[1]) if len(operands) > 2 else None
        if selected is None:
            return _MANY
        digits = [selected >> 4 * n & 7 for n in range(4)]
        total = 1
        for operand, own in ((operands[0], range(4)), (operands[2], range(4, 8))):
            if _number(operand) is None:
                taken = len({d for d in digits if d in own})
                total *= min(256**taken, self._operand(operand, index, depth))
        return min(_MANY, total)

    def _shifted(self, index: int, operands: Sequence[str], depth: int) -> int:
        bits = _number(operands[1]) if len(operands) > 2 else None
        high, low = (operands[2], operands[0]) if len(operands) > 2 else ("", "")
        if self.in_block and bits is not None and bits >= _WARP_BITS and self._is_thread(high, index):
            return 1  # The number of the warp: its lanes share it.
        if bits is None or (_number(low) != 0 and low != high):
            return self._product(index, operands, depth)
        return min(1 << max(0, _BITS - bits), self._top(high, index, depth, bits))

    def _is_thread(self, operand: str, index: int) -> bool:
        found = REGISTER.match(operand)
        before = [i for i in self.writers.get(found[2], ()) if i < index] if found else []
        return bool(before) and "SR_TID.X" in self.instructions[before[-1]].operands

    def _top(self, operand: str, index: int, depth: int, bits: int) -> int:
        """Values left of an operand's after its `bits` lowest are gone; those of a mask lose what it selects there."""
        found = REGISTER.match(operand)
        values = self._operand(operand, index, depth)
        before = [i for i in self.writers.get(found[2], ()) if i < index] if found else []
        if before and self.instructions[before[-1]].opcode == "LOP3":
            numbers = [_number(o) for o in sources(self.instructions[before[-1]])]
            mask = next((n for n in numbers[:2] if n), None)
            if mask is not None and numbers[3:4] == [0xC0]:
                return min(values, 1 << (mask >> bits).bit_count())
        return values

    def _least(self, index: int, operands: Sequence[str], depth: int) -> int:
        """The smaller of a number and what is never negative; what is clamped at both ends comes here twice."""
        limit = next((n for o in operands[:2] if (n := _number(o)) is not None), None)
        values = self._product(index, operands[:2], depth)
        greater = any(o == "!PT" for o in self.instructions[index].operands)
        return values if limit is None or greater or limit >= _MANY // 2 else min(values, limit + 1)

    def _remainder(self, index: int, operands: Sequence[str]) -> int | None:
        """m of `x - x / m * m`, which is how `x % m` is worked out: the quotient comes of a product's high half."""
        if self.instructions[index].opcode != "IMAD" or len(operands) != 3:
            return None
        factor = _number(operands[1])
        quotient, whole = REGISTER.match(operands[0]), REGISTER.match(operands[2])
        size = _MANY - factor if factor is not None else 0
        if quotient is None or whole is None or not 1 < size < _MANY // 2:
            return None
        return size if self._comes_of_high_half(quotient[2], index) else None

    def _comes_of_high_half(self, name: str, at: int) -> bool:
        for _ in range(4):
            before = [i for i in self.writers.get(name, ()) if i < at]
            if not before:
                return False
            x = self.instructions[before[-1]]
            written = registers_written(x)
            wide = x.modifiers[:1] == ("WIDE",) and written[1:2] == [name]
            if x.opcode == "IMAD" and (x.modifiers[:1] == ("HI",) or wide):
                return True
            registers = [m[2] for o in sources(x) if (m := REGISTER.match(o)) and not m[2].endswith("Z")]
            if (
                x.opcode not in ("SHF", "LEA", "IADD3", "IMAD", "LOP3")
                or not registers
                or not destinations(x)
            ):
                return False
            name, at = registers[-1] if x.opcode == "SHF" else registers[0], before[-1]
        return False


def _number(operand: str) -> int | None:
    """The 32-bit number that an operand is; None for a register or a constant of the launch."""
    text = operand.removesuffix(".reuse")
    if text in ("RZ", "URZ"):
        return 0
    found = re.fullmatch(r"(-?)(0x[0-9a-f]+|\d+)", text)
    return (int(found[2], 0) * (-1 if found[1] else 1)) % _MANY if found else None


def _felt(table: int, place: int, numbers: Sequence[int | None]) -> int:
    """Bits of one operand of a LOP3 that its result can hang on, with the numbers among the others known."""
    bits = 0
    for bit in range(_BITS):
        rows = range(8)
        for other, known in enumerate(numbers):
            if known is not None:
                rows = [r for r in rows if (r >> (2 - other) & 1) == (known >> bit & 1)]  # type: ignore[assignment]
        flip = 1 << (2 - place)
        bits += any((table >> r & 1) != (table >> (r ^ flip) & 1) for r in rows)
    return bits
