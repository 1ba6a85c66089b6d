# SPDX-License-Identifier: Apache-2.0
"""Whole numbers carried in fewer bits than they have, by PTX: what was loaded in 32 or 64 bits and is kept, or
compared, in fewer; and integers that are summed as floats, which are exact to 2^24 alone (doubles to 2^53).

The numbers that a program has may all fit. Where the kernel itself takes fewer bits of what lies behind a pointer, or
loads it in smaller pieces, parts of a word are meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, Step, instruction_of, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

#: A load of one integer, and one of several at once too.
_LOAD = re.compile(r"ld(?:\.(?!v[248]\b)\w+(?:::\w+)*)*\.[usb](32|64)\Z")
_LOADED = re.compile(r"ld(?:\.\w+(?:::\w+)*)*\.[usb](32|64)\Z")
_FLOAT = re.compile(r"\.f(?:32|64)\Z")
_STORE = re.compile(r"\bst(?:\.\w+)*\.[usb](8|16|32|64)\s+\[[^\]]*\]\s*,\s*([^;]+);")
_COMPARE = re.compile(r"\bsetp(?:\.\w+)*\.[usb](16|32|64)\s+%p\d+(?:\|%p\d+)?\s*,([^;]+);")
_REGISTER = re.compile(r"%(?:rd|rs|r)\d+")
#: What leaves a number as large, or nearly: lengths are differences of places.
_HANDS_ON = (
    "mov.",
    "selp.",
    "cvt.",
    "add.s",
    "add.u",
    "sub.s",
    "sub.u",
    "min.s",
    "min.u",
    "max.s",
    "max.u",
    "neg.",
    "abs.s",
)
#: What adds up in 32 bits or more, and what is still such a sum, or as large, after it.
_SUM = re.compile(r"(?:add|sub|mad\.lo)\.[su](?:32|64)\Z")
_KEEPS_ON = ("mov.", "selp.", "cvt.", "min.", "max.", "shfl.", "redux.")
#: It takes as many bits of what it is given as it says, and gives as many.
_CUT = re.compile(r"cvt\.[us](8|16|32|64)\.[us](8|16|32|64)\Z")
_MASK = re.compile(r"and\.b(?:16|32|64)\Z")
#: What is shifted up loses its upper bits: by fewer than this a number is multiplied, by more a part of it is taken.
_LEAST_SHIFT = 8
_SHIFTED = re.compile(r"shl\.b(16|32|64)\Z")
_FIELD = re.compile(r"bfe\.[us](?:32|64)\Z")
#: How many bits of a whole number a float holds.
_FLOATS = {"32": 24, "64": 53}
_FLOAT_COMPARE = re.compile(r"\bsetp(?:\.\w+)*\.f(32|64)\s+%p\d+(?:\|%p\d+)?\s*,([^;]+);")
_TO_INTEGER = re.compile(r"\bcvt(?:\.\w+)*\.[us](8|16|32|64)\.f(16|32|64)\s+%\w+\s*,\s*(%\w+)\s*;")
_ADDED = re.compile(r"\b(add|sub|fma)(?:\.\w+)*\.f(16|32|64)(?:x2)?\s+(%\w+)\s*,([^;]*);")
_MATRIX = re.compile(r"\b(?:mma|wmma\.mma|wgmma)\.[^;]*?\.f(?:16|32)\b[^;]*?\{([^}]*)\}")
_MOVED = re.compile(
    r"\b(?:mov|selp|cvt(?:\.rn)?\.b?f(?:16|32|64)\.b?f(?:16|32|64))(?:\.[fb]\d+)?\s+(%\w+)\s*,([^;]*);"
)


class Short(msgspec.Struct, frozen=True):
    """Of one kernel, pointers among its parameters by number."""

    #: Behind which integers are loaded, each of 32 bits or more by itself; floats may lie beside them.
    whole: frozenset[str] = frozenset()
    #: Behind which lies what is kept, or compared, in fewer bits than it was loaded in.
    cut: frozenset[str] = frozenset()
    #: Whether it adds floats up, and whether such a sum becomes an integer that may be too large for it.
    sums: bool = False
    rounded_sums: bool = False
    #: Whether a loop adds to a number of 16 bits or fewer, and whether what one has added up in more is kept in so few.
    counts: bool = False
    keeps: bool = False


def short_in(ptx: str) -> dict[str, Short]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {unit_free_name(mangled): _Numbers(flow).short() for mangled, flow in kernels_of(ptx)}


def shortened(baseline: Mapping[str, Short], candidate: Mapping[str, Short]) -> str:
    """What a candidate carries in fewer bits than the baseline does; "" if nothing is known to be."""
    for name, new in candidate.items():
        known = baseline.get(name)
        if known is None:
            continue
        if new.counts and not known.counts:
            return "the edit counts over a loop in 16 bits or fewer, the kernel in more"
        if new.keeps and not known.keeps:
            return "the edit keeps in 16 bits or fewer what a loop has added up in more, the kernel does not"
        for what in sorted((new.cut - known.cut) & known.whole, key=int):
            where = f"fewer bits than the whole numbers behind parameter {int(what) + 1} have"
            return f"the edit keeps or compares {where}, the kernel all of them"
        if new.rounded_sums and not known.sums:
            return "the edit adds up as floats what the kernel adds up as whole numbers"
    return ""


class _Numbers:
    """What one kernel does to integers that it loads."""

    def __init__(self, flow: Flow) -> None:
        self._flow, self._body = flow, flow.body
        #: Registers that are one number and no other.
        self._numbers = {
            register: steps[0].sources[0]
            for register, steps in flow.steps.items()
            if len(steps) == 1 and steps[0].name.startswith("mov.") and steps[0].sources[0].startswith("#")
        }

    def short(self) -> Short:
        """All of it."""
        sums = _float_sums(self._body)
        rounded = (
            register in sums and not (of == "64" and to != "64")
            for to, of, register in _TO_INTEGER.findall(self._body)
        )
        return Short(
            self._whole(), frozenset(self._cut()), bool(sums), any(rounded), self._counts(), self._keeps()
        )

    def _keeps(self) -> bool:
        """Whether a loop's sum is stored in 16 bits or fewer, itself or the smaller of it and another number."""
        flow = self._flow
        held = {
            register
            for register, steps in flow.steps.items()
            for step in steps
            if _SUM.match(step.name) and any(flow.round.get(s) == flow.round[register] for s in step.sources)
        }
        if not held:
            return False
        still = self._still_as_they_began(held)
        while more := {
            r
            for r, steps in flow.steps.items()
            if r not in held and any(_keeps_on(s, held - still.get(r, frozenset())) for s in steps)
        }:
            held |= more
        return any(
            int(bits) < 32 and not held.isdisjoint(_REGISTER.findall(operands))
            for bits, operands in _STORE.findall(self._body)
        )

    def _still_as_they_began(self, sums: set[str]) -> dict[str, frozenset[str]]:
        """By register the sums that it is a copy of from before anything was added: a zero that is written once."""
        flow, added, copied = self._flow, dict[str, set[int]](), dict[tuple[str, str], set[int]]()
        for number, lines in enumerate(flow.code):
            for name, parts in filter(None, map(instruction_of, lines)):
                if name.startswith("mov.") and len(parts) == 2 and parts[1] in sums:
                    copied.setdefault((parts[0], parts[1]), set()).add(number)
                if (
                    parts
                    and parts[0] in sums
                    and not (name.startswith("mov.") and parts[1] not in flow.steps)
                ):
                    added.setdefault(parts[0], set()).add(number)
        found: dict[str, frozenset[str]] = {}
        for (to, of), places in copied.items():
            if not _behind(flow, added.get(of, set())) & places:
                found[to] = found.get(to, frozenset()) | {of}
        return found

    def _counts(self) -> bool:
        """Whether a sum, or a count, of 16 bits or fewer goes round: added in so many, or masked on its way."""
        flow, added, cut = self._flow, set[int](), set[int]()
        for register, steps in flow.steps.items():
            for step in steps:
                if not any(flow.round.get(source) == flow.round[register] for source in step.sources):
                    continue
                if step.name.startswith(("add.s", "add.u", "sub.s", "sub.u")):
                    added.add(flow.round[register])
                if step.name.endswith(("16", "8")) or min(_mask(s) for s in step.sources) < 32:
                    cut.add(flow.round[register])
        return bool(added & cut)

    def _whole(self) -> frozenset[str]:
        single, others = set[str](), set[str]()
        for name, place in self._flow.accessed:
            if name.startswith("ld.") and not _FLOAT.search(name):
                (single if _LOAD.match(name) else others).update(self._flow.bases(place))
        return frozenset(single - others)

    def _cut(self) -> Iterator[str]:
        """The pointers whose numbers are stored, or compared, in fewer bits."""
        held = self._handed_on({})
        for bits, operands in self._uses():
            for register in _REGISTER.findall(operands):
                for base, (was, least) in held.get(register, {}).items():
                    if min(least, bits) < was:
                        yield base

    def _uses(self) -> Iterator[tuple[int, str]]:
        for bits, operands in _STORE.findall(self._body):
            yield int(bits), operands
        for _, operands in _COMPARE.findall(self._body):
            yield 64, operands
        for bits, operands in _FLOAT_COMPARE.findall(self._body):
            numbers = (self._flow.turned.get(register, "") for register in re.findall(r"%\w+", operands))
            yield _FLOATS[bits], ", ".join(numbers)

    def _handed_on(
        self, held: dict[str, dict[str, tuple[int, int]]]
    ) -> dict[str, dict[str, tuple[int, int]]]:
        """By register the pointers that it comes from as it was loaded, by how many bits that had and how many are left
        on the way that leaves the fewest."""
        changed = True
        while changed:
            changed = False
            for register, steps in self._flow.steps.items():
                now = held.setdefault(register, {})
                for base, (was, least) in [p for s in steps for p in self._comes(s, held)]:
                    known = now.get(base)
                    if known is None or least < known[1]:
                        now[base], changed = (was, least), True
        return held

    def _comes(
        self, step: Step, held: Mapping[str, Mapping[str, tuple[int, int]]]
    ) -> Iterator[tuple[str, tuple[int, int]]]:
        load = _LOADED.match(step.name)
        if step.place and load is not None:
            bits = int(load[1])
            yield from ((base, (bits, bits)) for base in self._flow.bases(step.place))
        left = _left_by(step.name, [self._numbers.get(source, source) for source in step.sources])
        if left < 64 or step.name.startswith(_HANDS_ON):
            for source in step.sources:
                for base, (was, least) in held.get(source, {}).items():
                    yield base, (was, min(least, left))
        elif step.name.startswith("shr."):
            # what was shifted up comes down again; a part of a word that is whole is meant
            for base, (was, least) in held.get(step.sources[0], {}).items():
                if least < was:
                    yield base, (was, least)


def _left_by(name: str, sources: list[str]) -> int:
    """How many bits of a number an instruction leaves; 64 where it leaves them all, or is none that cuts."""
    numbers = [source[1:] for source in sources if re.fullmatch(r"#\d+", source)]
    if _MASK.match(name):
        return min((_mask(source) for source in sources), default=64)
    if (shifted := _SHIFTED.match(name)) is not None and len(numbers) == 1:
        up = int(numbers[0])
        return max(int(shifted[1]) - up, 0) if up >= _LEAST_SHIFT else 64
    if _FIELD.match(name) and len(numbers) == 2:
        return int(numbers[1])
    if name == "prmt.b32" and numbers:
        places = {int(numbers[-1]) >> 4 * k & 7 for k in range(4)}
        return 8 * max(len({p for p in places if p < 4}), len({p for p in places if p >= 4}))
    if name.startswith("mul24."):
        return 24
    cut = _CUT.match(name)
    return min(map(int, cut.groups())) if cut is not None else 64


def _mask(source: str) -> int:
    """How many lower bits a number masks, 64 for others."""
    number = int(source[1:]) if re.fullmatch(r"#\d+", source) else 0
    return number.bit_length() if number >= 255 and number & (number + 1) == 0 else 64


def _behind(flow: Flow, blocks: set[int]) -> set[int]:
    """These blocks, and those that a thread may come to after them."""
    seen, left = set(blocks), list(blocks)
    while left:
        more = set(flow.after[left.pop()]) - seen
        seen |= more
        left += more
    return seen


def _keeps_on(step: Step, held: set[str]) -> bool:
    return step.name.startswith(_KEEPS_ON) and not held.isdisjoint(step.sources)


def _float_sums(body: str) -> set[str]:
    """The registers that hold sums of three terms and more, matrices' among them, or what these were handed to."""
    additions = [(found[3], found[1], found[4]) for found in _ADDED.finditer(body)]
    made = {to for to, _, _ in additions}
    moves = [(to, set(re.findall(r"%\w+", of))) for to, of in _MOVED.findall(body)]
    handed = _reached(made, moves)
    sums = {
        to
        for to, name, operands in additions
        if handed & set(re.findall(r"%\w+", operands.split(",", 2)[-1] if name == "fma" else operands))
    }
    sums |= {register for found in _MATRIX.findall(body) for register in re.findall(r"%\w+", found)}
    return _reached(sums, moves)


def _reached(registers: set[str], moves: list[tuple[str, set[str]]]) -> set[str]:
    found = set(registers)
    while more := {to for to, sources in moves if to not in found and sources & found}:
        found |= more
    return found
