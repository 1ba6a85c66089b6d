# SPDX-License-Identifier: Apache-2.0
"""A twin of a kernel that marks what of it ran: by its PTX, each basic block, each outcome of a comparison, and each
loop that some thread went round.

The twin has a variable of bytes more, all zero at first. A byte is written where its block begins, where a comparison
was made, or before a branch back to a loop's head; it is read before, so that only the first to come there stores.
"""

from __future__ import annotations

import re

import msgspec

from warplens_tools.evidence import SourceLine
from warplens_tools.toolchain.ptx_asking import asking_registers
from warplens_tools.toolchain.ptx_blocks import Block, after_each, blocks_of, loops_of

#: The variable that holds the marks.
MARKS = "warplens_marks"
#: A mark's own registers, beside the kernel's.
_REGISTERS = """\t.reg .pred %wlp<2>;
\t.reg .b16 %wls<3>;
\t.reg .b64 %wld<2>;
"""
_FUNCTION = re.compile(r"^[^\n]*(?:\.entry|\.func)\b[^;{]*\{", re.MULTILINE)
_NAME = re.compile(r"\.entry\s+([\w$]+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_SETP = re.compile(
    r"^\s*setp\.(\w+)((?:\.\w+)*)\s+(%p\d+)(?:\|%p\d+)?\s*,\s*([^,;]+),\s*([^,;]+?)\s*(?:,[^;]*)?;"
)
_AND = re.compile(r"^\s*and\.b\d+\s+(%\w+)\s*,\s*%\w+\s*,\s*(-?\d+)\s*;")
#: The smaller or larger of two, one of which is a number of the code's own.
_CHOOSES = re.compile(
    r"^\s*(min|max)(?:\.\w+)*?\.([su](?:16|32|64)|f32|f64)\s+%\w+\s*,\s*([^,;]+?)\s*,\s*([^,;]+?)\s*;"
)
#: What decides where a block leads.
_DECIDED = re.compile(r"^\s*@!?%p\d+|^\s*brx\.idx\S*\s+%\w+")
_REGISTER = re.compile(r"%\w+")
_GUARDED = re.compile(r"^\s*@(!?)(%p\d+)\s+bra\b")
#: Comparisons that are another one's opposite.
_OPPOSITE = {
    "ge": "lt",
    "gt": "le",
    "ne": "eq",
    "hs": "lo",
    "hi": "ls",
    "geu": "lt",
    "gtu": "le",
    "neu": "eq",
} | {"ltu": "lt", "leu": "le", "equ": "eq"}
_UNORDERED = {"ltu", "leu", "equ"}


class Line(msgspec.Struct, frozen=True, order=True):
    """A place of the source: a file, a line and a column from 1; where a statement begins, by nvcc."""

    file: str
    line: int
    column: int

    @property
    def source(self) -> SourceLine:
        """Without the column."""
        return SourceLine(self.file, self.line)


class Comparison(msgspec.Struct, frozen=True):
    """One that is made: where, by what, with which numbers, and the marks of its outcomes."""

    at: Line
    #: lt, le or eq: others are turned round.
    operator: str
    #: As written in PTX: what it is compared with, and masks of what is compared.
    constants: tuple[str, ...]
    holds: int
    fails: int
    #: Whether it rests on data, or on numbers by value, and not on places and lengths of pointers alone.
    asks: bool = True


class Loop(msgspec.Struct, frozen=True):
    """A loop: where, within which calls, its instructions, its head's block, and the mark of going round."""

    at: Line
    calls: str
    length: int
    head: int
    again: int


class Marks(msgspec.Struct, frozen=True):
    """What each byte stands for."""

    count: int
    #: By block, whose number is its mark's: the places of its instructions.
    blocks: tuple[frozenset[Line], ...]
    comparisons: tuple[Comparison, ...]
    loops: tuple[Loop, ...]
    #: From which block to which, and whether what decides it asks for something, as a comparison does.
    ways: tuple[tuple[int, int, bool], ...] = ()


class Marked(msgspec.Struct, frozen=True):
    """The twin's PTX."""

    text: str
    marks: Marks


def marked(ptx: str, kernel: str, *, choices: bool = False) -> Marked | None:
    """The twin of a kernel, by its mangled name, and of all functions of the unit; other kernels stay as they are. None
    where the PTX does not have it. `choices`: the smaller or larger of something and a number is a comparison, too."""
    files = dict(_FILE.findall(ptx))
    writer = _Writer(files, choices)
    pieces: list[str] = []
    at, found = 0, False
    for head in _FUNCTION.finditer(ptx):
        entry = _NAME.search(head[0])
        if (entry is not None and entry[1] != kernel) or head.start() < at:
            continue
        end = _closing(ptx, head.end())
        if end is None:
            return None
        found = found or entry is not None
        pieces += [ptx[at : head.end()], writer.body(ptx[head.end() : end], called=entry is None)]
        at = end
    if not found:
        return None
    pieces.append(ptx[at:])
    text = "".join(pieces)
    declared = f"\n.global .align 8 .b8 {MARKS}[{max(writer.count, 1)}];\n"
    place = re.search(r"^\.address_size[^\n]*\n", text, re.MULTILINE)
    if place is None:
        return None
    text = text[: place.end()] + declared + text[place.end() :]
    return Marked(text, writer.marks())


def _closing(text: str, start: int) -> int | None:
    depth = 1
    for brace in re.finditer(r'[{}]|//[^\n]*|"[^"\n]*"', text[start:]):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return start + brace.start()
    return None


class _Writer:
    """Numbers marks and writes what sets them."""

    def __init__(self, files: dict[str, str], choices: bool) -> None:
        self._files, self._choices = files, choices
        self.count = 0
        self._blocks: list[frozenset[Line]] = []
        self._numbers: list[int] = []
        self._comparisons: list[Comparison] = []
        self._loops: list[Loop] = []
        self._ways: list[tuple[int, int, bool]] = []

    def marks(self) -> Marks:
        lines: dict[int, frozenset[Line]] = dict(zip(self._numbers, self._blocks, strict=True))
        blocks = tuple(lines.get(number, frozenset()) for number in range(self.count))
        found = tuple(self._comparisons), tuple(self._loops)
        return Marks(self.count, blocks, *found, tuple(self._ways))

    def body(self, body: str, *, called: bool) -> str:
        """A function's body with marks; `called` by others, which give it what nothing is known of."""
        blocks = blocks_of(body, self._files)
        lines = body.split("\n")
        asking = asking_registers(body, called=called)
        before: dict[int, list[str]] = {}
        after: dict[int, list[str]] = {}
        numbers = []
        for block in blocks:
            numbers.append(self._next())
            self._numbers.append(numbers[-1])
            self._blocks.append(frozenset(Line(*place[:3]) for place in block.places if place[0]))
            before.setdefault(block.first, []).append(_mark(numbers[-1]))
            self._compared(block, lines, before, after, asking)
        self._led(blocks, numbers, lines, asking)
        for tail, head, length in loops_of(blocks):
            again = self._next()
            guard = _GUARDED.match(lines[blocks[tail].last])
            before.setdefault(blocks[tail].last, []).append(
                _mark(again, (guard[1], guard[2]) if guard is not None else None)
            )
            place = blocks[tail].place_of_last
            if place[0]:
                self._loops.append(Loop(Line(*place[:3]), place[3], length, numbers[head], again))
        out = [_REGISTERS + "\tmov.u16 %wls0, 1;\n"] if blocks else []
        written = []
        started = False
        for number, line in enumerate(lines):
            if blocks and not started and number == blocks[0].first:
                written += out
                started = True
            written += before.get(number, ())
            written.append(line + "\n")
            written += after.get(number, ())
        text = "".join(written)
        return text[:-1] if text.endswith("\n") else text

    def _led(self, blocks: list[Block], numbers: list[int], lines: list[str], asking: frozenset[str]) -> None:
        """Which blocks lead where, and by what."""
        for block, here, targets in zip(blocks, numbers, after_each(blocks), strict=True):
            decided = _DECIDED.match(lines[block.last])
            asks = decided is None or not asking.isdisjoint(_REGISTER.findall(decided[0]))
            self._ways += [(here, numbers[target], asks and len(targets) > 1) for target in targets]

    def _compared(
        self,
        block: Block,
        lines: list[str],
        before: dict[int, list[str]],
        after: dict[int, list[str]],
        asking: frozenset[str],
    ) -> None:
        masks: dict[str, str] = {}
        for number, place in block.instructions:
            line = lines[number]
            if (found := _AND.match(line)) is not None:
                masks[found[1]] = found[2]
            compare, chooses = _SETP.match(line), _CHOOSES.match(line) if self._choices else None
            if compare is not None:
                name, predicate, sides = compare[1], compare[3], (compare[4], compare[5])
                holds, fails = self._next(), self._next()
                after.setdefault(number, []).append(_either(holds, fails, predicate))
            elif chooses is not None and not all(side.startswith("%") for side in chooses.group(3, 4)):
                name, sides = "lt", (chooses[3], chooses[4])
                holds, fails = self._next(), self._next()
                # before it: what it is worked out of may be where it goes to
                asked = f"\tsetp.lt.{chooses[2]} %wlp1, {sides[0]}, {sides[1]};\n"
                before.setdefault(number, []).append(asked + _either(holds, fails, "%wlp1"))
            else:
                continue
            if not place[0]:
                continue
            turned = name in _OPPOSITE and name not in _UNORDERED
            operator = _OPPOSITE.get(name, name)
            constants = [s for s in sides if not s.startswith("%")] + [masks[s] for s in sides if s in masks]
            outcomes = (fails, holds) if turned else (holds, fails)
            asks = not asking.isdisjoint(sides)
            at = Line(*place[:3])
            self._comparisons.append(Comparison(at, operator, tuple(constants), *outcomes, asks))

    def _next(self) -> int:
        self.count += 1
        return self.count - 1


def _mark(number: int, guard: tuple[str, str] | None = None) -> str:
    text = f"\tld.global.u8 %wls1, [{MARKS}+{number}];\n\tsetp.eq.s16 %wlp0, %wls1, 0;\n"
    if guard is not None:
        negated, predicate = guard
        if negated:
            text += f"\tnot.pred %wlp1, {predicate};\n"
        text += f"\tand.pred %wlp0, %wlp0, {'%wlp1' if negated else predicate};\n"
    return text + f"\t@%wlp0 st.global.u8 [{MARKS}+{number}], %wls0;\n"


def _either(holds: int, fails: int, predicate: str) -> str:
    """The mark of whichever outcome a predicate is."""
    return (
        f"\tmov.u64 %wld0, {MARKS};\n\tselp.b64 %wld1, {holds}, {fails}, {predicate};\n"
        "\tadd.s64 %wld0, %wld0, %wld1;\n\tld.global.u8 %wls1, [%wld0];\n"
        "\tsetp.eq.s16 %wlp0, %wls1, 0;\n\t@%wlp0 st.global.u8 [%wld0], %wls0;\n"
    )
