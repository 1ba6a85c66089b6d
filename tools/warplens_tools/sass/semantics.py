# SPDX-License-Identifier: Apache-2.0
"""Carries what a warp's registers and predicates hold through SASS instructions.

What no rule covers leaves its results opaque; on the uniform path it leaves an atom, as all lanes share
what that path computes.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from warplens_tools.evidence import Instruction
from warplens_tools.sass import lanes
from warplens_tools.sass.arithmetic import Inputs, halves, rule_of
from warplens_tools.sass.lanes import Atom, LaneValue, Unknown, Value
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.results import PREDICATE, REGISTER, is_wide, parts_of
from warplens_tools.sass.warps import Launch

#: Why an address is not known that data gives.
LOADED = "it is loaded from memory"
#: Whether the lanes of a warp can differ in a predicate: never; by a bound that is not known; by data; by
#: threadIdx alone, in part at least.
Split = Literal["uniform", "bounds", "data", "lanes"]
_SPLITS: tuple[Split, ...] = ("uniform", "bounds", "data", "lanes")

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
_MOST_LANES = 32
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip


@functools.lru_cache(maxsize=8192)
def _operand(text: str) -> re.Match[str] | None:
    """A register, a constant or an integer; read once for a text."""
    return REGISTER.match(text) or _CONSTANT.match(text) or _INTEGER.match(text)


class Predicate(msgspec.Struct, frozen=True):
    """How a predicate may differ among lanes, and where it was set (an address, or a join)."""

    split: Split
    where: int


#: A guard as printed, and where its predicate was set.
Guard = tuple[str, int]


class State(msgspec.Struct):
    """Registers and predicates at one point; what is absent is not known."""

    registers: dict[str, LaneValue] = {}
    predicates: dict[str, Predicate] = {}
    #: What a register holds for instructions under the same guard as the one that last set it.
    guarded: dict[str, tuple[Guard, LaneValue]] = {}

    def copy(self) -> State:
        """The same, to be changed by itself."""
        return State(dict(self.registers), dict(self.predicates), dict(self.guarded))


class Semantics:
    """Carries registers through instructions; collects what is known of the atoms on the way."""

    def __init__(self, launch: Launch, atoms: dict[str, Atom]) -> None:
        self.launch = launch
        self.atoms = atoms
        self.block = -1
        self.state = State()
        self.condition: Guard | None = None

    def define(self, name: str, multiple: int = 1, natural: bool = False, step: int = 0) -> Value:
        """An atom that comes about in the current block; what is known of it only ever shrinks."""
        old = self.atoms.get(name)
        if old is not None:
            multiple, natural = min(multiple, old.multiple), natural and old.natural
            step = step if old.step in (0, step) else old.step if step == 0 else -1
        self.atoms[name] = Atom(multiple, natural, self.block if old is None else old.block, step)
        return lanes.atom(name)

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
            if name.startswith("U") and not (isinstance(held, Value) and held.uniform):
                held = self.define(f"{name}@{instruction.address:#x}")
            state.guarded.pop(name, None)
            if instruction.predicate not in ("", "@PT", "@UPT"):
                if before is not None:
                    state.guarded[name] = (before, held)
                old_held = state.registers.get(name, Unknown("it is set on some paths only"))
                held = self.either(old_held, held, guard, f"{name}?{instruction.address:#x}")
            state.registers[name] = held

    def _enter(self, state: State, instruction: Instruction) -> None:
        """From here on registers are read as this instruction finds them."""
        self.state, self.condition = state, None
        if not instruction.predicate:
            return
        match = PREDICATE.match(instruction.predicate.removeprefix("@"))
        if match is not None and match[1] in state.predicates:
            self.condition = (instruction.predicate, state.predicates[match[1]].where)

    def guard(self, state: State, instruction: Instruction) -> Split:
        """How lanes differ in whether they execute it, its own predicate considered."""
        return self.split(state, instruction.predicate.removeprefix("@"))

    def split(self, state: State, operand: str) -> Split:
        """How lanes differ in a predicate."""
        match = PREDICATE.match(operand) if operand else None
        if match is None or match[1].endswith("T"):
            return "uniform"
        if match[1].startswith("U"):
            return "uniform"
        return state.predicates.get(match[1], Predicate("data", -1)).split

    def either(self, old: LaneValue, new: LaneValue, split: Split, name: str) -> LaneValue:
        """One of two values: known where they agree, or where they differ by what lanes share."""
        if old == new:
            return new
        if isinstance(new, Unknown) or isinstance(old, Unknown):
            return new if isinstance(new, Unknown) else old
        apart = lanes.subtract(new, old)
        if split != "uniform":
            return Unknown("it depends on a condition that lanes differ in")
        if isinstance(apart, Unknown) or not apart.uniform:
            return Unknown("it depends on a condition")
        multiple = lanes.multiple_of(apart, self.atoms)
        return lanes.add(old, self.define(name, multiple, lanes.is_natural(apart, self.atoms)))

    def read(self, state: State, operand: str, where: str) -> LaneValue:
        """An operand's value; `where` names an atom for a constant that is looked up."""
        match = _operand(operand)
        if match is None:
            if operand.startswith("cx["):
                return self.define(where)
            return Unknown(f"the operand {operand} is not followed")
        if match.re is REGISTER:
            held = self.register(state, match[2])
            if not match[1] or isinstance(held, Unknown):
                return held
            return lanes.negate(held) if match[1] == "-" else lanes.subtract(lanes.number(-1), held)
        if match.re is _CONSTANT:
            found = self._constant(state, match, where)
            return lanes.negate(found) if match[1] and isinstance(found, Value) else found
        return lanes.number(int(operand, 0))

    def register(self, state: State, name: str) -> LaneValue:
        """A register's value."""
        if name.endswith("Z"):
            return lanes.ZERO
        known = state.guarded.get(name)
        if known is not None and known[0] == self.condition:
            return known[1]
        return state.registers.get(name, Unknown("it is not set on every path"))

    def _constant(self, state: State, match: re.Match[str], where: str) -> LaneValue:
        index = self.register(state, match[3]) if match[3] else lanes.ZERO
        if isinstance(index, Unknown):
            return Unknown("it is looked up in constant memory")
        start = index.number
        if start is None:
            return self.define(where) if index.uniform else Unknown("it is looked up in constant memory")
        return self.word(int(match[2], 16), start + int(match[4] or "0", 16))

    def word(self, bank: int, offset: int) -> Value:
        """Four bytes of a constant bank."""
        known = self.launch.constants.get((bank, offset))
        return known if known is not None else self.fixed(f"c[{bank:#x}][{offset:#x}]")

    def _tests(self, state: State, instruction: Instruction) -> dict[str, Split]:
        """Predicates that the instruction sets."""
        if instruction.opcode == "R2P":
            return {f"P{n}": "data" for n in range(7)}
        found = parts_of(instruction).tests
        if not found:
            return {}
        split: Split = "data"
        if instruction.opcode in ("ISETP", "PLOP3", "UISETP", "UPLOP3"):
            split = self._compared(state, instruction)
        return {name: "uniform" if name.startswith("U") else split for name in found}

    def _compared(self, state: State, instruction: Instruction) -> Split:
        operands = instruction.operands[2:]
        tests = [self.split(state, o) for o in operands if PREDICATE.match(o)]
        where = f"c@{instruction.address:#x}"
        values = [self.read(state, o, where) for o in operands if not PREDICATE.match(o)]
        if instruction.opcode.endswith("PLOP3"):
            values = []
        return worst(*tests, self._compare(values, instruction.modifiers) if values else "uniform")

    def _compare(self, values: Sequence[LaneValue], modifiers: Sequence[str]) -> Split:
        known = [v for v in values if isinstance(v, Value)]
        if len(known) < len(values):
            return "data"
        if all(v.uniform for v in known):
            return "uniform"
        bounds = {name for v in known for name in v.atoms} - {"warp.x", "warp.y", "warp.z"}
        if bounds:
            return "bounds"
        # of a comparison of register pairs only the low words are known
        narrow = not {"U64", "S64", "64", "EX"} & set(modifiers)
        return "uniform" if narrow and _by_warps(known, modifiers, self.atoms) else "lanes"

    def _results(self, state: State, instruction: Instruction) -> dict[str, LaneValue]:
        """Registers that the instruction sets, and what to."""
        opcode = instruction.opcode
        parts = parts_of(instruction)
        written, operands = parts.written, parts.values
        if not written:
            return {}
        found: dict[str, LaneValue] = dict.fromkeys(written, Unknown(_why(instruction)))
        where = f"{written[0]}@{instruction.address:#x}"
        if opcode in ("LDC", "ULDC", "LDCU") and operands:
            for n, name in enumerate(written):
                found[name] = _advanced(self, state, operands[0], 4 * n, f"{name}@{instruction.address:#x}")
            return found
        if opcode == "CS2R":
            return dict.fromkeys(written, lanes.ZERO) if operands == ("SRZ",) else found
        if opcode in ("S2R", "S2UR") and operands:
            found[written[0]] = self._special(operands[0], instruction)
            return found
        if opcode == "HFMA2":
            found[written[0]] = halves(instruction)
            return found
        values = [self.read(state, o, where) for o in operands]
        known = [v for v in values if isinstance(v, Value)]
        rule = rule_of(opcode)
        if len(known) < len(values):
            opaque = next(v for v in values if isinstance(v, Unknown))
            found[written[0]] = opaque if rule is not None else found[written[0]]
        elif rule is not None and known and "X" not in instruction.modifiers:
            found[written[0]] = rule(self._inputs(state, instruction, known, where))
        elif opcode in _PURE and not is_wide(instruction) and known and all(v.uniform for v in known):
            found[written[0]] = self.define(where)
        if pipe_of(instruction) == "lsu" and self._shared_address(state, instruction):
            found |= {name: self.define(f"{name}@{instruction.address:#x}") for name in written}
        return found

    def _inputs(self, state: State, instruction: Instruction, values: Sequence[Value], where: str) -> Inputs:
        last = instruction.operands[-1]
        pair = REGISTER.match(last)
        above: LaneValue = Unknown("it is no pair of registers")
        if pair is not None and not pair[1]:
            name = pair[2]
            kind = "UR" if name.startswith("U") else "R"
            above = self.register(state, name if name[-1] == "Z" else f"{kind}{int(name[len(kind) :]) + 1}")
        return Inputs(
            instruction=instruction,
            values=values,
            above=above,
            atoms=self.atoms,
            fresh=lambda multiple, natural: self.define(where, multiple, natural),
            choose=lambda a, b: self.either(a, b, self.split(state, last), where),
        )

    def _special(self, name: str, instruction: Instruction) -> LaneValue:
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
        return Unknown(f"it comes from {name}")

    def _shared_address(self, state: State, instruction: Instruction) -> bool:
        """Whether a load reads one place for all lanes."""
        if instruction.opcode not in ("LDG", "LDS", "LD"):
            return False
        held = self.address(state, instruction)
        return isinstance(held, Value) and held.uniform

    def address(self, state: State, instruction: Instruction, which: int = -1) -> LaneValue:
        """The low 32 bits of the address in an instruction's last bracketed operand, or the `which`-th."""
        self._enter(state, instruction)
        brackets = [o for o in instruction.operands if "[" in o and not o.startswith(("c[", "cx["))]
        if not brackets or len(brackets) <= which:
            return Unknown("it has no address")
        inner = re.sub(r"^desc\[UR\d+\]|^gdesc\[UR\d+\]", "", brackets[which])
        total: LaneValue = lanes.ZERO
        for sign, part in re.findall(r"([-+]?)([^-+\[\]]+)", inner):
            term = self._address_term(state, part, f"c@{instruction.address:#x}")
            if isinstance(term, Value) and isinstance(total, Value):
                total = lanes.add(total, lanes.negate(term) if sign == "-" else term)
            elif isinstance(total, Value):
                total = term
        return total

    def _address_term(self, state: State, part: str, where: str) -> LaneValue:
        name, _, suffix = part.strip().partition(".")
        held = self.read(state, name, where)
        scale = re.fullmatch(r"X(4|8|16)", suffix)
        if scale and isinstance(held, Value):
            return lanes.multiply(held, lanes.number(int(scale[1])))
        return (
            held if suffix in ("", "64", "U32", "reuse", "64.reuse") else Unknown(f"{part} is not followed")
        )


def worst(*splits: Split) -> Split:
    """The way of differing that includes the others."""
    return _SPLITS[max(map(_SPLITS.index, splits), default=0)]


def _advanced(semantics: Semantics, state: State, operand: str, by: int, where: str) -> LaneValue:
    """A word `by` bytes on from a constant operand."""
    match = _CONSTANT.match(operand)
    if match is None:
        return semantics.define(where) if operand.startswith("cx[") else Unknown("it is looked up")
    offset = int(match[4] or "0", 16) + by
    register = f"{match[3]}+" if match[3] else ""
    return semantics.read(state, f"{match[1]}c[0x{match[2]}][{register}{offset:#x}]", where)


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
        return LOADED
    if "X" in instruction.modifiers:
        return "it is the high half of an address"
    return f"it is computed by {instruction.opcode}"
