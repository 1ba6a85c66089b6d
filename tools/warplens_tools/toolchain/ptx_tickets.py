# SPDX-License-Identifier: Apache-2.0
"""What blocks leave for the one that comes last, by PTX: it is written, then a fence, then a number drawn by an atomic
operation; who draws the last one reads what all others have left.

What is written behind the draw, or without a fence before it, may not be there when it is read. Most runs show nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_ends import loops_in
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_order import GLOBAL, NAME, PLACE, meets

_FENCE = re.compile(
    r"(?:membar\.(?:gl|sys)|fence(?:\.\w+)*\.(?:gpu|sys)|barrier\.cluster|(?:atom|red)(?:\.\w+)*\.acq_rel)\b"
)
_RELEASE = re.compile(r"(?:atom|red)(?:\.\w+)*\.release\b")
_ACQUIRE = re.compile(r"atom(?:\.\w+)*\.acquire\b")


class Tickets(msgspec.Struct, frozen=True):
    """Of one kernel that draws numbers, pointers among its parameters by number, behind which it writes and reads."""

    left: frozenset[str] = frozenset()
    #: Written with no fence before a draw, written behind one, and read with no fence after one.
    early: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    unfenced: frozenset[str] = frozenset()


def tickets_in(ptx: str) -> dict[str, Tickets]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def out_of_turn(baseline: Mapping[str, Tickets], candidate: Mapping[str, Tickets]) -> str:
    """What a candidate's blocks leave for others out of turn, that the baseline's do not; "" if nothing is known to be
    so."""
    for name, new in candidate.items():
        known = baseline.get(name, Tickets())
        for lost, said in (
            (
                new.early - known.early,
                "has no fence between what it writes {} and the number that it draws then",
            ),
            (new.late - known.late, "writes {} after it has drawn its number, the kernel before"),
            (
                new.unfenced - known.unfenced,
                "has no fence between the number that it draws and what it reads {}",
            ),
        ):
            if lost & known.left:
                where = f"behind parameter {int(min(lost & known.left, key=int)) + 1}"
                return f"the edit {said.format(where)}"
    return ""


def _of(flow: Flow) -> Tickets:
    does: dict[str, set[str]] = {"ld": set(), "st": set(), "atom": set(), "red": set()}
    for name, place in flow.accessed:
        if (found := GLOBAL.match(name)) is not None:
            does[found[1]] |= flow.bases(place)
    left = does["ld"] & does["st"] - does["atom"] - does["red"]
    if not left or not does["atom"]:
        return Tickets()
    found_in = {base: [[*_events(flow, block, base)] for block in flow.code] for base in left}

    def where(first: str, then: str, between: str) -> frozenset[str]:
        return frozenset(base for base in left if meets(found_in[base], flow.after, first, then, between))

    waits = any(loop.open_ended for loop in loops_in(flow.body))
    return Tickets(
        frozenset(left),
        where("written", "drawn", "released"),
        where("drawn", "written", ""),
        # who waits for flags looks at them first (`ptx_order.py`)
        frozenset() if waits else where("drawn", "read", "acquired"),
    )


def _events(flow: Flow, lines: Sequence[str], base: str) -> Iterator[str]:
    for line in lines:
        name = found[1] if (found := NAME.match(line)) is not None else ""
        if _FENCE.match(name):
            yield from ("released", "acquired")
        if (access := GLOBAL.match(name)) is None or (place := PLACE.search(line)) is None:
            continue
        if access[1] == "atom":
            yield from ("released", "drawn") if _RELEASE.match(name) else ("drawn",)
            if _ACQUIRE.match(name) or _FENCE.match(name):
                yield "acquired"
        elif base in flow.bases(place[1]):
            yield "written" if access[1] == "st" else "read"
