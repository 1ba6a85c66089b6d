# SPDX-License-Identifier: Apache-2.0
"""Lanes that are taken for alike by a digest, by PTX: one of those that `match` puts together does for all of them what
it has, and they differ where only a hash of it is matched.

Of a warp's 32 numbers two share 31 bits of a hash once in millions of warps, so that no run shows it. What lanes do
each for themselves may rest on more than what is matched; what one does for others may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from warplens_tools.toolchain.ptx_blocks import only_by
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, instruction_of

_MATCHES = re.compile(r"match\.(?:any|all)\.sync\.b(?:32|64)\Z")
#: What another number has another result of: products with odd numbers are told by their factor.
_KEEPS = re.compile(r"(?:mov|add|sub|neg|not|xor|cvt\.[su]64|cvt\.[su]32\.[su](?:8|16|32)|or|shl)\b")
_ODD = re.compile(r"-?\d*[13579]\Z")
_EFFECTS = ("atom", "red.", "st.")
#: What is of several lanes, or of what lies in memory.
_OF_OTHERS = ("shfl", "redux", "match", "vote", "activemask", "ld.", "ldu.", "atom")
_REGISTER = re.compile(r"%(?:rd|rs|r|f|fd|p)\d+")
_GUARD = re.compile(r"@!?(%p\d+)\s")
#: What numbers threads, which no digest is of.
_PLACES = re.compile(r"%(?:tid|ntid|ctaid|nctaid|laneid)\b")

#: What takes a part of a number.
_PARTS = re.compile(r"(?:shr|and|bfe|cvt\.[su](?:8|16|32)\.[su]64|cvt\.[su](?:8|16)\.)")

_Made = dict[str, list[tuple[str, tuple[str, ...]]]]


class _Effects(NamedTuple):
    """The registers that memory is changed by, and those of where it is."""

    given: list[str]
    places: list[str]


def mates_in(ptx: str) -> frozenset[str]:
    """The kernels in which one lane does for all that share a digest what it has itself, by the names that they have
    whatever the unit."""
    return frozenset(name for name, by in by_kernel(ptx, _by_digests).items() if by)


def by_mates(baseline: frozenset[str], candidate: frozenset[str]) -> str:
    """Why lanes of a candidate may do one another's work wrongly; "" if nothing says so."""
    if candidate - baseline:
        return "the edit has one lane do the work of all that share a digest of it with that lane"
    return ""


def _by_digests(flow: Flow) -> bool:
    if "match." not in flow.body:
        return False
    made: _Made = {}
    matched: dict[str, str] = {}
    for line in (line for block in flow.code for line in block):
        found = instruction_of(line)
        if found is None or not found[1]:
            continue
        name, operands = found
        if name.startswith(("st.", "red.", "bra", "ret", "bar.")):
            continue
        for register in _REGISTER.findall(operands[0]):
            made.setdefault(register, []).append((name, tuple(operands[1:])))
        if _MATCHES.match(name):
            matched[_REGISTER.findall(operands[0])[0]] = operands[1]
    chosen = _effects_of_one(flow, made, set(matched))
    return any(_is_digest(made, key, chosen) for key in matched.values())


def _is_digest(made: _Made, key: str, effects: _Effects) -> bool:
    """Whether what one lane does rests on what a key is made of beside the key itself. Where it does it may go by a
    part of that once more: the compiler joins shifts."""
    behind = _behind(made, {key}, stop=set()) - _behind(made, {key}, stop=set(), keeps=True)
    behind = {one for one in behind if not _is_place(made, one)}
    if not behind:
        return False
    parts = {r for r, steps in made.items() if any(_PARTS.match(name) for name, _ in steps)}
    places = _behind(made, set(effects.places), stop={key, *parts})
    return not behind.isdisjoint(places | _behind(made, set(effects.given), stop={key}))


def _behind(made: _Made, start: set[str], *, stop: set[str], keeps: bool = False) -> set[str]:
    """All registers that some are made of, but for what is of other lanes or of memory; `keeps`: by what loses
    nothing alone."""
    seen, left = set(start) - stop, list(start - stop)
    while left:
        for name, operands in made.get(left.pop(), ()):
            if name.startswith(_OF_OTHERS) or (keeps and not _loses_nothing(name, operands)):
                continue
            more = (
                {r for operand in operands for r in _REGISTER.findall(operand) if r[1] != "p"} - seen - stop
            )
            seen |= more
            left += more
    return seen


def _loses_nothing(name: str, operands: tuple[str, ...]) -> bool:
    if name.startswith("mul.lo") and len(operands) == 2:
        return any(_ODD.match(one) for one in operands)
    return _KEEPS.match(name) is not None


def _is_place(made: _Made, register: str) -> bool:
    """Whether a number is one of a thread's own: where it is."""
    behind = _behind(made, {register}, stop=set())
    return any(_PLACES.match(o) for one in behind for _, operands in made.get(one, ()) for o in operands)


def _effects_of_one(flow: Flow, made: _Made, mates: set[str]) -> _Effects:
    """What goes into stores and atomic operations that some lanes alone do, as the match decides."""
    rests = mates | {
        register
        for register, steps in made.items()
        if any(_reaches(made, operand, mates) for _, operands in steps for operand in operands)
    }
    ruled = set().union(*_ruled_blocks(flow, rests))
    found = _Effects([], [])
    for number, block in enumerate(flow.code):
        for line in block:
            one = instruction_of(line)
            guard = _GUARD.search(line)
            if one is None or not one[0].startswith(_EFFECTS):
                continue
            if number in ruled or (guard is not None and guard[1] in rests):
                for operand in one[1] if one[0].startswith(("st.", "red.")) else one[1][1:]:
                    registers = [r for r in _REGISTER.findall(operand) if r[1] != "p"]
                    (found.places if "[" in operand else found.given).extend(registers)
    return found


def _reaches(made: _Made, operand: str, mates: set[str]) -> bool:
    seen, left = set[str](), _REGISTER.findall(operand)
    while left:
        one = left.pop()
        if one in mates:
            return True
        for _, operands in made.get(one, ()):
            more = {r for other in operands for r in _REGISTER.findall(other)} - seen
            seen |= more
            left += more
    return False


def _ruled_blocks(flow: Flow, rests: set[str]) -> Iterator[set[int]]:
    """The blocks that only one way out of a branch leads to which a match decides."""
    for number, block in enumerate(flow.code):
        guard = _GUARD.search(block[-1]) if block else None
        if guard is None or guard[1] not in rests:
            continue
        for target in flow.after[number]:
            yield only_by(flow.after, number, target)
