# SPDX-License-Identifier: Apache-2.0
"""Which blocks of a kernel lie between which: what following a register through SASS needs of its flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import Block
from warplens_tools.sass.flow import Flow, Loop, reverse_postorder

#: Branches to an address that is computed: what they reach is not known.
_INDIRECT = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
#: Bytes of one instruction (all architectures since sm_70).
_STEP = 16


class Paths:
    """Blocks with their order and neighbours; the block after the last stands for the kernel's end."""

    def __init__(
        self, instructions: Sequence[Instruction], blocks: Sequence[Block], loops: Sequence[Loop]
    ) -> None:
        self._code = instructions
        self.blocks = blocks
        self.loops = {loop.header: loop for loop in loops}
        self.successors = [b.successors for b in blocks]
        self.order = reverse_postorder(blocks)
        self._rank = {b: n for n, b in enumerate(self.order)}
        self.predecessors: list[list[int]] = [[] for _ in blocks]
        for b in self.order:
            for s in self.successors[b]:
                self.predecessors[s].append(b)
        self._closest = _postdominators(self.successors, self.order)
        self._influenced: dict[int, frozenset[int]] = {}

    def instructions(self, b: int) -> range:
        """Indices of a block's instructions."""
        return range(self.blocks[b].first, self.blocks[b].last + 1)

    def is_back(self, p: int, b: int) -> bool:
        """Whether the edge closes a loop."""
        return b in self.loops and p in self.loops[b].blocks

    @property
    def reducible(self) -> bool:
        """Whether every edge against the order closes a loop."""
        return all(
            self._rank[p] < self._rank[b] or self.is_back(p, b)
            for b in self.order
            for p in self.predecessors[b]
        )

    def influenced(self, b: int) -> frozenset[int]:
        """Blocks in which lanes meet that took different ways at the end of `b`."""
        found = self._influenced.get(b)
        if found is None:
            end = self._closest.get(b)
            ways = [self._until(s, end) for s in self.successors[b]]
            twice = {x for n, way in enumerate(ways) for other in ways[n + 1 :] for x in way & other}
            found = frozenset(twice | ({end} if end is not None and end < len(self.blocks) else set()))
            self._influenced[b] = found
        return found

    def region(self, b: int) -> set[int]:
        """Blocks between the end of `b` and where its ways are all together again."""
        return {x for s in self.successors[b] for x in self._until(s, self._closest.get(b))}

    def reachable(self, b: int) -> set[int]:
        """Blocks that may come after `b` or be it."""
        return {b} | {x for s in self.successors[b] for x in self._until(s, None)}

    def _until(self, start: int, end: int | None) -> set[int]:
        found: set[int] = set()
        work = [start]
        while work:
            at = work.pop()
            if at != end and at not in found:
                found.add(at)
                work.extend(self.successors[at])
        return found

    def clobbered(self, i: int, written: Callable[[Instruction], list[str]]) -> set[str] | None:
        """Registers that a call may change: those of all code from its target on, as helpers stand last.

        None where it leaves the function: all of them.
        """
        target = self._code[i].target
        if target is None:
            return None
        return {name for x in self._code if x.address >= target for name in written(x)}


def paths_of(instructions: Sequence[Instruction], flow: Flow) -> Paths | str:
    """The paths of one kernel, or why its registers cannot be followed."""
    if any(x.opcode in _INDIRECT for x in instructions):
        return "the kernel branches to computed addresses"
    waits: dict[str, set[int]] = {}
    for x in instructions:
        if x.opcode == "BSSY" and x.target is not None and x.operands:
            waits.setdefault(x.operands[0], set()).add(x.target)
    for x in instructions:
        after = x.address + _STEP
        if x.opcode == "BSYNC" and after not in waits.get(x.operands[0] if x.operands else "", {after}):
            return "lanes that wait for each other go on elsewhere"
        if x.opcode == "WARPSYNC" and x.target is not None and x.target != after:
            return "lanes that wait for each other go on elsewhere"
    paths = Paths(instructions, flow.blocks, (*flow.loops, *flow.rare_loops))
    return paths if paths.reducible else "the kernel enters a loop at several places"


def _postdominators(successors: Sequence[Sequence[int]], order: Sequence[int]) -> dict[int, int]:
    """The first block that every way from a block passes; `len(successors)` where that is the kernel's end.

    Blocks that reach no end (endless loops) are absent.
    """
    end = len(successors)
    after: dict[int, set[int]] = {end: {end}}
    everything = {*order, end}
    after |= {b: set(everything) for b in order}
    changed = True
    while changed:
        changed = False
        for b in reversed(order):
            following = successors[b] or (end,)
            new = {b} | set.intersection(*(after[s] for s in following))
            if new != after[b]:
                after[b] = new
                changed = True
    # the closest of them is passed before all others: it has the most after it
    ending = _ending(successors, order)
    return {b: max(after[b] - {b}, key=lambda x: len(after[x])) for b in order if b in ending}


def _ending(successors: Sequence[Sequence[int]], order: Sequence[int]) -> set[int]:
    """Blocks from which the kernel's end can be reached."""
    found: set[int] = set()
    grew = True
    while grew:
        new = {b for b in order if b not in found and (not successors[b] or found & set(successors[b]))}
        grew = bool(new)
        found |= new
    return found
