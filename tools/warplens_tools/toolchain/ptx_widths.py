# SPDX-License-Identifier: Apache-2.0
"""Offsets of 32 bits in place of 64: what multiplies addresses in a kernel's PTX, and how wide.

A kernel that works out `size_t(row) * width` in 64 bits holds for arrays of more than 2^31 elements, which no run on a
smaller program shows. From every address its computation is followed back; a product of two values of which neither is
a constant, and a sum that a loop adds to, is wide or narrow, and rests on parameters and on the number of the block.
The compiler may widen what overflows nowhere: whether 64 bits are meant, the source says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.symbols import unit_free_name

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)[^{]*\{", re.DOTALL)
_DECLARED = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
#: One instruction: its name, and its operands.
_INSTRUCTION = re.compile(
    r"(?:^|[\s;{}])(?:@!?%p\d+\s+)?([a-z][\w.]*(?:::[\w.]+)*)\s+([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);"
)
_REGISTER = re.compile(r"%(?:rd|rs|r)\d+")
_BRACKETS = re.compile(r"\[([^\]]+)\]")
#: What stores has no result among its operands.
_STORES = ("st.", "red.", "bra", "ret", "bar.", "setp", "cp.", "prefetch", "call")
_WIDE = ("mul.wide", "mad.wide", "mul.lo.s64", "mul.lo.u64", "mad.lo.s64", "mad.lo.u64", "mul.lo.b64")
_NARROW = ("mul.lo.s32", "mul.lo.u32", "mad.lo.s32", "mad.lo.u32", "mul.lo.b32", "mul24.", "mad24.")
#: Numbers of a thread within its block, at most 1024; these and a block's length say nothing of an array's.
_SMALL = frozenset({"%tid", "%laneid"})
_OF_THE_BLOCK = _SMALL | {"%ntid"}
#: What the block's number is multiplied by to number threads.
_SPECIAL = re.compile(r"%(?:tid|ntid|ctaid|nctaid|laneid)(?=\.|\b)")


class Widths(msgspec.Struct, frozen=True):
    """What a kernel's addresses are multiplied from, by how wide the product is; 64-bit lengths cut to 32 bits; and how
    wide the integers are that are loaded behind each pointer."""

    wide: frozenset[str] = frozenset()
    narrow: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()
    #: By parameter: "64" and "32" for loads of one such integer, "" for all others.
    loads: dict[str, frozenset[str]] = {}


def widths_in(ptx: str) -> dict[str, Widths]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {unit_free_name(name): widths for name, widths in _kernels(ptx)}


def narrowed(baseline: Mapping[str, Widths], candidate: Mapping[str, Widths]) -> str:
    """What a candidate's unit does in 32 bits for its addresses and the baseline's in 64 alone; "" if nothing."""
    for name, new in candidate.items():
        known = baseline.get(name)
        if known is None:
            continue
        for what in sorted((new.narrow - known.narrow) & known.wide):
            return f"the edit multiplies {_said(what)} in 32 bits for an address, which the kernel does in 64"
        for what in sorted(new.cut - known.cut):
            return f"the edit counts up to {_said(what)} in 32 bits, which the kernel does in 64"
        for what, loads in sorted(new.loads.items()):
            if "32" in loads and known.loads.get(what) == frozenset({"64"}):
                return f"the edit reads halves of the 64-bit numbers behind {_said(what)}, the kernel all of them"
    return ""


def _said(what: str) -> str:
    return "numbers of blocks" if what.startswith("%") else f"parameter {int(what) + 1}"


def _kernels(ptx: str) -> Iterator[tuple[str, Widths]]:
    text = _COMMENT.sub(" ", ptx)
    for head in _ENTRY.finditer(text):
        end = _closing(text, head.end())
        wide_ones = {
            str(number)
            for number, (kind, _) in enumerate(_DECLARED.findall(head[2]))
            if kind in ("u64", "s64", "b64")
        }
        yield head[1], _Flow(head[1], text[head.end() : end], wide_ones).widths()


def _closing(text: str, start: int) -> int:
    depth = 1
    for found in re.finditer(r"[{}]", text[start:]):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return start + found.start()
    return len(text)


class _Step(msgspec.Struct, frozen=True):
    """One instruction that makes a register."""

    name: str
    #: Registers, `#` for numbers, leaves as they are named.
    sources: tuple[str, ...]


class _Flow:
    """How the registers of one kernel come from one another."""

    def __init__(self, kernel: str, body: str, wide_parameters: set[str]) -> None:
        self._kernel, self._wide_parameters = kernel, wide_parameters
        self._steps: dict[str, list[_Step]] = {}
        self._addresses: set[str] = set()
        self._compared: set[str] = set()
        self._loaded: list[tuple[str, str]] = []
        for found in _INSTRUCTION.finditer(body):
            self._read(found[1], found[2])
        made_of = {
            register: [s for step in steps for s in step.sources if s.startswith("%")]
            for register, steps in self._steps.items()
        }
        #: Which registers go round in one loop: the number of the loop; and the leaves that each rests on.
        self._round: dict[str, int] = {}
        self._leaves: dict[str, frozenset[str]] = {}
        for number, registers in enumerate(_components(made_of)):
            found_leaves = self._leaves_of(registers)
            for register in registers:
                self._round[register], self._leaves[register] = number, found_leaves

    def widths(self) -> Widths:
        """All of it for the whole kernel."""
        wide: set[str] = set()
        narrow: set[str] = set()
        for register in self._closure(self._addresses):
            for step in self._steps.get(register, ()):
                factors = self._factors(register, step)
                if factors is None:
                    continue
                leaves = [self._leaves[factor] for factor in factors]
                if step.name.startswith((*_WIDE, "add.s64", "add.u64")):
                    wide |= frozenset().union(*leaves)
                elif not any(found and found <= _SMALL for found in leaves):
                    narrow |= frozenset().union(*leaves)
        loads = {leaf: frozenset(kinds) for leaf, kinds in self._loads().items()}
        return Widths(self._told(wide), self._told(narrow), frozenset(self._cuts()), loads)

    def _loads(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, place in self._loaded:
            kind = name.rsplit(".", 1)[-1]
            bits = kind[1:] if kind[0] in "usb" and ".v" not in name else ""
            for leaf in self._bases(place):
                found.setdefault(leaf, set()).add(bits)
        return found

    def _bases(self, address: str) -> set[str]:
        """The pointers among the parameters that an address is worked out from, not those that are multiplied."""
        seen, left, found = {address}, [address], set()
        while left:
            for step in self._steps.get(left.pop(), ()):
                if step.name.startswith("ld.param"):
                    found |= set(step.sources) & self._wide_parameters
                if step.name.startswith(("add", "cvta", "mov", "sub", "selp", "mad")):
                    more = {s for s in step.sources if s.startswith("%rd")} - seen
                    seen |= more
                    left += more
        return found

    @staticmethod
    def _told(leaves: set[str]) -> frozenset[str]:
        return frozenset(leaf for leaf in leaves if leaf not in _OF_THE_BLOCK)

    def _factors(self, register: str, step: _Step) -> tuple[str, ...] | None:
        """The two operands of a product of variables, or what a loop adds; None for any other step."""
        if step.name.startswith((*_WIDE, *_NARROW)):
            factors = step.sources[:2]
            return factors if "#" not in factors and not self._divided(*factors) else None
        if step.name.startswith(("add.s64", "add.u64", "add.s32", "add.u32")) and "#" not in step.sources:
            around = [source for source in step.sources if self._round[source] == self._round[register]]
            if len(around) == 1:
                return tuple(source for source in step.sources if source not in around)
        return None

    def _divided(self, one: str, other: str) -> bool:
        """Whether one is a quotient by the other, as a remainder is worked out: their product exceeds nothing that was
        there before."""
        return any(
            [(step.name.startswith("div."), step.sources[1:]) for step in self._steps.get(quotient, ())]
            == [(True, (divisor,))]
            and len(self._steps.get(divisor, ())) == 1
            for quotient, divisor in ((one, other), (other, one))
        )

    def _cuts(self) -> Iterator[str]:
        """64-bit parameters whose lower halves are compared with."""
        for register in self._compared:
            for step in self._steps.get(register, ()):
                source = step.sources[0] if step.sources else "#"
                if step.name.startswith("ld.param") and source in self._wide_parameters:
                    yield source
                if step.name.startswith(("cvt.u32.u64", "cvt.s32.s64", "cvt.s32.u64", "cvt.u32.s64")):
                    yield from (
                        s.sources[0] for s in self._steps.get(source, ()) if s.name.startswith("ld.param")
                    )

    def _read(self, name: str, operands: str) -> None:
        if not name.startswith(("ld.param", "ld.const")):
            for place in _BRACKETS.findall(operands):
                self._addresses |= {r for r in _REGISTER.findall(place) if r.startswith("%rd")}
        if name.startswith("setp") and name.endswith(("32", "b32")):
            self._compared |= set(_REGISTER.findall(operands))
        if name.startswith(_STORES):
            return
        parts = _split(operands)
        if not parts:
            return
        if name.startswith("ld.param"):
            sources: tuple[str, ...] = (self._parameter(operands),)
        elif name.startswith(("ld.", "atom.", "ldu.")):
            sources = ()
            if name.startswith(("ld.global", "ld.u", "ld.s32", "ld.s64", "ld.b")) and (
                place := _REGISTER.search(operands.partition("[")[2])
            ):
                self._loaded.append((name, place[0]))
        else:
            sources = tuple(_operand(part) for part in parts[1:])
        for register in _REGISTER.findall(parts[0]):
            self._steps.setdefault(register, []).append(_Step(name, sources))

    def _parameter(self, operands: str) -> str:
        found = re.search(rf"{re.escape(self._kernel)}_param_(\d+)", operands)
        return found[1] if found else "#"

    def _closure(self, start: set[str]) -> set[str]:
        seen, left = set(start), list(start)
        while left:
            for step in self._steps.get(left.pop(), ()):
                for source in step.sources:
                    if source not in seen and source.startswith("%"):
                        seen.add(source)
                        left.append(source)
        return seen

    def _leaves_of(self, registers: list[str]) -> frozenset[str]:
        """The parameters and special registers that registers of one loop rest on; what they are made of is known."""
        found = {leaf[0] for register in registers if (leaf := _SPECIAL.match(register))}
        for step in (step for register in registers for step in self._steps.get(register, ())):
            if step.name.startswith("ld.param"):
                found |= set(step.sources)
            for source in step.sources:
                found |= self._leaves.get(source, frozenset())
        return frozenset(found - {"#"})


def _components(made_of: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """The strongly connected parts of a graph, each behind those that it leads to (Tarjan 1972, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    for start in made_of:
        left = [(start, False)]
        while left:
            node, done = left.pop()
            if not done and node not in order:
                order[node] = low[node] = len(order)
                path.append(node)
                left.append((node, True))
                left += [(n, False) for n in made_of.get(node, ()) if n not in order]
            elif done:
                # a part that is complete is out of `low`
                low[node] = min([low[node], *(low[n] for n in made_of.get(node, ()) if n in low)])
                if low[node] == order[node]:
                    part = [path.pop()]
                    while part[-1] != node:
                        part.append(path.pop())
                    for one in part:
                        del low[one]
                    yield part


def _split(operands: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in operands:
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [*parts, current.strip()] if current.strip() else parts


def _operand(text: str) -> str:
    if text.startswith("%"):
        return text.split(".")[0] if _SPECIAL.match(text) else text
    return "#"
