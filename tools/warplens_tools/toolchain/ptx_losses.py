# SPDX-License-Identifier: Apache-2.0
"""Sums that carry along what each addition loses (Kahan 1965, Neumaier 1974, two-sum), by a kernel's PTX.

Of s = a + b, s - a is what b came to, and b less that is what was lost: nothing, but for rounding. No plain sum works
that out. Two sums beside one another and their difference are none: what is taken off has to be the very number that
was added to, told by the instructions that it comes from and by its sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from warplens_tools.toolchain.ptx_blocks import after_each, blocks_of
from warplens_tools.toolchain.ptx_flow import COMMENT, components, instruction_of
from warplens_tools.toolchain.ptx_reached import reached

_ADDS = re.compile(r"(add|sub)(?:\.(?:rn|ftz))*\.(f32|f64)")
_MOVES = re.compile(r"(mov|selp|neg|abs)(?:\.ftz)?\.[fb](?:32|64)")
_SETS_NOTHING = ("st.", "red.", "bra", "ret", "bar", "setp", "call", "prefetch")
_REGISTER = re.compile(r"%\w+")
#: How far moves and choices between registers are followed.
_FAR = 4

#: A number as it goes into a sum: where it comes from, and its sign.
_Term = tuple[str, int]
_Side = frozenset[_Term]


class _Addition(NamedTuple):
    """One addition: its format, and what either side may be."""

    kind: str
    left: _Side
    right: _Side

    @property
    def ways(self) -> tuple[tuple[_Side, _Side], tuple[_Side, _Side]]:
        """Its sides, either of them first."""
        return (self.left, self.right), (self.right, self.left)


_Additions = Mapping[str, _Addition]


class _Line(NamedTuple):
    """One instruction, and whether it is carried out under a condition."""

    name: str
    parts: list[str]
    guarded: bool


def carried_along(body: str) -> set[str]:
    """The formats in which a kernel works out what its sums lose. Only of sums that go round in a loop: the math
    library's own functions carry what two or three terms lose."""
    code = _Code(body)
    blocks = [list(_instructions(lines)) for lines in code.lines]
    # by registers alone, which is quick, and says yes too often
    if not _losing(_by_registers(one for block in blocks for one in block)):
        return set()
    return _losing(_by_instructions(blocks, code.after))


class _Code:
    """A body's basic blocks, as lines, and which follows which."""

    def __init__(self, body: str) -> None:
        text = COMMENT.sub(" ", body)
        blocks, lines = blocks_of(text, {}), text.split("\n")
        self.lines = [[lines[number] for number, _ in block.instructions] for block in blocks]
        self.after = after_each(blocks)


def _instructions(lines: Iterable[str]) -> Iterator[_Line]:
    for line in lines:
        if (found := instruction_of(line)) is not None:
            yield _Line(*found, line.lstrip().startswith("@"))


def _losing(additions: _Additions) -> set[str]:
    round_ = {
        one
        for part in components(
            {
                to: [v for side in (a.left, a.right) for v, _ in side if v in additions]
                for to, a in additions.items()
            }
        )
        if len(part) > 1 or part[0] in {v for v, _ in additions[part[0]].left | additions[part[0]].right}
        for one in part
    }
    return {
        last.kind
        for to, last in additions.items()
        for z_side, added in last.ways
        for z, sign in z_side
        if z != to and z in additions and _loses(z, sign, added, last.kind, additions, round_)
    }


def _loses(z: str, sign: int, added: _Side, kind: str, additions: _Additions, sums: set[str]) -> bool:
    """Whether `z` is a sum less the one of its terms, and `added` the other: all that is left is what was lost."""
    for s_side, taken in additions[z].ways:
        for s, of in s_side:
            if s == z or s not in sums or additions[s].kind != kind:
                continue
            for a, b in additions[s].ways:
                if _cancels(a, of, taken) and _cancels(b, sign * of, added):
                    return True
    return False


def _cancels(terms: _Side, times: int, others: _Side) -> bool:
    return any((value, -times * sign) in others for value, sign in terms)


def _by_registers(lines: Iterable[_Line]) -> _Additions:
    """Whatever a register may hold at any time, with either sign."""
    moved: dict[str, set[str]] = {}
    written: list[tuple[str, str, str, str]] = []
    for name, parts, _ in lines:
        if _MOVES.fullmatch(name):
            moved.setdefault(parts[0], set()).update(_sources(name, parts))
        elif (adds := _ADDS.fullmatch(name)) is not None:
            written.append((adds[2], parts[0], parts[1], parts[2]))
    alike = {to: {to} for to in moved}
    for _ in range(_FAR):
        for held in alike.values():
            held |= set().union(*(moved.get(one, set()) for one in held))
    made: dict[str, set[str]] = {}
    for number, (_, to, *_) in enumerate(written):
        made.setdefault(to, set()).add(str(number))

    def side(operand: str) -> _Side:
        values = {value for one in alike.get(operand, {operand}) for value in made.get(one, {one})}
        return frozenset((value, sign) for value in values for sign in (1, -1))

    return {str(n): _Addition(kind, side(a), side(b)) for n, (kind, _, a, b) in enumerate(written)}


def _sources(name: str, parts: list[str]) -> list[str]:
    return [one for one in parts[1 : 3 if name.startswith("selp") else 2] if _REGISTER.fullmatch(one)]


def _by_instructions(blocks: list[list[_Line]], after: list[list[int]]) -> _Additions:
    """Each number by the instruction that it comes from, through moves and choices."""
    wanted = _wanted([one for block in blocks for one in block])
    made: list[_Line] = []
    making: list[list[tuple[str, bool]]] = []
    for block in blocks:
        making.append([])
        for one in block:
            if not one.parts or one.name.startswith(_SETS_NOTHING):
                continue
            for register in _REGISTER.findall(one.parts[0]):
                if register in wanted:
                    making[-1].append((register, one.guarded))
                    made.append(one)
    come_from = reached(making, after)

    def side(number: int, operand: str, sign: int) -> _Side:
        seen: set[tuple[int, int]] = set()
        left = [(n, sign) for n in come_from[number].get(operand, ())]
        while left:
            at, now = left.pop()
            if (at, now) in seen:
                continue
            seen.add((at, now))
            one = made[at]
            if _MOVES.fullmatch(one.name):
                now = -now if one.name.startswith("neg") else now
                left += [
                    (n, now)
                    for source in _sources(one.name, one.parts)
                    for n in come_from[at].get(source, ())
                ]
        return frozenset((str(at), now) for at, now in seen if not _MOVES.fullmatch(made[at].name))

    found = {}
    for number, one in enumerate(made):
        if (adds := _ADDS.fullmatch(one.name)) is not None:
            taken = -1 if adds[1] == "sub" else 1
            found[str(number)] = _Addition(
                adds[2], side(number, one.parts[1], 1), side(number, one.parts[2], taken)
            )
    return found


def _wanted(lines: list[_Line]) -> set[str]:
    """The registers of additions, and those that are moved there."""
    moved: dict[str, list[str]] = {}
    left: list[str] = []
    for name, parts, _ in lines:
        if _MOVES.fullmatch(name):
            moved.setdefault(parts[0], []).extend(_sources(name, parts))
        elif _ADDS.fullmatch(name):
            left += [part for part in parts if _REGISTER.fullmatch(part)]
    found = set(left)
    while left:
        more = set(moved.get(left.pop(), ())) - found
        found |= more
        left += more
    return found
