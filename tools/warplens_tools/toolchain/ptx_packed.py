# SPDX-License-Identifier: Apache-2.0
"""Several numbers in one word, by PTX: a score and its place, sums of two rows, a distance and a node's number.

Each has fewer bits than it had by itself, and a run's own numbers may all fit. Told are words of two run-time numbers,
one of them loaded, of which one is shifted over the other or cut off for it, that are chosen from, exchanged between
lanes or added up, and taken apart again. Where each part is as wide as its number, nothing is lost: a key of 64 bits
has two numbers of 32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from warplens_tools.lazily import cached_property
from warplens_tools.toolchain.ptx_bits import Bits
from warplens_tools.toolchain.ptx_flow import Flow, Step, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

#: Parts of fewer bits are letters and flags, as a rule.
_LEAST = 6
_WIDE = 32
#: A word is followed through so many registers.
_FAR = 400
_JOINS = re.compile(r"(?:or\.b|xor\.b|add\.[su])(32|64)\Z")
#: What hands a word on as it is, or with another one's in its place; and what tells that words are chosen or exchanged.
_HANDS_ON = re.compile(r"(?:mov|cvt|selp|min|max|shfl|redux|not|add|sub|xor|or)\b")
#: What hands on a word whose parts are numbers: of bits that are joined with others' each stands for itself.
_ADDS_ON = re.compile(r"(?:mov|cvt|selp|min|max|shfl|redux|add|sub)\b")
#: What `prmt` makes a word of the lower halves of two by, and which of them goes above which.
_HALVES = {0x5410: (1, 0), 0x1054: (0, 1)}
#: What takes a word's lower half.
_HALF = re.compile(r"cvt\.[us](?:16|32|64)\.[us]16\Z|cvt\.[us]16\.[us](?:32|64)\Z")
#: What keeps a word in shared memory, for other threads.
_KEPT = re.compile(r"\b(?:st|atom|red)(?:\.\w+)*\.shared(?:\.\w+)*\s+([^;]*);")
_REGISTER = re.compile(r"%(?:rd|r)\d+")
_HELD = ("ld.shared", "ld.local", "shfl.")
_CHOOSES = re.compile(r"(?:selp|min|max|shfl|redux)\b")


class Packed(msgspec.Struct, frozen=True):
    """Of one kernel: at which bits it joins numbers that do not fit to words that it takes apart there again."""

    at: frozenset[int] = frozenset()
    #: By which constants it multiplies one to add another one below it, and divides by again.
    by: frozenset[int] = frozenset()


def packed_in(ptx: str) -> dict[str, Packed]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    found = ((unit_free_name(mangled), _Words(flow)) for mangled, flow in kernels_of(ptx))
    return {name: Packed(frozenset(words.joints()), frozenset(words.products())) for name, words in found}


def packs_more(baseline: Mapping[str, Packed], candidate: Mapping[str, Packed]) -> str:
    """Why numbers of a candidate may not fit into their parts of a word; "" if nothing is known to say so."""
    for name, new in candidate.items():
        for by in sorted(new.by - baseline.get(name, Packed()).by):
            return f"the edit keeps two numbers in one word, one times {by} and the other, the kernel each in its own"
        for at in sorted(new.at - baseline.get(name, Packed()).at):
            return f"the edit keeps two numbers in one word, {at} bits for the lower one, the kernel each in its own"
    return ""


class _Words:
    """What one kernel joins, and takes apart."""

    def __init__(self, flow: Flow) -> None:
        self._flow, self._bits = flow, Bits(flow)
        self._uses: dict[str, list[tuple[str, Step]]] = {}
        for register, steps in flow.steps.items():
            for step in steps:
                for source in dict.fromkeys(step.sources):
                    self._uses.setdefault(source, []).append((register, step))

    def joints(self) -> Iterator[int]:
        """The bits at which words are joined."""
        for register, steps in self._flow.steps.items():
            for step in steps:
                for at in self._joined(register, step):
                    if self._is_taken_apart(register, at):
                        yield at

    def products(self) -> Iterator[int]:
        """The constants by which words are joined and taken apart, where one of both numbers may be too large."""
        divided = self._divided
        for word, steps in self._flow.steps.items() if divided else ():
            for high, low, by in (part for step in steps for part in self._sums_of(step)):
                room = self._bits.many(word) - by.bit_length()
                fits = self._bits.many(low) < by.bit_length() and self._bits.many(high) <= room
                if by in divided and not fits and self._are_two(high, low) and self._is_divided(word, by):
                    yield by

    def _sums_of(self, step: Step) -> Iterator[tuple[str, str, int]]:
        """What an instruction multiplies by what constant, and adds what to."""
        if step.name.startswith(("mad.lo.", "mad.wide.")) and len(step.sources) == 3:
            yield from self._products_of(step, step.sources[2])
        elif step.name.startswith("add.") and len(step.sources) == 2:
            for product, low in (step.sources, step.sources[::-1]):
                for made in self._flow.steps.get(product, ()):
                    if made.name.startswith(("mul.lo.", "mul.wide.")):
                        yield from self._products_of(made, low)

    def _products_of(self, step: Step, low: str) -> Iterator[tuple[str, str, int]]:
        for high, factor in (step.sources[:2], step.sources[1::-1]):
            by = self._bits.constant(factor)
            if (
                by is not None
                and by >> _LEAST
                and by & by - 1
                and high.startswith("%")
                and low.startswith("%")
            ):
                yield high, low, by

    @cached_property
    def _divided(self) -> Mapping[int, frozenset[str]]:
        """By constant what a multiple of it is taken from: remainders, as the compiler makes them."""
        found: dict[int, set[str]] = {}
        for steps in self._flow.steps.values():
            for step in steps:
                name, sources = step.name, step.sources
                number = self._bits.constant(sources[1]) if len(sources) > 1 else None
                if name.startswith(("rem.", "div.")) and number:
                    found.setdefault(number, set()).add(sources[0])
                elif name.startswith("mad.lo.") and number and number < 0:
                    found.setdefault(-number, set()).add(sources[2])
                elif name.startswith("sub.") and len(sources) == 2:
                    for made in self._flow.steps.get(sources[1], ()):
                        by = self._bits.constant(made.sources[1]) if made.name.startswith("mul.lo.") else None
                        if by:
                            found.setdefault(by, set()).add(sources[0])
        return {by: frozenset(registers) for by, registers in found.items()}

    def _is_divided(self, word: str, by: int) -> bool:
        """Whether a word is chosen or exchanged before it is divided."""
        reached = list(self._reached(word))
        held = {word, *(register for register, _ in reached)}
        if held & self._kept:
            held |= self._loaded_again
        elif not any(_CHOOSES.match(step.name) for _, step in reached):
            return False
        return not held.isdisjoint(self._divided[by])

    def _joined(self, word: str, step: Step) -> Iterator[int]:
        """The bit that one number begins at above another one, where one of both may be too large."""
        for high, low, at, whole in self._joints_of(step):
            if not high.startswith("%") or not low.startswith("%") or at not in self._taken:
                continue
            if self._bits.zeros(low) >= at or not self._are_two(high, low):
                continue
            # a sum that goes round holds its own parts, too
            if not self._fits(low, at) or not whole or self._adds_up(word):
                yield at

    def _joints_of(self, step: Step) -> Iterator[tuple[str, str, int, bool]]:
        """What an instruction lays above what, at which bit, and whether all of the upper one is kept."""
        sources = step.sources
        if (joins := _JOINS.match(step.name)) is not None and len(sources) == 2:
            for high, low in (sources, sources[::-1]):
                if (at := self._bits.zeros(high)) < int(joins[1]):
                    yield high, low, at, self._is_whole(high)
        elif step.name.startswith("bfi.b") and len(sources) == 4:
            begin, many = (self._bits.constant(one) for one in sources[2:])
            if begin is not None and many is not None:
                yield sources[0], sources[1], begin, self._bits.many(sources[0]) <= many
        elif step.name == "prmt.b32" and len(sources) == 3:
            order = _HALVES.get(self._bits.constant(sources[2]) or 0)
            if order is not None:
                high, low = (sources[one] for one in order)
                yield high, low, 16, self._bits.many(high) <= 16

    def _are_two(self, high: str, low: str) -> bool:
        """Whether two numbers of the run's meet, of which one is loaded; a word that is turned is one."""
        ones = [
            {one, *(s for step in self._flow.steps.get(one, ()) for s in step.sources if s.startswith("%"))}
            for one in (high, low)
        ]
        if ones[0] & ones[1]:
            return False
        return {high, low} <= self._run_time and not {high, low}.isdisjoint(self._loaded)

    @cached_property
    def _loaded(self) -> set[str]:
        """What rests on memory, or on a float."""
        return self._resting(
            register
            for register, steps in self._flow.steps.items()
            if any(
                step.place or step.name.startswith(_HELD) or any(s.startswith("%f") for s in step.sources)
                for step in steps
            )
        )

    @cached_property
    def _run_time(self) -> set[str]:
        """What rests on memory, on a parameter or a thread's place, or is counted."""
        flow = self._flow
        led = {register for register in flow.steps if flow.leaves.get(register)}
        return self._loaded | self._resting(led | flow.counters)

    def _resting(self, on: Iterable[str]) -> set[str]:
        """These registers, and all that are made of them."""
        found = set(on)
        left = list(found)
        while left:
            more = {register for register, _ in self._uses.get(left.pop(), ())} - found
            found |= more
            left += more
        return found

    def _fits(self, low: str, at: int) -> bool:
        """Whether a number has no more bits, and was not cut to them."""
        cut = any(
            step.name.startswith("and.b")
            and any(self._bits.many(s) > self._bits.many(low) for s in step.sources if s.startswith("%"))
            for step in self._flow.steps.get(low, ())
        )
        # counters of 32 bits go round in 64
        return not cut and (at >= _WIDE or self._bits.many(low) <= at)

    def _is_whole(self, high: str) -> bool:
        """Whether nothing of a number was shifted out of the word, or cut off for the lower one."""
        for step in self._flow.steps.get(high, ()):
            source = step.sources[0] if step.sources else ""
            if step.name.startswith("shl.b"):
                by = self._bits.constant(step.sources[1])
                if by is None or self._bits.many(source) + by > int(step.name[5:7]):
                    return False
            elif step.name.startswith("and.b"):
                return False
        return True

    def _adds_up(self, word: str) -> bool:
        """Whether a word is added to others: over a loop, or over lanes."""
        return any(
            step.name.startswith(("add.", "redux.sync.add")) for _, step in self._reached(word, _ADDS_ON)
        )

    def _reached(self, word: str, by: re.Pattern[str] = _HANDS_ON) -> Iterator[tuple[str, Step]]:
        """What a word is handed on to, and by what."""
        seen, left = {word}, [word]
        while left and len(seen) < _FAR:
            for register, step in self._uses.get(left.pop(), ()):
                if not by.match(step.name):
                    continue
                yield register, step
                if register not in seen:
                    seen.add(register)
                    left.append(register)

    def _is_taken_apart(self, word: str, at: int) -> bool:
        """Whether a word is chosen, exchanged or added up, and its parts are taken again."""
        reached = list(self._reached(word))
        held = {word, *(register for register, _ in reached)}
        if held & self._kept:
            held |= self._loaded_again
        elif not any(_CHOOSES.match(step.name) for _, step in reached) and not self._turns(held):
            return False
        return any(self._takes(step) == at for one in held for _, step in self._uses.get(one, ()))

    def _turns(self, held: set[str]) -> bool:
        """Whether a loop hands one of these registers on to itself."""
        rounds = self._flow.round
        return any(
            rounds.get(source) == rounds[register]
            for register in held & rounds.keys()
            for step in self._flow.steps.get(register, ())
            for source in step.sources
        )

    @cached_property
    def _kept(self) -> frozenset[str]:
        """What is stored to shared memory, or goes into an atomic operation there."""
        operands = (found[1].partition("]")[2] for found in _KEPT.finditer(self._flow.body))
        return frozenset(register for one in operands for register in _REGISTER.findall(one))

    @cached_property
    def _loaded_again(self) -> frozenset[str]:
        """What is loaded from there."""
        return frozenset(
            register
            for register, steps in self._flow.steps.items()
            if any(step.name.startswith(("ld.shared", "ld.volatile.shared")) for step in steps)
        )

    @cached_property
    def _taken(self) -> frozenset[int]:
        """All bits at which the kernel takes words apart."""
        every = (step for steps in self._flow.steps.values() for step in steps)
        return frozenset(at for step in every if (at := self._takes(step)) >= _LEAST)

    def _takes(self, step: Step) -> int:
        """The bit at which an instruction takes the lower part of a word, or the upper one; 0 for none."""
        name = step.name
        number = (self._bits.constant(step.sources[1]) if len(step.sources) > 1 else None) or 0
        if name.startswith("and.b"):
            return number.bit_length() if number > 0 and not number & number + 1 else 0
        if name.startswith("shr."):
            return number
        if name.startswith("shl.b"):
            return int(name[5:7]) - number if number else 0
        if name.startswith("bfe."):
            return number or self._bits.constant(step.sources[2]) or 0
        return 16 if _HALF.match(name) else 0
