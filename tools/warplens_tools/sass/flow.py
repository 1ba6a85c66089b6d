# SPDX-License-Identifier: Apache-2.0
"""Basic blocks and natural loops of one kernel's SASS."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import Block, basic_blocks
from warplens_tools.sass.slow_paths import rare_routines, slow_starts

#: Instructions of the compiler's retry loop at most: load, add, swap, compare, branch, and reconvergence.
_RETRY = 16


class Loop(msgspec.Struct, frozen=True):
    """A natural loop: its header block, its blocks, and how many loops it stands in, itself counted."""

    header: int
    blocks: frozenset[int]
    depth: int


class Flow(msgspec.Struct, frozen=True):
    """Control flow of one kernel. `depths[i]` is the number of loops instruction i stands in, 0 for the rare."""

    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]
    depths: tuple[int, ...]
    #: Instructions of the compiler's own slow paths, which ordinary operands never take (`sass.slow_paths`).
    rare: frozenset[int] = frozenset()
    #: The loops inside them.
    rare_loops: tuple[Loop, ...] = ()

    def instructions_of(self, loop: Loop) -> list[int]:
        """Indices of the loop's instructions without the rare, ascending."""
        return [
            i
            for b in sorted(loop.blocks)
            for i in range(self.blocks[b].first, self.blocks[b].last + 1)
            if i not in self.rare
        ]  # fmt: skip

    @property
    def innermost_loops(self) -> list[Loop]:
        """Every loop that holds no other, in address order."""
        return [x for x in self.loops if not any(y is not x and y.blocks < x.blocks for y in self.loops)]

    def innermost(self, index: int) -> Loop | None:
        """The deepest loop an instruction stands in."""
        block = next((b for b, x in enumerate(self.blocks) if x.first <= index <= x.last), None)
        inside = [loop for loop in self.loops if block in loop.blocks]
        return max(inside, key=lambda loop: loop.depth, default=None)


def analyse(instructions: Sequence[Instruction]) -> Flow:
    """Blocks, loops and nesting of one kernel; an empty kernel gives an empty flow.

    Indirect branches (BRX) get no successors: code reached only through them counts as outside loops.
    """
    blocks = basic_blocks(instructions)
    dominators = _dominators(blocks)
    starts = slow_starts(instructions, blocks)
    slow = {b for b in range(len(blocks)) if any(_dominates(dominators, s, b) for s in starts)}
    slow |= rare_routines(instructions, blocks, slow)
    found = {
        h: b for h, b in _natural_loops(blocks, dominators).items() if not _is_retry(instructions, blocks, b)
    }
    loops = _nest({h: b for h, b in found.items() if not b <= slow})
    rare_loops = _nest({h: b for h, b in found.items() if b <= slow})
    rare = frozenset(i for b in slow for i in range(blocks[b].first, blocks[b].last + 1))
    depths = [0] * len(instructions)
    for loop in loops:
        for b in loop.blocks - slow:
            for i in range(blocks[b].first, blocks[b].last + 1):
                depths[i] = max(depths[i], loop.depth)
    return Flow(tuple(blocks), tuple(loops), tuple(depths), rare, tuple(rare_loops))


def _is_retry(instructions: Sequence[Instruction], blocks: Sequence[Block], body: set[int]) -> bool:
    """Whether the loop is the compiler's own around a compare-and-swap of shared memory: it counts no trips.

    That is how `atomicAdd` of a float becomes instructions. A loop that is itself around such a loop has more blocks.
    """
    inside = [instructions[i] for b in body for i in range(blocks[b].first, blocks[b].last + 1)]
    return len(inside) <= _RETRY and any(x.opcode == "ATOMS" and "CAST" in x.modifiers for x in inside)


def _natural_loops(blocks: Sequence[Block], dominators: Sequence[int | None]) -> dict[int, set[int]]:
    """Header to blocks, loops of one header merged: a back edge goes to a block that dominates it."""
    # What no path reaches (the padding after a kernel is a branch to itself) is in no loop.
    reached = [b for b, dominator in enumerate(dominators) if dominator is not None]
    predecessors: list[list[int]] = [[] for _ in blocks]
    for b in reached:
        for s in blocks[b].successors:
            predecessors[s].append(b)
    loops: dict[int, set[int]] = {}
    for b in reached:
        for header in blocks[b].successors:
            if not _dominates(dominators, header, b):
                continue
            body = loops.setdefault(header, {header})
            work = [b]
            while work:
                at = work.pop()
                if at not in body:
                    body.add(at)
                    work.extend(predecessors[at])
    return loops


def _nest(loops: dict[int, set[int]]) -> list[Loop]:
    return [
        Loop(header, frozenset(body), sum(1 for other in loops.values() if body <= other))
        for header, body in sorted(loops.items())
    ]


def _dominators(blocks: Sequence[Block]) -> list[int | None]:
    """Immediate dominators (Cooper, Harvey and Kennedy); None for blocks no path from the entry reaches."""
    order = reverse_postorder(blocks)
    rank = {b: r for r, b in enumerate(order)}
    predecessors: list[list[int]] = [[] for _ in blocks]
    for b in order:
        for s in blocks[b].successors:
            predecessors[s].append(b)
    idom: list[int | None] = [None] * len(blocks)
    if order:
        idom[order[0]] = order[0]
    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            known = [p for p in predecessors[b] if idom[p] is not None]
            new = known[0]
            for p in known[1:]:
                new = _meet(idom, rank, p, new)
            if idom[b] != new:
                idom[b] = new
                changed = True
    return idom


def _meet(idom: Sequence[int | None], rank: dict[int, int], a: int, b: int) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = _parent(idom, a)
        while rank[b] > rank[a]:
            b = _parent(idom, b)
    return a


def _parent(idom: Sequence[int | None], block: int) -> int:
    parent = idom[block]
    assert parent is not None, "a ranked block is reachable"
    return parent


def _dominates(idom: Sequence[int | None], a: int, b: int) -> bool:
    while True:
        if a == b:
            return True
        parent = idom[b]
        if parent is None or parent == b:
            return False
        b = parent


def reverse_postorder(blocks: Sequence[Block]) -> list[int]:
    """Blocks that a path from the first reaches, each before those it leads to, back edges aside."""
    if not blocks:
        return []
    seen = {0}
    postorder: list[int] = []
    stack = [(0, iter(blocks[0].successors))]
    while stack:
        block, successors = stack[-1]
        step = next((s for s in successors if s not in seen), None)
        if step is None:
            postorder.append(block)
            stack.pop()
        else:
            seen.add(step)
            stack.append((step, iter(blocks[step].successors)))
    return postorder[::-1]
