# SPDX-License-Identifier: Apache-2.0
"""Which registers of a PTX function rest on data or on numbers by value, and not on places of threads, constants, and
where pointers lie alone: what is decided by those a run's inputs decide."""

from __future__ import annotations

import re

_LINE = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+(.*);", re.MULTILINE)
_REGISTER = re.compile(r"%(?:p|rd|rs|r|f|fd|b|h|hh|rh)\d+")
_GIVEN = re.compile(r"^\s*ld\.param\.[bsu]64\s+(%rd\d+)\s*,\s*\[\s*([^\]]+?)\s*\]\s*;", re.MULTILINE)
_PLACED = re.compile(r"^\s*cvta\.to\.\w+\.u64\s+%\w+\s*,\s*(%rd\d+)\s*;", re.MULTILINE)
_REACHED = re.compile(r"\[\s*(%rd\d+)\s*(?:[+-]\s*\d+)?\]")
_SPLIT = re.compile(r",(?![^{\[(]*[}\])])")
#: What stores, or leads on, makes no register.
_MAKES_NONE = (
    "st.",
    "red.",
    "bra",
    "brx",
    "ret",
    "exit",
    "bar.",
    "barrier.",
    "membar",
    "fence",
    "prefetch",
    "cp.",
)
#: What brings numbers from elsewhere, whatever it is given.
_BRINGS = (
    "ld.",
    "ldu.",
    "atom.",
    "tex.",
    "suld.",
    "shfl.",
    "vote.",
    "match.",
    "redux.",
    "call",
    "activemask",
)


def asking_registers(body: str, *, called: bool) -> frozenset[str]:
    """Those of a function's body; `called`: by others, whose arguments may be anything."""
    used = set(_PLACED.findall(body)) | set(_REACHED.findall(body))
    # a parameter may be loaded once more for what is asked of it
    pointers = {name for register, name in _GIVEN.findall(body) if register in used}
    made: list[tuple[list[str], list[str]]] = []
    asking: set[str] = set()
    for name, operands in _LINE.findall(body):
        if name.startswith(_MAKES_NONE):
            continue
        parts = [part.strip() for part in _SPLIT.split(operands)]
        results = _REGISTER.findall(parts[0])
        if name.startswith("ld.param"):
            given = not name.endswith("64") or called or parts[1].strip("[]") not in pointers
            asking |= set(results) if given else set()
        elif name.startswith(_BRINGS):
            asking |= set(_REGISTER.findall(operands) if name.startswith("call") else results)
        else:
            made.append((results, [r for part in parts[1:] for r in _REGISTER.findall(part)]))
    return frozenset(_spread(made, asking))


def _spread(made: list[tuple[list[str], list[str]]], asking: set[str]) -> set[str]:
    grown = True
    while grown:
        grown = False
        for results, sources in made:
            if not asking.isdisjoint(sources) and not asking.issuperset(results):
                asking |= set(results)
                grown = True
    return asking
