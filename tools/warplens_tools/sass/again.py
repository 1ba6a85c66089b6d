# SPDX-License-Identifier: Apache-2.0
"""Global loads of one thread from an address that it loaded from or stored to before: the compiler keeps what it had in
a register, unless a store stands between that might have changed it."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from warplens_tools.sass.flow import Flow
from warplens_tools.sass.listing import Sass

#: Loads of a kernel from which it is looked at: following addresses takes longer than all else.
_FEWEST = 4


def loaded_again(sass: Sass) -> tuple[int, ...]:
    """Indices of the loads whose address an access before them has, a store between them and no barrier, in the same
    iteration of every loop; those that are told to be volatile are left out."""
    code, flow = sass.instructions, sass.flow
    loads = sass.where(lambda x: x.opcode == "LDG" and "STRONG" not in x.modifiers)
    if len(loads) < _FEWEST or not sass.where(lambda x: x.opcode == "STG"):
        return ()
    groups: dict[tuple[str, int], list[int]] = {}
    for p in sass.patterns:
        plain = p.space == "global" and code[p.index].opcode in ("LDG", "STG") and p.index not in flow.rare
        if plain and "c[" in p.form:
            groups.setdefault((p.form, p.width), []).append(p.index)
    wanted = set(loads)
    barriers = sass.where(lambda x: x.opcode in ("BAR", "MEMBAR", "WARPSYNC"))
    stores = sass.where(lambda x: x.opcode in ("STG", "ST", "ATOMG", "RED", "ATOM"))
    found = []
    for own in groups.values():
        for later in own[1:]:
            before = [i for i in own if i < later and _is_between(stores, i, later)]
            before = [i for i in before if not _is_between(barriers, i, later)]
            if later in wanted and any(_leads_to(flow, i, later) for i in reversed(before)):
                found.append(later)
    return tuple(sorted(found))


def _is_between(indices: Sequence[int], start: int, end: int) -> bool:
    return bisect.bisect_right(indices, start) < bisect.bisect_left(indices, end)


def _leads_to(flow: Flow, start: int, end: int) -> bool:
    """Whether code goes on from one instruction to a later one within one iteration of the loop both stand in."""
    loop = flow.innermost(start)
    if loop is not flow.innermost(end):
        return False
    at, goal = (next(b for b, x in enumerate(flow.blocks) if x.first <= i <= x.last) for i in (start, end))
    seen, work = {at}, [at]
    while work:
        block = work.pop()
        if block == goal:
            return True
        for following in flow.blocks[block].successors:
            inside = loop is None or (following in loop.blocks and following != loop.header)
            if inside and following not in seen:
                seen.add(following)
                work.append(following)
    return False
