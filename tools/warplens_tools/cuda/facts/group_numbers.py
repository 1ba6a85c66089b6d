# SPDX-License-Identifier: Apache-2.0
"""Places that a lane finds by the table of a table: the group of the group that its element is in, which it most often
shares with its neighbours."""

from __future__ import annotations

import re

from warplens_tools.cuda.facts.lane_names import assignments, names_from

_WORD = re.compile(r"[A-Za-z_]\w*")
_ELEMENT = re.compile(r"\b[A-Za-z_]\w*\s*\[")
_ROWS = re.compile(r"\b(?:threadIdx\s*\.\s*[yz]|blockIdx\s*\.\s*\w|blockDim\s*\.\s*\w)")
_MEMBER = re.compile(r"(?:\.|->)\s*[A-Za-z_]\w*")
#: Tables one after the other from which places count as few.
TABLES = 2
#: How far names are followed.
_DEEPEST = 8


def is_of_group(code: str, place: str) -> bool:
    """Whether all that moves a place, `&o[w]` or `o + w`, along threadIdx.x in a body's code was looked up in a table
    by what was looked up in another; False where it is set more than once."""
    plain = _MEMBER.sub("", _ROWS.sub("0", code))
    lanes = names_from(plain, frozenset({"threadIdx"}))
    values: dict[str, list[str]] = {}
    for name, value in assignments(plain):
        values.setdefault(name, []).append(value)
    text = _MEMBER.sub("", _ROWS.sub("0", place)).strip()
    if text.startswith("&"):
        text = " ".join(_elements(text)[0])
    return _tables(text, lanes, values, 0) >= TABLES


def _tables(text: str, lanes: frozenset[str], values: dict[str, list[str]], depth: int) -> int:
    """The tables between a lane's own number and what of it moves an expression; 0 where nothing does, or more than one
    number: a pair of groups is most often the lane's own."""
    indices, rest = _elements(text)
    inner = {index for index in indices if _words(index) & lanes}
    names = _words(rest) & lanes
    if len(inner) + len(names) != 1 or depth > _DEEPEST:
        return 0
    if inner:
        return 1 + _tables(inner.pop(), lanes, values, depth + 1)
    set_to = values.get(names.pop(), [])
    return _tables(set_to[0], lanes, values, depth + 1) if len(set_to) == 1 else 0


def _elements(text: str) -> tuple[list[str], str]:
    """The indices of the elements of an expression, outermost ones, and the expression without them."""
    indices, rest, at = [], "", 0
    while (found := _ELEMENT.search(text, at)) is not None:
        end, depth = found.end(), 1
        while end < len(text) and depth:
            depth += (text[end] == "[") - (text[end] == "]")
            end += 1
        indices.append(text[found.end() : end - 1])
        rest, at = f"{rest}{text[at : found.start()]}0", end
    return indices, rest + text[at:]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
