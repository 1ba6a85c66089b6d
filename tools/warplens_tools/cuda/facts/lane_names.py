# SPDX-License-Identifier: Apache-2.0
"""Which names of a kernel differ between the lanes of a warp."""

from __future__ import annotations

import re
from collections.abc import Collection

_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)?(?:[-+*/%&|^]|<<|>>)?=(?!=)(?=(\s*\{?[^;{}]*))")
#: Brackets, and a comma behind which another name is set.
_JOINS = re.compile(r"[(\[{)\]}]|,(?=[\s*&]*[A-Za-z_]\w*\s*(?:\[[^\]]*\]\s*)?=(?!=))")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LANES = frozenset({"threadIdx", "laneid", "thread_rank"})


def lane_names(code: str) -> frozenset[str]:
    """Names in a kernel's body that may differ between lanes: by data flow from `threadIdx`, no control flow."""
    return names_from(code, _LANES)


def lane_names_by_element(code: str, shared: Collection[str]) -> frozenset[str]:
    """As `lane_names`, where what is read of a shared array differs between lanes only if its index does: in
    `id = ids[j]` all lanes of a warp read one element, whoever wrote it."""
    if not shared:
        return lane_names(code)
    element = rf"\b(?:{'|'.join(map(re.escape, sorted(shared)))})\s*\[([^\[\]]*)\]"
    return lane_names(re.sub(element, r"(\1)", code))


def names_from(code: str, first: frozenset[str]) -> frozenset[str]:
    """Names that some names flow into through assignments, with these themselves; no control flow."""
    assigned = [(name, set(_WORD.findall(value))) for name, value in assignments(code)]
    varying = set(first)
    grown = True
    while grown:
        grown = False
        for name, used in assigned:
            if name not in varying and used & varying:
                varying.add(name)
                grown = True
    return frozenset(varying)


def assignments(code: str) -> list[tuple[str, str]]:
    """Every name that is set, updates included, with the value it is set to or changed by, in text order."""
    return [(name, _alone(value)) for name, value in _ASSIGNED.findall(code)]


def _alone(value: str) -> str:
    """A value without what is set behind it: `n - 1` of `int i = n - 1, p = first;`."""
    depth = 0
    for found in _JOINS.finditer(value):
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
        elif depth <= 0:
            return value[: found.start()]
    return value


def mentions_lanes(text: str, varying: frozenset[str]) -> bool:
    """Whether an expression's text mentions any of the names."""
    return bool(set(_WORD.findall(text)) & varying)
