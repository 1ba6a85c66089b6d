# SPDX-License-Identifier: Apache-2.0
"""Numbers of two words, by PTX: both words count where the kernel orders them, or carries from one into the other.

Of equal upper words the lower ones decide, once in four billion times; a sum's upper word changes once in as many. No
drawn number meets either. Told are members of structures that the kernel compares with what it works out, and the edit
with numbers of the text alone; upper words that are compared without the lower ones; upper words of numbers by value
that are the same for all threads, or rounds of a loop, where the kernel takes them of each one's sum; and large numbers
of the text that the kernel orders something with, and the edit with one next to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_bits import Bits
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, split_operands
from warplens_tools.toolchain.ptx_gaps import Load, loads_of

_COMPARE = re.compile(r"\bsetp\.(\w+)(?:\.\w+)*?\.([busf])(32|64)\s+([^;]+);")
_ORDERS = frozenset({"lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"})
_CHOOSES = re.compile(r"(?:min|max|sub|xor|atom|red)\b")
#: What leaves a number as it is.
_HANDS_ON = ("mov.", "cvt.", "selp.")
_PARTS = re.compile(r"\bmov\.b64\s+\{\s*(\S+?)\s*,\s*(\S+?)\s*\}\s*,\s*(%\w+)\s*;")
_LOWER = re.compile(r"cvt\.[us]32\.[us]64\Z")
_WORD = 0xFFFFFFFF
_ALL = 0xFFFFFFFFFFFFFFFF
#: A sum that follows a loop's counter, or a thread's place.
_ROUNDS, _THREADS = 2, 1
#: Of numbers of 32 bits, those that no few values meet.
_SHORT_LEAST, _HALF, _SIGN = 1 << 24, 0xFFFF, 1 << 31
#: What fits into one word, with a sign too, is drawn.
_LEAST = 1 << 32
#: Of a number on the right, or on the left: what is more than it, or not, is at least one more, or not.
_WITH_EQUAL = {True: ("gt", "le", "hi", "ls"), False: ("lt", "ge", "lo", "hs")}
#: A member of a structure: the pointer that the structure lies behind, its size, and the byte within it.
_Member = tuple[str, int, int]


class Words(msgspec.Struct, frozen=True):
    """Of one kernel."""

    #: Members that are compared with what is worked out or loaded, those that are compared with numbers of the text
    #: alone, and all that are loaded; of size 0 where it is not plain to see which.
    compared: frozenset[_Member] = frozenset()
    numbered: frozenset[_Member] = frozenset()
    read: frozenset[_Member] = frozenset()
    #: Large numbers of the text that something of 64, or 32, bits is at least, or less than; and the upper words of the
    #: text that upper words alone are compared with.
    ends: frozenset[int] = frozenset()
    short_ends: frozenset[int] = frozenset()
    upper: frozenset[int] = frozenset()
    #: Whether two numbers of 64 bits are compared, or two upper words, and whether lower words are compared at all.
    pairs: bool = False
    upper_pairs: bool = False
    lower: bool = False
    #: Numbers by value of whose sums upper words are taken, each with what these follow; and what lower words do.
    upper_of: frozenset[tuple[str, int]] = frozenset()
    lower_of: frozenset[tuple[str, int]] = frozenset()


def words_in(ptx: str) -> dict[str, Words]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, lambda flow: _Reading(flow).words())


def half_used(baseline: Mapping[str, Words], candidate: Mapping[str, Words]) -> str:
    """Where a candidate goes by one word of a number of which the baseline goes by both; "" for nowhere."""
    for name, new in candidate.items():
        known = baseline.get(name, Words())
        if lost := known.compared - known.numbered - new.compared & (new.numbered | _unread(known, new)):
            base, _, at = min(lost)
            where = f"what lies behind parameter {int(base) + 1} at byte {at}"
            return f"{name} compares {where} with what it works out, the edit does not"
        if not new.lower and any(_near(known.ends, one) for one in new.ends - known.ends):
            return "the edit orders 64 bits with a number next to the one that the kernel orders them with"
        if not new.lower and any(_near(known.ends, one << 32) for one in new.upper - known.upper):
            return "the edit asks for the upper word alone of a number of which the kernel compares 64 bits"
        if known.pairs and new.upper_pairs and not known.upper_pairs and not new.lower:
            return "the edit orders the upper words alone of numbers that the kernel orders in 64 bits"
        given_up = known.short_ends - new.short_ends
        if any(abs(one - other) <= _HALF for one in given_up for other in new.short_ends - known.short_ends):
            return "the edit orders something with a number next to the one that the kernel orders it with"
        if same := _less_often(known, new):
            which = f"parameter {int(same) + 1}"
            return (
                f"the edit takes one upper word of {which} for several sums with it, the kernel of each sum"
            )
    return ""


def _less_often(known: Words, new: Words) -> str:
    """A number by value whose upper word follows less in the edit than in the kernel, and than the lower one; ""."""
    for given in sorted({one for one, _ in known.upper_of}):
        was, now, low = (
            {follows for one, follows in of if one == given}
            for of in (known.upper_of, new.upper_of, new.lower_of)
        )
        if now and max(now) < min(was) and max(now) < max(low, default=0):
            return given
    return ""


def _unread(known: Words, new: Words) -> frozenset[_Member]:
    """Members that the edit never loads of structures of which it loads others, all plain to see."""
    open_ended = {base for base, size, _ in new.read if not size}
    kinds = {(base, size) for base, size, _ in new.read if base not in open_ended}
    return frozenset(one for one in known.compared if one[:2] in kinds and one not in new.read)


class _Reading:
    """One kernel."""

    def __init__(self, flow: Flow) -> None:
        self._flow, self._bits = flow, Bits(flow)
        self._members: dict[str, set[_Member]] = {}
        self._read: set[_Member] = set()
        for load in loads_of(flow):
            self._note(load)
        halves = _PARTS.findall(flow.body)
        self._upper = {high: whole for _, high, whole in halves} | {
            register: step.sources[0]
            for register, steps in flow.steps.items()
            for step in steps
            if step.name in ("shr.u64", "shr.s64", "shr.b64") and self._number(step.sources[1]) == 32
        }
        self._lower = {low for low, _, _ in halves} | {
            register
            for register, steps in flow.steps.items()
            for step in steps
            if self._is_lower(step.name, step.sources)
        }

    def words(self) -> Words:
        """All of it."""
        compared, numbered = set[_Member](), set[_Member]()
        ends, short_ends, upper = set[int](), set[int](), set[int]()
        pairs = upper_pairs = lower = False
        for kind, of, bits, text in _COMPARE.findall(self._flow.body):
            if of == "f":
                continue
            sides = [_source(side) for side in split_operands(text)[1:3]]
            numbers = [self._number(side) for side in sides]
            uppers = [self._comes_of(side, self._upper) for side in sides]
            lower = lower or any(self._comes_of(side, self._lower) for side in sides)
            orders = kind in _ORDERS
            if all(number is None for number in numbers):
                compared |= set().union(*map(self._held, sides))
                pairs = pairs or (orders and bits == "64" and not any(uppers))
                upper_pairs = upper_pairs or (orders and all(uppers))
                continue
            for side, number, is_upper in zip(sides, reversed(numbers), uppers, strict=True):
                if number is None:
                    continue
                numbered |= self._held(side)
                if is_upper:
                    upper.add(number & _WORD)
                elif orders:
                    end = number + (kind in _WITH_EQUAL[side is sides[0]])
                    if bits == "64":
                        ends.add(end & _ALL)
                    elif of == "u" or end < _SIGN - _HALF:
                        # below zero, with a sign, is where 31 bits end
                        short_ends.add(_SIGN if of == "s" and end == 0 else end & _WORD)
        for name, operands in self._choices():
            held = [self._held(operand) for operand in operands]
            compared |= set().union(*held) if held else set()
            if name.startswith("sub"):
                lower = lower or any(self._comes_of(operand, self._lower) for operand in operands)
        return Words(
            frozenset(compared),
            frozenset(numbered - compared),
            frozenset(self._read),
            frozenset(one for one in ends if _LEAST <= one <= _ALL - (_LEAST >> 1)),
            frozenset(one for one in short_ends if _SHORT_LEAST <= one <= _WORD - _HALF),
            frozenset(upper),
            pairs,
            upper_pairs,
            lower,
            *self._sums(),
        )

    def _note(self, load: Load) -> None:
        for number, register in enumerate(load.registers):
            at = load.at + number * load.width
            member = (load.base, load.stride, at if 0 <= at < load.stride else 0)
            self._read.add(member if 0 <= at < load.stride else (load.base, 0, 0))
            # an array's elements are no members
            if load.stride > load.width and 0 <= at < load.stride:
                self._members.setdefault(register, set()).add(member)

    def _number(self, source: str) -> int | None:
        return self._bits.constant(source)

    def _is_lower(self, name: str, sources: tuple[str, ...]) -> bool:
        if _LOWER.match(name):
            return sources[0].startswith("%rd") and sources[0] not in self._upper
        return name == "and.b64" and any(self._number(source) == _WORD for source in sources)

    def _handed(self, register: str) -> Iterator[str]:
        """A register, and those that it is handed on from."""
        seen, left = {register}, [register]
        while left:
            current = left.pop()
            yield current
            for step in self._flow.steps.get(current, ()):
                if step.name.startswith(_HANDS_ON):
                    more = {source for source in step.sources if source.startswith("%")} - seen
                    seen |= more
                    left += more

    def _comes_of(self, register: str, those: Mapping[str, str] | set[str]) -> bool:
        return any(one in those for one in self._handed(register))

    def _held(self, register: str) -> set[_Member]:
        return set().union(*(self._members.get(one, set()) for one in self._handed(register)))

    def _choices(self) -> Iterator[tuple[str, list[str]]]:
        """What compares without a comparison."""
        for steps in self._flow.steps.values():
            for step in steps:
                if _CHOOSES.match(step.name) and not step.name.endswith(("f32", "f64")):
                    sources = [source for source in step.sources if source.startswith("%")]
                    if len(sources) == 2:
                        yield step.name, sources

    def _sums(self) -> tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]:
        """The numbers by value that upper words, and lower ones, are taken of, with what those sums follow."""
        upper, lower = set[tuple[str, int]](), set[tuple[str, int]]()
        for half, whole in self._upper.items():
            upper |= self._given(whole, _ROUNDS if self._is_added_to(half) else self._follows(whole))
        wanted = {given for given, _ in upper}
        for register in self._flow.steps if wanted else ():
            if not register.startswith("%rd") and not wanted.isdisjoint(self._flow.leaves.get(register, ())):
                lower |= self._given(register, self._follows(register))
        return frozenset(upper), frozenset(lower)

    def _given(self, register: str, follows: int) -> set[tuple[str, int]]:
        leaves = self._flow.leaves.get(register, frozenset())
        return {(one, follows) for one in leaves & self._flow.wide_parameters}

    def _follows(self, register: str) -> int:
        """Whether a sum differs from round to round, or from thread to thread, or neither."""
        if not self._flow.counters.isdisjoint(self._flow.closure({register})):
            return _ROUNDS
        return _THREADS if self._flow.leaves.get(register, frozenset()) & {"%tid", "%laneid"} else 0

    def _is_added_to(self, half: str) -> bool:
        """Whether something that differs between threads, as a carry, is added to an upper word."""
        known = {half} | {r for r in self._flow.steps if half in self._handed(r)}
        return any(
            step.name.startswith(("add", "addc")) and not known.isdisjoint(step.sources)
            for steps in self._flow.steps.values()
            for step in steps
        )


def _near(numbers: frozenset[int], one: int) -> bool:
    """Whether the upper word of one of these, or the next, is this one's."""
    return any(abs(number - one) <= _WORD for number in numbers)


def _source(text: str) -> str:
    return text if text.startswith("%") else f"#{text}"
