# SPDX-License-Identifier: Apache-2.0
"""How the registers of a kernel come from one another, by its PTX: what each is made of, and what it rests on."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from warplens_tools.lazily import cached_property
from warplens_tools.toolchain.ptx_blocks import Block, after_each, blocks_of
from warplens_tools.toolchain.symbols import unit_free_name

T = TypeVar("T")

#: Comments, and lines of the source: one that is inlined says so in words, as instructions do.
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*\.loc\b[^\n]*", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)[^{]*\{", re.DOTALL)
#: A kernel; a function that is called has no name here.
_HEAD = re.compile(r"\.entry\s+([\w$]+)|\.func\b")
_BRACE = re.compile(r"[{}]")
_DECLARED = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)")
#: One instruction: its name, and its operands.
_INSTRUCTION = re.compile(
    r"(?:^|[\s;{}])(?:@!?%p\d+\s+)?([a-z][\w.]*(?:::[\w.]+)*)\s+([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);"
)
_REGISTER = re.compile(r"%(?:rd|rs|r)\d+")
_BRACKETS = re.compile(r"\[([^\]]+)\]")
#: What stores has no result among its operands.
_STORES = ("st.", "red.", "bra", "ret", "bar.", "setp", "cp.", "prefetch", "call")
#: What the block's number is multiplied by to number threads.
_SPECIAL = re.compile(r"%(?:tid|ntid|ctaid|nctaid|laneid)(?=\.|\b)")
#: What grows with what it divides, or shifts, alone.
_DIVIDES = ("div.", "rem.", "shr.")
#: What takes no more of a 64-bit number than its lower half, and the mask that does.
_HALVES = ("cvt.u32.", "cvt.s32.", "cvt.u16.", "cvt.s16.", "cvt.u8.", "cvt.s8.")
_LOWER = "4294967295"
#: What a loop's counter is still one after.
_COUNTS = ("add.", "sub.", "mov.", "cvt.")
#: Floats that integers are turned into, and products of floats.
_TO_FLOAT = re.compile(r"cvt\.\w+\.f(?:32|64)\.[su](?:32|64)")
FROM_FLOAT = re.compile(r"cvt\.\w+\.[su](?:8|16|32|64)\.f(?:16|32|64)")
_FLOAT_PRODUCT = re.compile(r"(?:mul|fma)(?:\.\w+)*\.f(?:32|64)")
#: What decides where a thread goes, or what others see of it.
_DECIDES = ("setp", "brx", "atom.shared", "red.shared", "call")
#: What hands a number on.
_HANDS_ON = ("mov", "cvt", "add", "sub", "selp", "min", "max", "mad", "shl", "or.", "neg")


class Step(msgspec.Struct, frozen=True):
    """One instruction that makes a register."""

    name: str
    #: Registers, `#` before a number, leaves as they are named.
    sources: tuple[str, ...]
    #: The register whose place is loaded; "" for no load from memory.
    place: str = ""

    @property
    def number(self) -> int:
        """The constant that a product or a shift to the left multiplies by; 0 for none."""
        found = [source[1:] for source in self.sources[:2] if re.fullmatch(r"#\d+", source)]
        if len(found) != 1:
            return 0
        return 1 << min(int(found[0]), 64) if self.name.startswith("shl") else int(found[0])


def kernels_of(ptx: str) -> Iterator[tuple[str, Flow]]:
    """The kernels of a unit, by name."""
    unit = _unit(ptx)
    return ((name, unit.flow(name)) for name in unit.heads)


def instruction_of(line: str) -> tuple[str, list[str]] | None:
    """The name and the operands of the instruction on one line of a body; None where there is none."""
    found = _INSTRUCTION.search(line)
    return (found[1], split_operands(found[2])) if found is not None else None


def by_kernel(ptx: str, read: Callable[[Flow], T]) -> dict[str, T]:
    """What `read` says of each kernel of a unit, by the name that it has whatever the unit."""
    return {unit_free_name(mangled): read(flow) for mangled, flow in kernels_of(ptx)}


def bodies_of(ptx: str) -> Iterator[tuple[str, str]]:
    """The text of each kernel of a unit without comments, by the name that it has whatever the unit."""
    unit = _unit(ptx)
    return ((unit_free_name(name), unit.body(name)) for name in unit.heads)


def flow_of(ptx: str, kernel: str) -> Flow | None:
    """Of one kernel, by its mangled name; None where the PTX does not have it."""
    unit = _unit(ptx)
    return unit.flow(kernel) if kernel in unit.heads else None


class _Unit:
    """The kernels of a unit, each taken apart when it is first asked for."""

    def __init__(self, ptx: str) -> None:
        self.text = COMMENT.sub(" ", ptx)
        self.heads = {head[1]: head for head in _ENTRY.finditer(self.text)}
        self._flows: dict[str, Flow] = {}

    def body(self, kernel: str) -> str:
        start = self.heads[kernel].end()
        return self.text[start : _closing(self.text, start)]

    def flow(self, kernel: str) -> Flow:
        if kernel not in self._flows:
            kinds = enumerate(_DECLARED.findall(self.heads[kernel][2]))
            wide = {str(number) for number, (kind, _) in kinds if kind in ("u64", "s64", "b64")}
            self._flows[kernel] = Flow(kernel, self.body(kernel), wide)
        return self._flows[kernel]


@functools.lru_cache(maxsize=4)
def _unit(ptx: str) -> _Unit:
    """Eight readers ask for a candidate's, and for its baseline's, one after the other."""
    return _Unit(ptx)


def of_kernels(ptx: str, read: Callable[[str], frozenset[T]]) -> dict[str, frozenset[T]]:
    """What `read` finds in the text of each kernel of a unit, by the name that it has whatever the unit; what it finds
    in a function counts for all kernels."""
    heads = list(_HEAD.finditer(ptx))
    ends = [*(head.start() for head in heads), len(ptx)][1:]
    found = [(head[1], read(ptx[head.end() : end])) for head, end in zip(heads, ends, strict=True)]
    called = frozenset[T]().union(*(here for name, here in found if not name))
    return {unit_free_name(name): here | called for name, here in found if name}


def _closing(text: str, start: int) -> int:
    depth = 1
    for found in _BRACE.finditer(text, start):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.start()
    return len(text)


class Flow:
    """How the registers of one kernel come from one another."""

    def __init__(self, kernel: str, body: str, wide_parameters: set[str]) -> None:
        #: Its text without comments.
        self.body = body
        #: Its parameters of 64 bits, by number.
        self.wide_parameters = wide_parameters
        #: What makes each register.
        self.steps: dict[str, list[Step]] = {}
        #: 64-bit registers that memory is reached by, those that 32-bit numbers are compared in, and all that decides
        #: something, or is handed to where nothing follows it: other memory than global, functions.
        self.addresses: set[str] = set()
        self.compared: set[str] = set()
        self.conditions: set[str] = set()
        #: All registers that memory of any kind is reached by, that are compared, or handed to a function.
        self.leading: set[str] = set()
        #: Loads from global memory: the instruction's name, and the register of its place.
        self.loaded: list[tuple[str, str]] = []
        #: Instructions on global memory, loads among them: the name, and the register of the place.
        self.accessed: list[tuple[str, str]] = []
        #: Registers that something uses more of than the lower half.
        self.whole: set[str] = set()
        #: The integers that floats were, and the factors of products of floats.
        self.turned: dict[str, str] = {}
        self.float_products: list[tuple[str, str]] = []
        self._kernel = kernel
        self._based: dict[str, frozenset[str]] = {}
        for found in _INSTRUCTION.finditer(body):
            self._read(found[1], found[2])
        made_of = {
            register: [s for step in steps for s in step.sources if s.startswith("%")]
            for register, steps in self.steps.items()
        }
        #: Which registers go round in one loop: the number of the loop.
        self.round: dict[str, int] = {}
        self._parts = [*components(made_of)]
        for number, registers in enumerate(self._parts):
            self.round |= dict.fromkeys(registers, number)
        #: What loops count in, and what is worked out from that by sums alone.
        self.counters: set[str] = set()
        for registers in self._parts:
            goes_round = len(registers) > 1 or registers[0] in made_of.get(registers[0], ())
            if goes_round or any(map(self._counts, self.steps.get(registers[0], ()))):
                self.counters |= set(registers)
        #: The parameters and special registers that each rests on.
        self.leaves = self._spread(self._leaves_of)
        #: The pointers that what each is worked out from, without a product, is loaded behind.
        self.origins = self._spread(self._origins_of)

    @cached_property
    def _blocks(self) -> list[Block]:
        return blocks_of(self.body, {})

    @cached_property
    def code(self) -> list[list[str]]:
        """Its basic blocks, each as the lines of its instructions."""
        lines = self.body.split("\n")
        return [[lines[number] for number, _ in block.instructions] for block in self._blocks]

    @cached_property
    def after(self) -> list[list[int]]:
        """By block, the numbers of those that may follow it."""
        return after_each(self._blocks)

    def _spread(
        self, of: Callable[[list[str], Mapping[str, frozenset[str]]], frozenset[str]]
    ) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for registers in self._parts:
            found |= dict.fromkeys(registers, of(registers, found))
        return found

    def leads(self) -> set[str]:
        """The pointers behind which numbers are loaded that an address or a condition is made of."""
        deciding = self.closure(self.addresses | self.conditions)
        if any(FROM_FLOAT.match(step.name) for register in deciding for step in self.steps.get(register, ())):
            # floats are not followed: any integer that became one may be behind it
            deciding |= self.closure(set(self.turned.values()))
        return {
            base
            for register in deciding
            for step in self.steps.get(register, ())
            if step.place
            for base in self.bases(step.place)
        }

    def _counts(self, step: Step) -> bool:
        return step.name.startswith(_COUNTS) and not self.counters.isdisjoint(step.sources)

    def bases(self, address: str) -> frozenset[str]:
        """The pointers among the parameters that an address is worked out from, not those that are multiplied."""
        if address not in self._based:
            self._based[address] = frozenset(self._bases(address))
        return self._based[address]

    def _bases(self, address: str) -> set[str]:
        seen, left, found = {address}, [address], set[str]()
        while left:
            for step in self.steps.get(left.pop(), ()):
                if step.name.startswith("ld.param"):
                    found |= set(step.sources) & self.wide_parameters
                if step.name.startswith(("add", "cvta", "mov", "sub", "selp", "mad")):
                    more = {s for s in step.sources if s.startswith("%rd")} - seen
                    seen |= more
                    left += more
        return found

    def begins(self, place: str) -> tuple[str, int]:
        """The register that a place is a number of bytes behind, and how many."""
        at = 0
        while len(steps := self.steps.get(place, [])) == 1 and steps[0].name.startswith("add.s64"):
            numbers = [int(s[1:]) for s in steps[0].sources if re.fullmatch(r"#-?\d+", s)]
            others = [s for s in steps[0].sources if s.startswith("%")]
            if len(numbers) != 1 or len(others) != 1:
                break
            place, at = others[0], at + numbers[0]
        return place, at

    def _read(self, name: str, operands: str) -> None:
        if not name.startswith(("ld.param", "ld.const")):
            places = {r for place in _BRACKETS.findall(operands) for r in _REGISTER.findall(place)}
            self.addresses |= {r for r in places if r.startswith("%rd")}
            self.leading |= places
        if name.startswith(("setp", "st.param", "call")):
            self.leading |= set(_REGISTER.findall(operands))
        if name.startswith(("ld.global", "st.global", "atom", "red.", "ld.v", "st.v")):
            self.accessed += [
                (name, r) for place in _BRACKETS.findall(operands) for r in _REGISTER.findall(place)
            ]
        parts = split_operands(operands)
        self._note(name, parts)
        stores = name.startswith(_STORES)
        if not name.startswith(_HALVES) and _LOWER not in parts:
            self.whole |= {r for part in (parts if stores else parts[1:]) for r in _REGISTER.findall(part)}
        if stores or not parts:
            return
        place = ""
        if name.startswith("ld.param"):
            sources: tuple[str, ...] = (self._parameter(operands),)
        elif name.startswith(("ld.", "atom.", "ldu.")):
            sources = ()
            found = _REGISTER.search(operands.partition("[")[2])
            if name.startswith(("ld.global", "ld.u", "ld.s32", "ld.s64", "ld.b")) and found is not None:
                place = found[0]
                self.loaded.append((name, place))
        else:
            sources = tuple(_operand(part) for part in parts[1:])
        for register in _REGISTER.findall(parts[0]):
            self.steps.setdefault(register, []).append(Step(name, sources, place))

    def _note(self, name: str, parts: list[str]) -> None:
        """What an instruction decides, and what floats come of integers or of one another."""
        registers = {register for part in parts for register in _REGISTER.findall(part)}
        if name.startswith(_DECIDES) or (name.startswith("st.") and not name.startswith("st.global")):
            self.conditions |= registers
        if name.startswith("setp") and name.endswith(("32", "b32")):
            self.compared |= registers
        if _TO_FLOAT.fullmatch(name):
            self.turned[parts[0]] = parts[1]
        elif _FLOAT_PRODUCT.fullmatch(name):
            self.float_products.append((parts[1], parts[2]))

    def _parameter(self, operands: str) -> str:
        found = re.search(rf"{re.escape(self._kernel)}_param_(\d+)", operands)
        return found[1] if found else "#"

    def closure(self, start: set[str]) -> set[str]:
        """All registers that these are made of, and themselves."""
        seen, left = set(start), list(start)
        while left:
            for step in self.steps.get(left.pop(), ()):
                for source in step.sources:
                    if source not in seen and source.startswith("%"):
                        seen.add(source)
                        left.append(source)
        return seen

    def _leaves_of(self, registers: list[str], known: Mapping[str, frozenset[str]]) -> frozenset[str]:
        found = {leaf[0] for register in registers if (leaf := _SPECIAL.match(register))}
        for step in (step for register in registers for step in self.steps.get(register, ())):
            if step.name.startswith("ld.param"):
                found |= {source for source in step.sources if source != "#"}
            for source in step.sources[:1] if step.name.startswith(_DIVIDES) else step.sources:
                found |= known.get(source, frozenset())
        return frozenset(found)

    def _origins_of(self, registers: list[str], known: Mapping[str, frozenset[str]]) -> frozenset[str]:
        found: set[str] = set()
        for step in (step for register in registers for step in self.steps.get(register, ())):
            if step.place:
                found |= self.bases(step.place)
            elif step.name.startswith(_HANDS_ON):
                found |= set().union(*(known.get(source, frozenset()) for source in step.sources))
        return frozenset(found)


def components(made_of: Mapping[str, list[str]]) -> Iterator[list[str]]:
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


def split_operands(operands: str) -> list[str]:
    """The operands of an instruction, each with what stands in its brackets."""
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
    return f"#{text}"
