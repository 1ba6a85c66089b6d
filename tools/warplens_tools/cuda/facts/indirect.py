# SPDX-License-Identifier: Apache-2.0
"""Accesses to global memory at a place that data choose for each lane: `x[column[k]]`, `grid[cell]`, `out[slot]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.data_branches import BodyNames, names_in
from warplens_tools.cuda.facts.lane_names import assignments, lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.kernel_tree import kernel_tree

_WORD = re.compile(r"[A-Za-z_]\w*")
#: Names of members, and what stands in the brackets of an inner access: neither is added to the index itself.
_MEMBER = re.compile(r"(?:\.|->)\s*[A-Za-z_]\w*")
_INNER = re.compile(r"\[[^\[\]]*\]")
_ACROSS = re.compile(r"\bthreadIdx\s*\.\s*[yz]\b")
#: Iterations up to which a loop goes on to the neighbours of one chosen place.
_FEW = 16


def indirect_accesses(
    tree: SourceTree, kernel: Kernel, accesses: Sequence[ArrayAccess]
) -> tuple[ArrayAccess, ...]:
    """Those of `accesses`, which are the kernel's, that are so, in their order: no walks along a row, no atomics, and
    none whose lanes stand side by side from the chosen place on."""
    chosen = _chosen(tree, kernel, accesses)
    beside = _along(tree, kernel) if chosen else frozenset()
    made = _made(tree, kernel) if chosen else {}
    return tuple(
        a
        for a, names in chosen
        if not _walks(a) and not _parts(a.indices[0], made) & beside & (names.lanes - names.data)
    )


def _made(tree: SourceTree, kernel: Kernel) -> dict[str, str]:
    """What the kernel sets a name to, of names that it sets once."""
    expanded = kernel_tree(tree, kernel)
    found: dict[str, list[str]] = {}
    for name, value in assignments(
        expanded.tree.code_of(expanded.function.body) if expanded is not None else ""
    ):
        found.setdefault(name, []).append(value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _parts(index: str, made: Mapping[str, str]) -> set[str]:
    """The names that an index is made of; of one that is a name, those of the sum that it was set to."""
    own = _added(index)
    value = made.get(index.strip(), "")
    parts = {part.strip() for part in _INNER.sub(" ", value).split("+")}
    return own | {part for part in parts if _WORD.fullmatch(part)}


def _along(tree: SourceTree, kernel: Kernel) -> frozenset[str]:
    """The names that differ between the lanes of a warp as wide as one: those of `threadIdx.y` are the same for it."""
    expanded = kernel_tree(tree, kernel)
    code = expanded.tree.code_of(expanded.function.body) if expanded is not None else ""
    return lane_names(_ACROSS.sub("0", code))


def chosen_walks(
    tree: SourceTree, kernel: Kernel, accesses: Sequence[ArrayAccess]
) -> tuple[ArrayAccess, ...]:
    """Those of `accesses` that walk along a row or a bucket from a place that data choose."""
    return tuple(a for a, _ in _chosen(tree, kernel, accesses) if _walks(a))


def _chosen(
    tree: SourceTree, kernel: Kernel, accesses: Sequence[ArrayAccess]
) -> list[tuple[ArrayAccess, BodyNames]]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return []
    names = names_in(expanded, kernel)
    return [(a, names) for a in accesses if a.space == "global" and not a.atomic and _is_chosen(a, names)]


def _walks(access: ArrayAccess) -> bool:
    """Whether a loop goes on from the place, further than to a few neighbours."""
    own = _added(access.indices[0])
    return any(loop.variable in own and not (loop.trips and loop.trips <= _FEW) for loop in access.loops)


def _is_chosen(access: ArrayAccess, names: BodyNames) -> bool:
    """Whether every lane comes to the access, each at a place that it has loaded or worked out of what it loaded."""
    if access.few or access.one or access.index is not None or len(access.indices) != 1:
        return False
    if access.traced is not None and access.traced.told_by_lanes is not None:
        return False
    code = access.indices[0]
    own = _added(code)
    inside = set(_WORD.findall(_MEMBER.sub("", code)))
    loaded = bool(inside & names.lanes) and ("[" in code or bool(own & names.pointers))
    return loaded or bool(own & names.data)


def _added(code: str) -> set[str]:
    """The names that an index is made of, without those that only choose what is loaded for it."""
    code = _MEMBER.sub("", code)
    while (less := _INNER.sub(" ", code)) != code:
        code = less
    return set(_WORD.findall(code))
