# SPDX-License-Identifier: Apache-2.0
"""The basic blocks of a PTX function, with the source's places of their instructions, and the loops that they form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

#: File, line, column, and the calls through which it is inlined; an empty file for none.
Place = tuple[str, int, int, str]
_NOWHERE: Place = ("", 0, 0, "")
_LABEL = re.compile(r"^\s*([\w$]+):\s*(.*)$")
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(.*)$")
_BRANCH = re.compile(r"^\s*(@!?%\w+\s+)?(?:bra(?:\.uni)?|brx\.idx(?:\.uni)?)\s+(?:%\w+\s*,\s*)?([\w$]+)\s*;")
_ENDS = re.compile(r"^\s*(@!?%\w+\s+)?(?:ret|exit|trap)(?:\.uni)?\s*;")
_TARGETS = re.compile(r"^\s*([\w$]+):\s*\.branchtargets\s+([^;]+);", re.MULTILINE)
#: Of more blocks no loops are looked for: who dominates whom takes their square in time and memory.
_MOST_BLOCKS = 1500
_CODE = re.compile(r"^\s*(?:@!?%\w+\s+)?[a-z]")
_COMMENT = re.compile(r"//.*")


class Block(msgspec.Struct):
    """Instructions that run one after the other."""

    #: The line of the body before which the first one stands, and that of the last.
    first: int
    last: int = -1
    #: Lines of instructions, each with its place.
    instructions: list[tuple[int, Place]] = []
    labels: list[str] = []
    #: Names that it may branch to, and whether the next block may follow.
    targets: list[str] = []
    falls: bool = True

    @property
    def places(self) -> set[Place]:
        """Of all its instructions."""
        return {place for _, place in self.instructions}

    @property
    def place_of_last(self) -> Place:
        """Of the instruction that it ends with."""
        return self.instructions[-1][1] if self.instructions else _NOWHERE


def blocks_of(body: str, files: Mapping[str, str]) -> list[Block]:
    """The blocks of a function's body, in text order; one with no instruction is none."""
    tables = {name: [t.strip() for t in listed.split(",")] for name, listed in _TARGETS.findall(body)}
    found: list[Block] = []
    waiting: list[str] = []
    place, open_block, inside = _NOWHERE, False, False
    for number, raw in enumerate(body.split("\n")):
        line = _COMMENT.sub("", raw)
        if (loc := _LOC.match(line)) is not None:
            file = files.get(loc[1], "") if loc[2] != "0" else ""
            place = (file, int(loc[2]), int(loc[3]), loc[4].partition("inlined_at")[2].strip())
            continue
        label = _LABEL.match(line)
        if label is not None:
            if not label[2]:
                waiting.append(label[1])
                open_block = False
            continue
        if inside or not _CODE.match(line):
            # an instruction of several lines, as a call is, goes on
            inside = inside and ";" not in line
            continue
        inside = ";" not in line
        if not open_block:
            found.append(Block(number, labels=waiting))
            waiting, open_block = [], True
        block = found[-1]
        block.last = number
        block.instructions.append((number, place))
        if (branch := _BRANCH.match(line)) is not None:
            block.targets += tables.get(branch[2], [branch[2]])
            block.falls, open_block = branch[1] is not None, False
        elif (ends := _ENDS.match(line)) is not None:
            block.falls, open_block = ends[1] is not None, False
    return found


def after_each(blocks: Sequence[Block]) -> list[list[int]]:
    """By block, the numbers of those that may follow it."""
    place = {label: number for number, block in enumerate(blocks) for label in block.labels}
    return [
        [
            *(place[t] for t in block.targets if t in place),
            *([n + 1] if block.falls and n + 1 < len(blocks) else []),
        ]
        for n, block in enumerate(blocks)
    ]


def only_by(after: Sequence[Sequence[int]], number: int, target: int) -> set[int]:
    """The blocks that nothing leads to from the first one but the way from a block to one of those after it."""
    reached, left = {0}, [0]
    while left:
        here = left.pop()
        more = {n for n in after[here] if (here, n) != (number, target)} - reached
        reached |= more
        left += more
    return set(range(len(after))) - reached


def loops_of(blocks: Sequence[Block]) -> list[tuple[int, int, int]]:
    """The branches back to a block that every way there leads through: the branching block, the head, and the number of
    instructions from head to branch."""
    if len(blocks) > _MOST_BLOCKS:
        return []
    place = {label: number for number, block in enumerate(blocks) for label in block.labels}
    dominated = _dominators(after_each(blocks))
    found = []
    for number, block in enumerate(blocks):
        for head in dict.fromkeys(place[t] for t in block.targets if t in place):
            if head in dominated[number]:
                low, high = min(head, number), max(head, number)
                found.append((number, head, sum(len(b.instructions) for b in blocks[low : high + 1])))
    return found


def _dominators(after: Sequence[Sequence[int]]) -> list[set[int]]:
    """By block, those that every way from the first one leads through (Aho et al., Compilers, algorithm 9.38)."""
    everything = set(range(len(after)))
    before: list[list[int]] = [[] for _ in after]
    for number, targets in enumerate(after):
        for target in targets:
            before[target].append(number)
    found = [set(everything) for _ in after]
    if found:
        found[0] = {0}
    changed = True
    while changed:
        changed = False
        for number in range(1, len(after)):
            ways = [found[b] for b in before[number]]
            now = {number} | (set.intersection(*ways) if ways else set())
            if now != found[number]:
                found[number], changed = now, True
    return found
