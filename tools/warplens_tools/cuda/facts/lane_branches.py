# SPDX-License-Identifier: Apache-2.0
"""Branches whose condition is a function of the lane: which share of a warp takes each side.

Conditions are evaluated for every lane of every warp of a block, once for each of several settings of
all that does not vary inside a warp. Only what holds in all settings is given.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.conditions import Condition, compared, read_condition
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span

#: Settings of parameters and indices that are the same for a warp: a share must not depend on them.
_UNIFORM = (7, 1 << 20, 1_000_003)
#: The same of sizes, and the number of a block within them, where a colour stands beside tests of the edge.
_LARGE, _INNER = (1 << 20, 1_000_003), 7
#: Iterations of the loops around; of these one divided warp is enough.
_ITERATIONS = (1, 2, 4)
#: Taken where the launches do not fix the block: true of every block of 32 or more threads along x.
_ASSUMED_BLOCK = (256, 1, 1)
#: Warps of which this share or more must be divided: a check at the edge divides one.
_MOST_WARPS = 0.75


class LaneBranch(msgspec.Struct, frozen=True):
    """An `if`, or a `switch`, that divides most warps."""

    condition: Span
    then: Span
    otherwise: Span | None
    #: Share of a divided warp's lanes that takes the first side, 0 to 1.
    share: float
    #: The further cases of a `switch`, each with its share.
    cases: tuple[tuple[Span, float], ...] = ()


def lane_branches(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[LaneBranch, ...]:
    """Every `if` and `switch` of the kernel that lanes of one warp answer differently; an `if` before a `switch`."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    reader = FormReader(expanded, block)
    x, y, z = block
    extents = _ASSUMED_BLOCK if x is None or y is None or z is None else (x, y, z)
    found = expanded.tree.captures("(if_statement) @branch", expanded.function.body).get("branch", [])
    switches = expanded.tree.captures("(switch_statement) @switch", expanded.function.body).get("switch", [])
    branches = [_branch(expanded, reader, node, extents) for node in found]
    branches += [_switch(expanded, reader, node, extents) for node in switches]
    return tuple(b for b in branches if b is not None)


def _switch(
    expanded: KernelTree, reader: FormReader, node: Node, block: tuple[int, int, int]
) -> LaneBranch | None:
    """A `switch` over the lane, case by case; what no case names goes to the default."""
    test, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    inner = test.named_children[0] if test is not None and test.named_child_count == 1 else None
    chosen = reader.form(inner)
    if test is None or body is None or chosen is None or not any(s.kind == "thread" for s in chosen.symbols):
        return None
    sides: list[tuple[Span, float]] = []
    default: Span | None = None
    for case in (c for c in body.named_children if c.type == "case_statement"):
        value = case.child_by_field_name("value")
        if value is None:
            default = expanded.tree.span(case)
            continue
        condition = compared("==", chosen, reader.form(value))
        share = _share(condition, block) if condition is not None else None
        if share is None:
            return None
        sides.append((expanded.tree.span(case), share))
    left = 1.0 - sum(share for _, share in sides)
    if default is not None and left > 0.0:
        sides.append((default, left))
    if len(sides) < 2:
        return None
    (first, share), *others = sides
    return LaneBranch(expanded.tree.span(test), first, None, share, tuple(others))


def _branch(
    expanded: KernelTree, reader: FormReader, node: Node, block: tuple[int, int, int]
) -> LaneBranch | None:
    test, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    if test is None or then is None:
        return None
    condition = read_condition(expanded, reader, test)
    if condition is None or not any(s.kind == "thread" for s in condition.symbols):
        return None
    share = _share(condition, block)
    if share is None:
        # One of two colours that the launch passes: which one it is decides nothing of how many lanes have it.
        share = _share(condition, block, _chosen(expanded, test))
    if share is None:
        return None
    other = node.child_by_field_name("alternative")
    span = expanded.tree.span
    return LaneBranch(span(test), span(then), span(other) if other is not None else None, share)


def _chosen(expanded: KernelTree, test: Node) -> frozenset[str]:
    """Names that a condition compares by `==` or `!=`, as `color` of `(x + y) % 2 == color`."""
    found = set()
    for node in walk(test):
        sign = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        if sign is not None and sign.type in ("==", "!="):
            sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
            found |= {expanded.tree.code_of(n) for n in sides if n is not None and n.type == "identifier"}
    return frozenset(found)


def _share(
    condition: Condition, block: tuple[int, int, int], chosen: frozenset[str] = frozenset()
) -> float | None:
    """Lanes that take the first side in divided warps, averaged over the iterations that divide them; `chosen` names
    take 0 and 1 alone."""
    if chosen and not any(s.kind == "parameter" and s.name in chosen for s in condition.symbols):
        return None
    shares = []
    for uniform, choice in itertools.product(_LARGE if chosen else _UNIFORM, (0, 1) if chosen else (0,)):
        own = dict.fromkeys(chosen, choice)
        if chosen:  # Sizes beside it are those of an inner block.
            own |= {s.name: _INNER for s in condition.symbols if s.kind == "block"}
        here = [s for i in _ITERATIONS if (s := _share_at(condition, block, uniform, i, own)) is not None]
        if not here:
            return None
        shares.append(sum(here) / len(here))
    return shares[0] if max(shares) - min(shares) < 1e-6 else None


def _share_at(
    condition: Condition, block: tuple[int, int, int], uniform: int, iteration: int, own: Mapping[str, int]
) -> float | None:
    # A derived symbol is worked out from those it is made of.
    given = [s for s in condition.symbols if s.kind not in ("thread", "derived")]
    fixed = {s.name: iteration if s.kind == "loop" else own.get(s.name, uniform) for s in given}
    sizes = zip("xyz", block, strict=True)
    fixed |= {f"blockDim.{axis}": size for axis, size in sizes}
    lanes = []
    for z, y, x in itertools.product(*(range(n) for n in reversed(block))):
        held = condition.holds(fixed | {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z})
        if held is None:
            return None
        lanes.append(held)
    warps = [lanes[i : i + 32] for i in range(0, len(lanes), 32)]
    divided = [w for w in warps if 0 < sum(w) < len(w)]
    if len(divided) < _MOST_WARPS * len(warps):
        return None
    return sum(sum(w) / len(w) for w in divided) / len(divided)
