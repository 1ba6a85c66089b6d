# SPDX-License-Identifier: Apache-2.0
"""How far apart a kernel reads and writes within one memory, by PTX: a copy of what lies `distance` bytes before
repeats it where the distance is shorter than what is copied.

A loaded number that leads into memory which the kernel both reads and writes, and that it asks for, is asked for in the
edit too: compared, divided by, or a remainder taken of. What a run's own numbers never are shows nothing there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel

_LOAD = re.compile(
    r"\bld\.global(?:\.\w+)*\.[bus](?:8|16|32|64)\s+([^;\[]*),\s*\[(%rd\d+)(?:\+(-?\d+))?\]\s*;"
)
_ASKS = re.compile(r"\b(?:setp(?:\.\w+)*|(?:min|max|div|rem)(?:\.\w+)*\.[us](?:16|32|64))\s+[^,;]*,([^;]*);")
_REGISTER = re.compile(r"%(?:rd|rs|r)\d+")
#: A pointer among the parameters, by number, the bytes behind a place, and which of several that are loaded there.
Field = tuple[str, str, int]


class Apart(msgspec.Struct, frozen=True):
    """Of one kernel, what is loaded behind pointers: what it asks for, and what leads it into memory that it reads and
    writes."""

    asked: frozenset[Field] = frozenset()
    leads: frozenset[Field] = frozenset()


def apart_in(ptx: str) -> dict[str, Apart]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def overlaps(baseline: Mapping[str, Apart], candidate: Mapping[str, Apart]) -> str:
    """Which loaded numbers lead a candidate within memory that it also writes, and are asked for by the baseline alone;
    "" for none."""
    for name, new in candidate.items():
        known = baseline.get(name, Apart())
        lost = (known.asked & known.leads & new.leads) - new.asked
        if lost:
            where = f"a number behind parameter {int(min(lost)[0]) + 1}"
            return f"the edit goes by {where} in memory that it writes, and does not ask for it as the kernel does"
    return ""


def _of(flow: Flow) -> Apart:
    does: dict[str, set[str]] = {"ld": set(), "st": set()}
    for name, place in flow.accessed:
        if name[:2] in does:
            does[name[:2]] |= flow.bases(place)
    both = does["ld"] & does["st"]
    if not both:
        return Apart()
    fields = dict(_fields(flow))
    asked = flow.closure({one for found in _ASKS.findall(flow.body) for one in _REGISTER.findall(found)})
    leads = flow.closure({place for _, place in flow.accessed if flow.bases(place) & both})
    return Apart(
        frozenset(field for register, field in fields.items() if register in asked),
        frozenset(field for register, field in fields.items() if register in leads),
    )


def _fields(flow: Flow) -> Iterator[tuple[str, Field]]:
    for registers, place, behind in _LOAD.findall(flow.body):
        for number, register in enumerate(_REGISTER.findall(registers)):
            yield from ((register, (base, behind or "0", number)) for base in flow.bases(place))
