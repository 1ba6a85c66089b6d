# SPDX-License-Identifier: Apache-2.0
"""Which instructions of a kernel a register's value may come from: one that is made anew is no longer what it was (Aho
et al., Compilers, reaching definitions)."""

from __future__ import annotations

from collections.abc import Sequence

#: By register, the numbers of the instructions that it may come from.
Reach = dict[str, frozenset[int]]
#: The register that an instruction makes, and whether what it held before stays, or may.
Making = tuple[str, bool]


def reached(blocks: Sequence[Sequence[Making]], after: Sequence[Sequence[int]]) -> list[Reach]:
    """For each instruction, all numbered in the order of the text, where each register comes from that it may use.

    Args:
        blocks: what each basic block makes, in turn.
        after: by block, the numbers of those that may follow it.
    """
    begins = [sum(map(len, blocks[:number])) for number in range(len(blocks))]
    at: list[Reach] = [{} for _ in blocks]
    left = list(range(len(blocks)))
    while left:
        number = left.pop()
        out = dict(at[number])
        for n, one in enumerate(blocks[number], begins[number]):
            _make(out, one, n)
        for follower in after[number]:
            known = at[follower]
            joined = {r: known.get(r, frozenset()) | out.get(r, frozenset()) for r in {*known, *out}}
            if joined != known:
                at[follower] = joined
                left.append(follower)
    found = []
    for number, block in enumerate(blocks):
        now = dict(at[number])
        for n, one in enumerate(block, begins[number]):
            found.append(dict(now))
            _make(now, one, n)
    return found


def _make(known: Reach, one: Making, number: int) -> None:
    register, stays = one
    before = known.get(register, frozenset()) if stays else frozenset()
    known[register] = before | {number}
