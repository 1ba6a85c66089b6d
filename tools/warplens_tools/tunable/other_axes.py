# SPDX-License-Identifier: Apache-2.0
"""Lengths that an edit puts along y or z of a grid where the original has them along x.

Along x a grid has 2^31 - 1 blocks at most, along y and z 65535 (CUDA programming guide, technical specifications): what
grows with a run's data is launched for any of its lengths there, and not here. What the text holds below a bound, as
`min(rows, 32768)`, may lie along any axis, and so may what a block does several of, as tiles do: nobody has a million
columns of 32. What x follows meanwhile changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.rewrite.common.grid_limits import MOST
from warplens_tools.tunable.both import launches_of_both
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.source import AXES, File, Site, Value

_LESSER = re.compile(r"(?:\w+::)*(?:u|ll|ull)?(?:min|clamp)(?:<[^<>]*>)?\Z")


def why_along_less(before: File, after: File) -> str:
    """Which of the run's own lengths no longer lies along x in an edit, in words; "" for none."""
    for kernel, _, one, other in launches_of_both(before, after):
        if why := _why(before, one, after, other, kernel):
            return why
    return ""


def _why(before: File, old: Site, after: File, new: Site, kernel: Kernel) -> str:
    if not old.grid or not new.grid:
        return ""
    first, *others = (_lengths(before, one) for one in old.grid)
    first = first.difference(*others)
    for axis, value in zip(AXES[1:], new.grid[1:], strict=False):
        moved = first & _lengths(after, value)
        if moved and not any(_bounds(after, value)) and not any(_divides(after, value)):
            return (
                f"the edit's grid follows {min(moved)} along {axis}, where {MOST} blocks are the most, the "
                f"original's along x of {kernel.name}"
            )
    return ""


def _lengths(file: File, value: Value) -> frozenset[str]:
    """The run's own numbers behind an extent, what stands in for them where the run gives none left out."""
    return frozenset[str]().union(*(lengths_of(file, node) for node in _nodes(file, value)))


def _nodes(file: File, value: Value) -> Iterator[Node]:
    """An extent, and all numbers that it was followed through."""
    yield value.node
    numbers = (one for one in value.through if one.kind != "dim3")
    yield from (node for one in numbers if (node := value_node(file.tree, one)) is not None)


def _bounds(file: File, value: Value) -> Iterator[bool]:
    """Whether an extent, or what it was followed through, is the smaller of two numbers."""
    for node in (one for root in _nodes(file, value) for one in walk(root)):
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            yield function is not None and _LESSER.match(file.tree.code_of(function)) is not None
        elif node.type == "conditional_expression":
            # what is chosen for want of an argument bounds nothing
            test, *sides = (
                node.child_by_field_name(part) for part in ("condition", "consequence", "alternative")
            )
            said = "".join(file.tree.code_of(test).split()) if test is not None else ""
            yield any(one is not None and "".join(file.tree.code_of(one).split()) in said for one in sides)


def _divides(file: File, value: Value) -> Iterator[bool]:
    """Whether a block does several of what an extent counts."""
    for node in (one for root in _nodes(file, value) for one in walk(root)):
        operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        given = node.child_by_field_name("arguments") if node.type == "call_expression" else None
        yield operator is not None and operator.type in ("/", ">>")
        # `up(rows, 8)`
        yield given is not None and given.named_child_count > 1
