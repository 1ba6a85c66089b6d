"""What single SASS instructions do to the registers that addresses are made of.

Opcodes as nvdisasm prints them for sm_75 to sm_120. What is not listed leaves its results opaque; one on
the uniform path leaves an atom, as all lanes share what that path computes.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from warplens_tools.evidence import Instruction
from warplens_tools.sass import lanes
from warplens_tools.sass.lanes import Atom, Held, Opaque, Value
from warplens_tools.sass.pipes import pipe_of

#: Whether the lanes of a warp can differ in a predicate: never; by a bound that is not known; by data; by
#: threadIdx alone, in part at least.
Split = Literal["uniform", "bounds", "data", "lanes"]
_SPLITS: tuple[Split, ...] = ("uniform", "bounds", "data", "lanes")

_REGISTER = re.compile(r"^([-~]?)(U?R(?:\d+|Z))(?:\.reuse)?$")
_PREDICATE = re.compile(r"^!?(U?P(?:\d|T))$")
_CONSTANT = re.compile(r"^(-?)c\[0x([0-9a-f]+)\]\[(?:(U?R(?:\d+|Z))\+?)?(?:0x([0-9a-f]+))?\]$")
_INTEGER = re.compile(r"^-?(?:0x[0-9a-f]+|\d+)$")
#: Special registers that all lanes of a warp read the same of.
_SHARED_SPECIAL = (
    "SR_CTAID.",
    "SR_NCTAID.",
    "SR_CgaCtaId",
    "SR_CgaSize",
    "SR_GRIDID",
    "SR_SMEMSZ",
    "SR_NWARPID",
)
#: 32-bit results that hang on nothing but the operands: uniform where those are.
_PURE = frozenset(
    {"I2F", "F2I", "I2FP", "MUFU", "FADD", "FMUL", "FFMA", "FSEL", "FMNMX", "POPC", "FLO", "BREV", "SGXT"}
    | {"BMSK", "PRMT", "IMNMX", "VIMNMX", "IABS", "VIADDMNMX", "F2IP", "I2IP", "IDP", "VABSDIFF", "ISCADD"}
)
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
_MOST_LANES = 32
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip
_WORDS = {"64": 2, "128": 4, "256": 8}


class Predicate(msgspec.Struct, frozen=True):
    """How a predicate may differ among lanes, and where it was set (an address, or a join)."""

    split: Split
    where: int


#: A guard as printed, and where its predicate was set.
Guard = tuple[str, int]


class State(msgspec.Struct):
    """Registers and predicates at one point; what is absent is not known."""

    registers: dict[str, Held] = {}
    predicates: dict[str, Predicate] = {}
    #: What a register holds for instructions under the same guard as the one that last set it.
    guarded: dict[str, tuple[Guard, Held]] = {}

    def copy(self) -> State:
        """The same, to be changed by itself."""
        return State(dict(self.registers), dict(self.predicates), dict(self.guarded))


class Launch(msgspec.Struct, frozen=True):
    """What the launch fixes: threadIdx (x, y, z) in a warp, its lanes, and words of the constant banks."""

    threads: tuple[Value, Value, Value]
    lanes: int
    constants: dict[tuple[int, int], Value]


class Machine:
    """Carries registers through instructions; collects what is known of the atoms on the way."""

    def __init__(self, launch: Launch, atoms: dict[str, Atom]) -> None:
        self.launch = launch
        self.atoms = atoms
        self.block = -1
        self.state = State()
        self.condition: Guard | None = None

    def define(self, name: str, multiple: int = 1, natural: bool = False) -> Value:
        """An atom that comes about in the current block; what is known of it only ever shrinks."""
        old = self.atoms.get(name)
        if old is not None:
            multiple, natural = min(multiple, old.multiple), natural and old.natural
        self.atoms[name] = Atom(multiple, natural, self.block if old is None else old.block)
        return lanes.atom(name)

    def fresh(self, where: str) -> lanes.Fresh:
        """Makes the atom `where` of a multiple that may be natural."""
        return lambda multiple, natural: self.define(where, multiple, natural)

    def fixed(self, name: str, multiple: int = 1, natural: bool = False) -> Value:
        """An atom that the launch fixes."""
        self.atoms.setdefault(name, Atom(multiple, natural))
        return lanes.atom(name)

    def step(self, state: State, instruction: Instruction) -> None:
        """What the instruction leaves in registers and predicates."""
        self._enter(state, instruction)
        guard = self.guard(state, instruction)
        results, before = self._results(state, instruction), self.condition
        for name, split in self._tests(state, instruction).items():
            old = state.predicates.get(name, Predicate("data", -1)).split
            both = worst(split, guard, old) if instruction.predicate else split
            state.predicates[name] = Predicate(both, instruction.address)
        for name, held in results.items():
            if name.endswith("Z"):
                continue
            if isinstance(held, Opaque) and name.startswith("U"):
                held = self.define(f"{name}@{instruction.address:#x}")
            state.guarded.pop(name, None)
            if instruction.predicate not in ("", "@PT", "@UPT"):
                if before is not None:
                    state.guarded[name] = (before, held)
                old_held = state.registers.get(name, Opaque("it is set on some paths only"))
                held = self.either(old_held, held, guard, f"{name}?{instruction.address:#x}")
            state.registers[name] = held

    def _enter(self, state: State, instruction: Instruction) -> None:
        """From here on registers are read as this instruction finds them."""
        self.state, self.condition = state, None
        match = _PREDICATE.match(instruction.predicate.removeprefix("@"))
        if match is not None and match[1] in state.predicates:
            self.condition = (instruction.predicate, state.predicates[match[1]].where)

    def guard(self, state: State, instruction: Instruction) -> Split:
        """How lanes differ in whether they execute it, its own predicate considered."""
        return self.split(state, instruction.predicate.removeprefix("@"))

    def split(self, state: State, operand: str) -> Split:
        """How lanes differ in a predicate."""
        match = _PREDICATE.match(operand)
        if match is None or match[1].endswith("T"):
            return "uniform"
        if match[1].startswith("U"):
            return "uniform"
        return state.predicates.get(match[1], Predicate("data", -1)).split

    def either(self, old: Held, new: Held, split: Split, name: str) -> Held:
        """One of two values: known where they agree, or where they differ by what lanes share."""
        if old == new:
            return new
        if isinstance(new, Opaque) or isinstance(old, Opaque):
            return new if isinstance(new, Opaque) else old
        apart = lanes.subtract(new, old)
        if split != "uniform":
            return Opaque("it depends on a condition that lanes differ in")
        if isinstance(apart, Opaque) or not apart.uniform:
            return Opaque("it depends on a condition")
        multiple = lanes.multiple_of(apart, self.atoms)
        return lanes.add(old, self.define(name, multiple, lanes.is_natural(apart, self.atoms)))

    def read(self, state: State, operand: str, where: str) -> Held:
        """An operand's value; `where` names an atom for a constant that is looked up."""
        if match := _REGISTER.match(operand):
            held = self.register(state, match[2])
            if not match[1] or isinstance(held, Opaque):
                return held
            return lanes.negate(held) if match[1] == "-" else lanes.subtract(lanes.number(-1), held)
        if match := _CONSTANT.match(operand):
            found = self._constant(state, match, where)
            return lanes.negate(found) if match[1] and isinstance(found, Value) else found
        if _INTEGER.match(operand):
            return lanes.number(int(operand, 0))
        if operand.startswith("cx["):
            return self.define(where)
        return Opaque(f"the operand {operand} is not followed")

    def register(self, state: State, name: str) -> Held:
        """A register's value."""
        if name.endswith("Z"):
            return lanes.ZERO
        known = state.guarded.get(name)
        if known is not None and known[0] == self.condition:
            return known[1]
        return state.registers.get(name, Opaque("it is not set on every path"))

    def _constant(self, state: State, match: re.Match[str], where: str) -> Held:
        index = self.register(state, match[3]) if match[3] else lanes.ZERO
        if isinstance(index, Opaque):
            return Opaque("it is looked up in constant memory")
        start = index.number
        if start is None:
            return self.define(where) if index.uniform else Opaque("it is looked up in constant memory")
        return self.word(int(match[2], 16), start + int(match[4] or "0", 16))

    def word(self, bank: int, offset: int) -> Value:
        """Four bytes of a constant bank."""
        known = self.launch.constants.get((bank, offset))
        return known if known is not None else self.fixed(f"c[{bank:#x}][{offset:#x}]")

    def _tests(self, state: State, instruction: Instruction) -> dict[str, Split]:
        """Predicates that the instruction sets."""
        if instruction.opcode == "R2P":
            return {f"P{n}": "data" for n in range(7)}
        found = [m[1] for o in _destinations(instruction) if (m := _PREDICATE.match(o)) and m[1][-1] != "T"]
        if not found:
            return {}
        split: Split = "data"
        if instruction.opcode in ("ISETP", "PLOP3", "UISETP", "UPLOP3"):
            split = self._compared(state, instruction)
        return {name: "uniform" if name.startswith("U") else split for name in found}

    def _compared(self, state: State, instruction: Instruction) -> Split:
        operands = instruction.operands[2:]
        tests = [self.split(state, o) for o in operands if _PREDICATE.match(o)]
        where = f"c@{instruction.address:#x}"
        values = [self.read(state, o, where) for o in operands if not _PREDICATE.match(o)]
        if instruction.opcode.endswith("PLOP3"):
            values = []
        return worst(*tests, self._compare(values, instruction.modifiers) if values else "uniform")

    def _compare(self, values: Sequence[Held], modifiers: Sequence[str]) -> Split:
        known = [v for v in values if isinstance(v, Value)]
        if len(known) < len(values):
            return "data"
        if all(v.uniform for v in known):
            return "uniform"
        bounds = {name for v in known for name in v.atoms} - {"warp.x", "warp.y", "warp.z"}
        if bounds:
            return "bounds"
        return "uniform" if _by_warps(known, modifiers, self.atoms) else "lanes"

    def _results(self, state: State, instruction: Instruction) -> dict[str, Held]:
        """Registers that the instruction sets, and what to."""
        opcode = instruction.opcode
        written = registers_written(instruction)
        if not written:
            return {}
        found: dict[str, Held] = dict.fromkeys(written, Opaque(_why(instruction)))
        where = f"{written[0]}@{instruction.address:#x}"
        operands = [o for o in _sources(instruction) if not _PREDICATE.match(o)]
        if opcode in ("LDC", "ULDC", "LDCU") and operands:
            for n, name in enumerate(written):
                found[name] = _advanced(self, state, operands[0], 4 * n, f"{name}@{instruction.address:#x}")
            return found
        if opcode == "CS2R":
            return dict.fromkeys(written, lanes.ZERO) if operands == ["SRZ"] else found
        if opcode in ("S2R", "S2UR") and operands:
            found[written[0]] = self._special(operands[0], instruction)
            return found
        rule = _RULES.get(opcode) or _RULES.get(opcode.removeprefix("U"))
        values = [self.read(state, o, where) for o in operands]
        if rule is not None and "X" not in instruction.modifiers:
            found[written[0]] = rule(self, instruction, values, where)
        elif (
            opcode in _PURE
            and not _is_wide(instruction)
            and values
            and all(isinstance(v, Value) and v.uniform for v in values)
        ):
            found[written[0]] = self.define(where)
        elif pipe_of(instruction) == "lsu" and self._shared_address(state, instruction):
            found |= {name: self.define(f"{name}@{instruction.address:#x}") for name in written}
        return found

    def _special(self, name: str, instruction: Instruction) -> Held:
        for axis, value in zip("XYZ", self.launch.threads, strict=True):
            if name == f"SR_TID.{axis}":
                return value
        if name == "SR_LANEID":
            return lanes.per_lane(range(self.launch.lanes))
        if name.startswith("SR_CTAID."):
            return self.fixed(f"blockIdx.{name[-1].lower()}", natural=True)
        if name.startswith(_SHARED_SPECIAL):
            return self.fixed(name, natural=True)
        if instruction.opcode == "S2UR":
            return self.define(f"{name}@{instruction.address:#x}")
        return Opaque(f"it comes from {name}")

    def _shared_address(self, state: State, instruction: Instruction) -> bool:
        """Whether a load reads one place for all lanes."""
        if instruction.opcode not in ("LDG", "LDS", "LD"):
            return False
        held = self.address(state, instruction)
        return isinstance(held, Value) and held.uniform

    def address(self, state: State, instruction: Instruction, which: int = -1) -> Held:
        """The low 32 bits of the address in an instruction's last bracketed operand, or the `which`-th."""
        self._enter(state, instruction)
        brackets = [o for o in instruction.operands if "[" in o and not o.startswith(("c[", "cx["))]
        if not brackets or len(brackets) <= which:
            return Opaque("it has no address")
        inner = re.sub(r"^desc\[UR\d+\]|^gdesc\[UR\d+\]", "", brackets[which])
        total: Held = lanes.ZERO
        for sign, part in re.findall(r"([-+]?)([^-+\[\]]+)", inner):
            term = self._address_term(state, part, f"c@{instruction.address:#x}")
            if isinstance(term, Value) and isinstance(total, Value):
                total = lanes.add(total, lanes.negate(term) if sign == "-" else term)
            elif isinstance(total, Value):
                total = term
        return total

    def _address_term(self, state: State, part: str, where: str) -> Held:
        name, _, suffix = part.strip().partition(".")
        held = self.read(state, name, where)
        scale = re.fullmatch(r"X(4|8|16)", suffix)
        if scale and isinstance(held, Value):
            return lanes.multiply(held, lanes.number(int(scale[1])))
        return held if suffix in ("", "64", "U32", "reuse", "64.reuse") else Opaque(f"{part} is not followed")


Rule = Callable[[Machine, Instruction, list[Held], str], Held]


def worst(*splits: Split) -> Split:
    """The way of differing that includes the others."""
    return _SPLITS[max(map(_SPLITS.index, splits), default=0)]


def registers_written(instruction: Instruction) -> list[str]:
    """Registers that may change, the first result first; too many where the width is not known."""
    if instruction.opcode in _WRITES_NOTHING:
        return []
    names = [m[2] for o in _destinations(instruction) if (m := _REGISTER.match(o))]
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
    wide = _is_wide(instruction)
    pipe = pipe_of(instruction)
    if pipe in ("alu", "int", "fp32", "fp16", "sfu", "uniform"):
        return 2 if wide or (opcode.endswith("2") and opcode.startswith("F")) else 1
    return {"fp64": 2, "tensor": 4}.get(pipe, 8)


def _is_wide(instruction: Instruction) -> bool:
    return any(m in ("64", "F64", "S64", "U64", "WIDE") for m in instruction.modifiers)


def _destinations(instruction: Instruction) -> tuple[str, ...]:
    """Leading operands that may be results: registers and predicates before the first source."""
    operands = instruction.operands
    if (
        instruction.opcode in ("TEX", "TLD", "TLD4", "TXQ", "SULD", "TMML", "TXD")
        or "ENL2" in instruction.modifiers
    ):
        return tuple(o for o in operands[:3] if _REGISTER.match(o) or _PREDICATE.match(o))
    count = 0
    seen = False
    for operand in operands:
        if _PREDICATE.match(operand) and not operand.startswith("!"):
            count += 1
        elif not seen and _REGISTER.match(operand):
            seen = True
            count += 1
        else:
            break
    return operands[:count]


def _sources(instruction: Instruction) -> tuple[str, ...]:
    return instruction.operands[len(_destinations(instruction)) :]


def _advanced(machine: Machine, state: State, operand: str, by: int, where: str) -> Held:
    """A word `by` bytes on from a constant operand."""
    match = _CONSTANT.match(operand)
    if match is None:
        return machine.define(where) if operand.startswith("cx[") else Opaque("it is looked up")
    offset = int(match[4] or "0", 16) + by
    register = f"{match[3]}+" if match[3] else ""
    return machine.read(state, f"{match[1]}c[0x{match[2]}][{register}{offset:#x}]", where)


def _by_warps(values: Sequence[Value], modifiers: Sequence[str], atoms: dict[str, Atom]) -> bool:
    """Whether a comparison falls alike for all lanes: as numbers, or as its bound is where a warp begins."""
    test = next((_TESTS[m] for m in modifiers if m in _TESTS), None)
    if test is None or len(values) != 2:
        return False
    read = (lambda n: n) if "U32" in modifiers else lanes.signed
    exact = lanes.map_lanes(values, lambda a, b: int(test(read(a), read(b))))
    if exact is not None:
        return exact.uniform
    value, bound = values
    limit = bound.number
    if limit is None or not {"GE", "LT", "GT", "LE"} & set(modifiers):
        return False
    limit += bool({"GT", "LE"} & set(modifiers))
    multiple = lanes.multiple_of(lanes.shared_part(value), atoms)
    return limit % multiple == 0 and all(
        n < multiple for n in lanes.lanes_of(value, _MOST_LANES)[:_MOST_LANES]
    )


def _why(instruction: Instruction) -> str:
    if pipe_of(instruction) == "lsu":
        return "it is loaded from memory"
    if "X" in instruction.modifiers:
        return "it is the high half of an address"
    return f"it is computed by {instruction.opcode}"


def _known(values: Sequence[Held]) -> list[Value] | Opaque:
    opaque = next((v for v in values if isinstance(v, Opaque)), None)
    return opaque if opaque is not None else [v for v in values if isinstance(v, Value)]


def _sum(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    known = _known(values)
    if isinstance(known, Opaque):
        return known
    total: Held = lanes.ZERO
    for value in known:
        total = lanes.add(total, value) if isinstance(total, Value) else total
    return total


def _multiply_add(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    if "HI" in instruction.modifiers:
        return _high_product(machine, instruction, values, where)
    # nothing is known of the addend where the product is zero only by a factor: all three are needed
    known = _known(values)
    if isinstance(known, Opaque) or len(known) != 3:
        return known if isinstance(known, Opaque) else Opaque("it is computed by IMAD")
    product = lanes.multiply(known[0], known[1])
    return lanes.add(product, known[2]) if isinstance(product, Value) else product


def _high_product(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    """The upper word of a product, as divisions by a constant use it; the addend is a pair of registers."""
    pair = _REGISTER.match(instruction.operands[-1])
    if pair is None or pair[1] or len(values) != 3:
        return Opaque("it is computed by IMAD.HI")
    name = pair[2]
    above = name if name.endswith("Z") else f"{name.rstrip('0123456789')}{int(name.lstrip('UR')) + 1}"
    known = _known([*values, machine.register(machine.state, above)])
    if isinstance(known, Opaque):
        return known
    unsigned = "U32" in instruction.modifiers

    def high(a: int, b: int, low: int, up: int) -> int:
        product = a * b if unsigned else lanes.signed(a) * lanes.signed(b)
        return product + (up << 32 | low) >> 32

    exact = lanes.map_lanes(known, high)
    if exact is not None:
        return exact
    if all(v.uniform for v in known):
        return machine.define(where)
    return Opaque("it is divided by a number that is no power of two")


def _scaled_add(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    """LEA: a shifted left and added; with HI the part that a left shift pushes out."""
    if "HI" not in instruction.modifiers:
        known = _known(values[:3])
        shift = known[2].number if not isinstance(known, Opaque) and len(known) == 3 else None
        if isinstance(known, Opaque) or shift is None:
            return known if isinstance(known, Opaque) else Opaque("it is shifted by an unknown number")
        product = lanes.multiply(known[0], lanes.number(1 << (shift & 31)))
        return lanes.add(product, known[1]) if isinstance(product, Value) else product
    signed = "SX32" in instruction.modifiers
    if not signed and (len(values) != 4 or values[2] != lanes.ZERO):
        return Opaque("it is the high half of an address")
    known = _known([values[0], values[1], values[-1]])
    shift = known[2].number if not isinstance(known, Opaque) else None
    if isinstance(known, Opaque) or shift is None:
        return known if isinstance(known, Opaque) else Opaque("it is shifted by an unknown number")
    high = _right(machine, known[0], 32 - (shift & 31), where, arithmetic=signed)
    return lanes.add(high, known[1]) if isinstance(high, Value) else high


def _shift(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    modifiers = set(instruction.modifiers)
    if len(values) == 2 and instruction.opcode.endswith(("SHL", "SHR")):
        values, modifiers = [values[0], values[1], lanes.ZERO], {*modifiers, instruction.opcode[-1]}
        taken = values[0]
    elif "R" in modifiers and "HI" in modifiers:
        if {"U64", "S64"} & modifiers:
            return Opaque("it is the high half of an address")
        taken = values[2]
    elif "R" in modifiers and values[2] != lanes.ZERO:
        return Opaque("it is shifted out of 64 bits")
    elif "L" in modifiers and "HI" in modifiers:
        return Opaque("it is the high half of an address")
    else:
        taken = values[0]
    amount = values[1]
    if isinstance(taken, Opaque) or isinstance(amount, Opaque):
        return taken if isinstance(taken, Opaque) else amount
    bits = amount.number
    if bits is None or "W" in modifiers or bits > 31:
        return (
            machine.define(where)
            if taken.uniform and amount.uniform
            else Opaque("it is shifted by a variable")
        )
    if "L" in modifiers:
        return lanes.multiply(taken, lanes.number(1 << bits))
    return _right(machine, taken, bits, where, arithmetic=bool({"S32", "S64"} & modifiers))


def _right(machine: Machine, value: Value, bits: int, where: str, *, arithmetic: bool) -> Held:
    if not bits:
        return value

    def fresh(multiple: int, natural: bool) -> Value:
        return machine.define(where, multiple, natural or not arithmetic)

    return lanes.shift_right(value, bits, machine.atoms, fresh, arithmetic=arithmetic)


def _logic(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    known = _known(values[:4])
    if isinstance(known, Opaque) or len(known) != 4 or (table := known[3].number) is None:
        return known if isinstance(known, Opaque) else Opaque("it is computed by LOP3")

    def operation(a: int, b: int, c: int) -> int:
        result = 0
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result & (lanes.MODULUS - 1)

    return lanes.bitwise(known[:3], operation, machine.atoms, machine.fresh(where))


def _select(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    if len(values) != 2:
        return Opaque("it is selected")
    test = _PREDICATE.match(instruction.operands[-1])
    if test is not None and test[1].endswith("T"):
        return values[1] if instruction.operands[-1].startswith("!") else values[0]
    return machine.either(values[0], values[1], machine.split(machine.state, instruction.operands[-1]), where)


def _absolute(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    value = values[0]
    if isinstance(value, Opaque) or lanes.is_natural(value, machine.atoms):
        return value
    exact = lanes.map_lanes([value], lambda a: abs(lanes.signed(a)))
    return exact if exact is not None else Opaque("it is computed by IABS")


def _least(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    known = _known(values)
    last = instruction.operands[-1]
    if isinstance(known, Opaque) or len(known) != 2 or last not in ("PT", "!PT", "UPT", "!UPT"):
        return known if isinstance(known, Opaque) else Opaque(f"it is computed by {instruction.opcode}")
    choose = max if last.startswith("!") else min
    key = (lambda a: a) if "U32" in instruction.modifiers else lanes.signed
    exact = lanes.map_lanes(known, lambda a, b: choose(a, b, key=key))
    if exact is not None:
        return exact
    return machine.define(where) if all(v.uniform for v in known) else Opaque("it is cut off at a bound")


def _copy(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    return values[0] if values else Opaque("it is computed by MOV")


def _halves(machine: Machine, instruction: Instruction, values: list[Held], where: str) -> Held:
    """HFMA2 of zeros is how the compiler loads some constants: two half-precision numbers."""
    operands = instruction.operands[-4:]
    packed = any(m.startswith("BF16") for m in instruction.modifiers)
    if packed or len(operands) != 4 or operands[0].strip("-") != "RZ" or operands[1].strip("-") != "RZ":
        return Opaque("it is computed by HFMA2")
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(o)))[0] for o in operands[2:])
    except (ValueError, OverflowError):
        return Opaque("it is computed by HFMA2")
    return lanes.number(high << 16 | low)


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
    "HFMA2": _halves,
}
