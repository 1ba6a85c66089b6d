# SPDX-License-Identifier: Apache-2.0
"""Extents that are given to a `dim3` one by one: `block.x = 16; block.y = rows;`."""

from __future__ import annotations

import re
from typing import NamedTuple

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.writes import changes

_OPENS = re.compile(r"[{}]")
#: What keeps a statement from being one that is always executed, right before it.
_CONDITIONAL = re.compile(r"(?:\belse|\bdo|\)|\?|:)\s*\Z")
_AXES = "xyz"


class Assigned(NamedTuple):
    """What an extent is set to, and the offset at which it stands."""

    text: str
    at: int


Extents = tuple[Assigned | None, Assigned | None, Assigned | None]


def member_values(tree: SourceTree, binding: Binding, at: int) -> Extents | None:
    """For each extent of a `dim3` what it was set to last before offset `at`, None where it is as declared.

    None where it is changed in any other way, or where a branch or a loop decides whether it is.
    """
    start = binding.declaration[1]
    code = tree.masked.code[start : binding.end].decode("ascii")
    found: dict[str, Assigned] = {}
    left = code
    for hit in _assignments(binding.name).finditer(code):
        if _is_conditional(code, hit.start()):
            return None
        left = f"{left[: hit.start()]}{' ' * (hit.end() - hit.start())}{left[hit.end() :]}"
        if start + hit.start() < at:
            found[hit[1]] = Assigned(hit[2].strip(), start + hit.start(2))
    if changes(tree, left, binding.name):
        return None
    x, y, z = (found.get(axis) for axis in _AXES)
    return x, y, z


def _assignments(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.>]){re.escape(name)}\s*\.\s*([xyz])\s*=(?!=)([^;{{}}]*);")


def _is_conditional(code: str, place: int) -> bool:
    """Whether a statement stands in a block of its own behind the declaration, or is a branch's."""
    before = code[:place]
    depth = sum(1 if hit[0] == "{" else -1 for hit in _OPENS.finditer(before))
    return depth != 0 or _CONDITIONAL.search(before) is not None
