# SPDX-License-Identifier: Apache-2.0
"""Places that a lane finds by the table of a table: the group of the group that its element is in, which it most often
shares with its neighbours."""

from __future__ import annotations

import re

from warplens_tools.cuda.facts.lane_names import names_from

_WORD = re.compile(r"[A-Za-z_]\w*")
_ELEMENT = re.compile(r"\b[A-Za-z_]\w*\s*\[([^\[\]]*)\]")
_ROWS = re.compile(r"\b(?:threadIdx\s*\.\s*[yz]|blockIdx\s*\.\s*\w|blockDim\s*\.\s*\w)")
_MEMBER = re.compile(r"(?:\.|->)\s*[A-Za-z_]\w*")
_SET = re.compile(r"\b([A-Za-z_]\w*)\s*=(?!=)([^;{}]*)")
#: Tables one after the other from which places count as few.
TABLES = 2
#: How far names are followed.
_DEEPEST = 8


def is_of_group(code: str, place: str) -> bool:
    """Whether all that moves a place along threadIdx.x in a body's code was looked up in a table by what was looked up
    in another; False where it is set more than once."""
    plain = _MEMBER.sub("", _ROWS.sub("0", code).replace("threadIdx", "threadIdx "))
    lanes = names_from(plain, frozenset({"threadIdx"}))
    values: dict[str, list[str]] = {}
    for name, value in _SET.findall(plain):
        values.setdefault(name, []).append(value)
    return _tables(_MEMBER.sub("", _ROWS.sub("0", place)), lanes, values, 0) >= TABLES


def _tables(text: str, lanes: frozenset[str], values: dict[str, list[str]], depth: int) -> int:
    """The tables between a lane's own number and what of it moves an expression; 0 where nothing does, or more than one
    number: a pair of groups is most often the lane's own."""
    inner = {f[1] for f in _ELEMENT.finditer(text) if _words(f[1]) & lanes}
    names = _words(_ELEMENT.sub("0", text)) & lanes
    if len(inner) + len(names) != 1 or depth > _DEEPEST:
        return 0
    if inner:
        return 1 + _tables(inner.pop(), lanes, values, depth + 1)
    set_to = values.get(names.pop(), [])
    return _tables(set_to[0], lanes, values, depth + 1) if len(set_to) == 1 else 0


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
