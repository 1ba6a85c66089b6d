# SPDX-License-Identifier: Apache-2.0
"""What the loops of a kernel end by, by its PTX: data alone, or a number of rounds that stands in the code.

A search that goes on until it has found something, or an empty place, takes as many rounds as its data ask for. With a
fixed number of them it gives up early on others. A loop that halves what is left needs no more than there are bits.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_blocks import after_each, blocks_of, loops_of
from warplens_tools.toolchain.ptx_flow import bodies_of
from warplens_tools.toolchain.ptx_instructions import REGISTER, Instruction, instructions_of, registers_of

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)U?\Z")
#: What hands a counter on, what it counts by, and what a condition is made of.
_HANDS_ON = ("mov.", "cvt.")
_COUNTS = ("add.", "sub.")
_JOINS = ("and.", "or.", "xor.", "not.", "mov.pred", "selp.")
_HALVES = ("shr.", "div.")
_CUTS = ("shr.", "div.", "min.", "rem.", "bfe.", "mul.hi")
_WORKS_OUT = ("mov.", "cvt.", "add.", "sub.", "mul.", "mad.", "shl.", "selp.", "max.", "or.")
#: What is kept of a thread's own, or of its block's.
_KEEPS = ("st.local", "st.shared")
_ORDERS = tuple(f"setp.{one}" for one in ("lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"))
#: What a stack that is empty is asked by.
_ENDS_OF_NONE = frozenset({"0", "1", "-1"})
#: What waits for another block looks at memory that may change.
LOOKS = re.compile(r"ld\.(?:volatile|acquire|relaxed|mmio)\b")

#: The memory of a thread's own arrays, where they are not registers.
_OWN = re.compile(r"\.local\s+\.align\s+\d+\s+\.b8\s+[\w$]+\[(\d+)\]")


class Loop(msgspec.Struct, frozen=True):
    """One loop: its blocks by number, and what it ends by."""

    blocks: frozenset[int]
    #: A counter that is compared with what does not change in it; one that begins, counts and ends by constants; what
    #: neither counts nor stays.
    counted: bool
    fixed: bool
    by_data: bool
    #: It halves something from round to round.
    halves: bool
    #: It looks at memory that others may change.
    looks: bool
    #: It writes to an array of the thread's own.
    keeps: bool
    #: What its counter goes up to is a part of some number: a quotient, a shift to the right, the smaller of two.
    cut: bool = False
    #: All that its counter goes up to is no more than a number of the text.
    held: bool = False
    #: It ends by what goes up to what stays, as a counter does, but by steps that differ from round to round.
    skips: bool = False
    #: It writes to an array of a thread's or block's own, further with each round, and asks nowhere how far.
    grows: bool = False

    @property
    def open_ended(self) -> bool:
        """Whether data alone end it."""
        return self.by_data and not self.counted


class Ends(msgspec.Struct, frozen=True):
    """Of one kernel: how many loops data alone end, and how many in none of these go a fixed number of rounds and halve
    nothing; of the first, whether one halves something, looks at what others may write, or grows what it keeps; and the
    bytes of a thread's own arrays where one writes to them."""

    by_data: int = 0
    fixed: int = 0
    halves: bool = False
    waits: bool = False
    held: int = 0
    grows: bool = False


def ends_in(ptx: str) -> dict[str, Ends]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {name: _ends(loops_in(body), body) for name, body in bodies_of(ptx)}


def gives_up(baseline: Mapping[str, Ends], candidate: Mapping[str, Ends]) -> str:
    """Why an edit may leave a loop too early that the kernel's data alone end; "" if nothing is known to say so."""
    for name, new in candidate.items():
        known = baseline.get(name, Ends())
        if new.by_data < known.by_data and new.fixed > known.fixed and not known.halves:
            return "the edit ends after a fixed number of rounds a loop that the kernel's data alone end"
    return ""


def holds_less(baseline: Mapping[str, Ends], candidate: Mapping[str, Ends]) -> str:
    """Why a stack, or a list, of an edit may run over that the kernel's holds; "" if nothing is known to say so."""
    for name, new in candidate.items():
        known = baseline.get(name, Ends())
        if 0 < new.held < known.held:
            many = f"{new.held} bytes, the kernel {known.held}"
            return f"for what a loop of data's own length writes each thread of the edit has {many}"
        if new.grows and not known.grows:
            return (
                "the edit keeps what a loop of data's own length writes, and never asks whether there is room"
            )
    return ""


def _ends(loops: Sequence[Loop], body: str) -> Ends:
    open_ended = [loop for loop in loops if loop.open_ended]
    tried = [loop for loop in loops if loop.fixed and not loop.halves]
    return Ends(
        len(open_ended),
        sum(not any(one.blocks < other.blocks for other in open_ended) for one in tried),
        any(loop.halves for loop in open_ended),
        any(loop.looks for loop in open_ended),
        sum(map(int, _OWN.findall(body))) if any(loop.keeps for loop in open_ended) else 0,
        any(loop.grows for loop in open_ended),
    )


# of a kernel four readers ask
@functools.lru_cache(maxsize=128)
def loops_in(body: str) -> tuple[Loop, ...]:
    """The loops of one kernel's body."""
    blocks = blocks_of(body, {})
    branches = loops_of(blocks)
    if not branches:
        return ()
    lines = body.split("\n")
    code = [[*instructions_of(block, lines)] for block in blocks]
    after = after_each(blocks)
    before: list[list[int]] = [[] for _ in blocks]
    for number, targets in enumerate(after):
        for target in targets:
            before[target].append(number)
    found: dict[int, set[int]] = {}
    for branch, head, _ in branches:
        found.setdefault(head, {head}).update(_around(branch, head, before))
    made = _made(code)
    return tuple(_Reading(code, made, inside).loop(after) for inside in found.values())


def _around(branch: int, head: int, before: Sequence[Sequence[int]]) -> set[int]:
    inside, left = {head, branch}, [branch] if branch != head else []
    while left:
        more = set(before[left.pop()]) - inside
        inside |= more
        left += more
    return inside


_Made = dict[str, list[tuple[int, Instruction]]]


def _made(code: Sequence[Sequence[Instruction]]) -> _Made:
    found: _Made = {}
    for number, block in enumerate(code):
        for one in block:
            for register in one.to:
                found.setdefault(register, []).append((number, one))
    return found


class _Reading:
    """One loop, as its conditions are read."""

    def __init__(self, code: Sequence[Sequence[Instruction]], made: _Made, inside: set[int]) -> None:
        self._code, self._made, self._inside = code, made, inside

    def loop(self, after: Sequence[Sequence[int]]) -> Loop:
        """What it ends by."""
        compared = [
            one
            for number in self._inside
            if not self._inside.issuperset(after[number])
            for one in self._compared(self._code[number])
        ]
        counted = [one for one in compared if self._counts_in(one)]
        here = [one for number in self._inside for one in self._code[number]]
        return Loop(
            frozenset(self._inside),
            counted=bool(counted),
            fixed=any(self._fixed(one) for one in counted),
            by_data=any(self._by_data(one) for one in compared if one not in counted),
            halves=any(one.name.startswith(_HALVES) and self._goes_round(one) for one in here),
            looks=any(LOOKS.match(one.name) for one in here),
            keeps=any(one.name.startswith("st.local") for one in here),
            cut=bool(counted) and all(map(self._is_cut, counted)),
            held=bool(counted) and all(map(self._is_held, counted)),
            skips=any(map(self._skips, compared)),
            grows=self._grows(here) and not any(map(_is_numbered, compared)),
        )

    def _compared(self, block: Sequence[Instruction]) -> Iterator[Instruction]:
        """The comparisons that decide where a block leads."""
        left = [register for one in block[-1:] if one.name == "bra" for register in one.operands]
        seen = set(left)
        while left:
            for number, one in self._made.get(left.pop(), ()):
                if number not in self._inside:
                    continue
                # a flag that is set by the way that was taken is compared where that way was chosen
                if one.name.startswith("setp") or (
                    one.name == "mov.pred" and all(map(_is_number, one.operands))
                ):
                    yield one
                if one.name.startswith(("setp", *_JOINS)):
                    more = set(registers_of(one)) - seen
                    seen |= more
                    left += more

    def _within(self, register: str) -> list[Instruction]:
        return [one for number, one in self._made.get(register, ()) if number in self._inside]

    def _counts_in(self, one: Instruction) -> bool:
        """Whether a counter is compared with what stays."""
        sides = [self._counter(side) for side in one.operands[:2]]
        return any(
            side is not None and not self._within(other)
            for side, other in zip(sides, reversed(one.operands[:2]), strict=True)
        )

    def _is_cut(self, one: Instruction) -> bool:
        """Whether what a counter is compared with was worked out, before the loop, by what makes numbers smaller; what
        was loaded is data's own."""
        return self._comes_of(one, lambda made: made.name.startswith(_CUTS))

    def _is_held(self, one: Instruction) -> bool:
        """Whether it is the smaller of something and a number."""

        def holds(made: Instruction) -> bool:
            return made.name.startswith("min.") and any(map(self._is_constant, made.operands))

        return self._comes_of(one, holds)

    def _comes_of(self, one: Instruction, how: Callable[[Instruction], bool]) -> bool:
        left = [side for side in one.operands[:2] if not self._within(side)]
        seen = set(left)
        while left:
            for _, made in self._made.get(left.pop(), ()):
                if how(made):
                    return True
                more = set(registers_of(made)) - seen if made.name.startswith(_WORKS_OUT) else set()
                seen |= more
                left += more
        return False

    def _skips(self, one: Instruction) -> bool:
        sides = one.operands[:2]
        return any(
            not self._within(other) and self._counter(side) is None and self._steps(side)
            for side, other in zip(sides, reversed(sides), strict=True)
        )

    def _grows(self, here: Sequence[Instruction]) -> bool:
        """Whether something is kept at a place that goes on from round to round, and not asked for."""
        kept = {r for one in here if one.name.startswith(_KEEPS) for r in REGISTER.findall(one.operands[0])}
        return any(map(self._goes_on, self._worked_out_from(kept))) and not any(
            self._goes_on(side) and other not in _ENDS_OF_NONE
            for one in here
            if one.name.startswith("setp")
            for side, other in itertools.permutations(one.operands[:2], 2)
        )

    def _worked_out_from(self, registers: set[str]) -> set[str]:
        """What these are made of in the loop, themselves among them, by nothing that bounds a number."""
        seen, left = set(registers), list(registers)
        while left:
            for one in self._within(left.pop()):
                more = set(registers_of(one)) - seen if one.name.startswith(_WORKS_OUT) else set()
                seen |= more
                left += more
        return seen

    def _goes_on(self, register: str) -> bool:
        """Whether a number comes back to itself by sums, one at least, and choices between them."""
        seen, left = set[tuple[str, bool]](), [(register, False)]
        while left:
            current, summed = left.pop()
            for one in self._within(current):
                adds = one.name.startswith(_COUNTS)
                if not adds and not one.name.startswith((*_HANDS_ON, "selp.")):
                    continue
                # what is taken from something goes to and fro
                operands = one.operands[:1] if one.name.startswith("sub.") else one.operands
                for source in (r for operand in operands for r in REGISTER.findall(operand)):
                    now = (source, summed or adds)
                    if source == register and now[1]:
                        return True
                    if now not in seen:
                        seen.add(now)
                        left.append(now)
        return False

    def _steps(self, register: str) -> bool:
        """Whether sums of itself, and choices between them, make a number anew in each round."""
        seen, left = set[str](), [register]
        while left:
            for one in self._within(left.pop()):
                more = (
                    set(registers_of(one)) if one.name.startswith((*_HANDS_ON, *_COUNTS, "selp.")) else set()
                )
                if register in more:
                    return True
                left += more - seen
                seen |= more
        return False

    def _counter(self, register: str) -> tuple[set[str], set[str]] | None:
        """The registers that a counter goes round in, and what is added; None for what is no counter, or goes up and
        down."""
        seen, left, by = {register}, [register], set[str]()
        while left:
            current = left.pop()
            for one in self._within(current):
                if not one.name.startswith((*_HANDS_ON, *_COUNTS)):
                    return None
                moved = [side for side in registers_of(one) if self._within(side)]
                if len(moved) > 1:
                    return None
                if one.name.startswith(_COUNTS):
                    by |= {
                        ("-" if one.name.startswith("sub") else "") + o
                        for o in one.operands
                        if o not in moved
                    }
                left += set(moved) - seen
                seen |= set(moved)
        signs = {side.startswith("-") and not side.startswith("--") for side in by}
        return (seen, by) if by and len(signs) == 1 and self._rounds(register, seen) else None

    def _rounds(self, register: str, seen: set[str]) -> bool:
        return any(
            one in seen for start in seen for made in self._within(start) for one in registers_of(made)
        ) and bool(self._within(register))

    def _fixed(self, one: Instruction) -> bool:
        """Whether a counter begins, counts and ends by constants."""
        for side, other in zip(one.operands[:2], reversed(one.operands[:2]), strict=True):
            counter = self._counter(side)
            if counter is None:
                continue
            begins = {
                operand
                for register in counter[0]
                for number, made in self._made.get(register, ())
                if number not in self._inside
                for operand in (made.operands if made.name.startswith("mov") else ("?",))
            }
            if all(_is_number(value.lstrip("-")) for value in counter[1]) and all(
                self._is_constant(value) for value in (*begins, other)
            ):
                return bool(begins)
        return False

    def _is_constant(self, value: str) -> bool:
        made = self._made.get(value, ())
        return _is_number(value) or (
            bool(made)
            and all(one.name.startswith("mov") and all(map(_is_number, one.operands)) for _, one in made)
        )

    def _by_data(self, one: Instruction) -> bool:
        """Whether a comparison looks at what changes in the loop and is no counter."""
        return one.name == "mov.pred" or any(
            self._within(side) and self._counter(side) is None for side in one.operands[:2]
        )

    def _goes_round(self, start: Instruction) -> bool:
        """Whether what an instruction makes comes back to it."""
        seen, left = set[str](), list(registers_of(start))
        while left:
            register = left.pop()
            if register in start.to:
                return True
            more = {side for one in self._within(register) for side in registers_of(one)} - seen
            seen |= more
            left += more
        return False


def _is_numbered(one: Instruction) -> bool:
    """Whether something is less or more than a number of the text: a count, whatever the compiler made of it."""
    numbers = [side for side in one.operands[:2] if _is_number(side) and side not in _ENDS_OF_NONE]
    return bool(numbers) and one.name.startswith(_ORDERS)


def _is_number(value: str) -> bool:
    return _NUMBER.match(value) is not None
