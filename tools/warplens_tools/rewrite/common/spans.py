# SPDX-License-Identifier: Apache-2.0
"""Between which numbers an integer expression lies, by the loops around it."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, squeezed, unwrapped

Span = tuple[int, int]
#: Variables made of variables are followed this far.
_DEEP = 8
_PLACE = re.compile(r"threadIdx\.([xyz])")
_CHOSEN = {"min": min, "max": max}


def span_of(view: View, node: Node | None, depth: int = 0) -> Span | None:
    """The least and the greatest value of an expression, wherever it is asked for; None where nothing tells."""
    if node is None or depth > _DEEP:
        return None
    node = unwrapped(node)
    value = view.value(node)
    if value is not None:
        return value, value
    if node.type == "cast_expression":
        return span_of(view, field(node, "value"), depth + 1)
    if node.type == "identifier":
        return _of_name(view, node, depth)
    place = _PLACE.fullmatch(squeezed(view.code(node))) if node.type == "field_expression" else None
    if place is not None:
        return _in_block(view, "xyz".index(place[1]))
    if node.type == "binary_expression":
        left, right = (span_of(view, field(node, side), depth + 1) for side in ("left", "right"))
        return _joined(operator_of(node), left, right)
    if node.type == "call_expression":
        name = view.code(field(node, "function")).strip()
        given = [span_of(view, n, depth + 1) for n in field(node, "arguments").named_children]
        known = [one for one in given if one is not None]
        if name in _CHOSEN and len(known) == len(given) > 0:
            choose = _CHOSEN[name]
            return choose(low for low, _ in known), choose(high for _, high in known)
    return None


def _in_block(view: View, axis: int) -> Span | None:
    """The places of a block's threads along an axis, where all launches have constant blocks."""
    extents = [site.block_value[axis] for site in view.model.launches_of(view.kernel)]
    known = [e for e in extents if e is not None]
    return (0, max(known) - 1) if known and len(known) == len(extents) else None


def _joined(kind: str, left: Span | None, right: Span | None) -> Span | None:
    if kind == "%" and right is not None and right[0] == right[1] > 0 and left is not None and left[0] >= 0:
        return 0, right[0] - 1
    if left is None or right is None:
        return None
    if kind == "+":
        return left[0] + right[0], left[1] + right[1]
    if kind == "-":
        return left[0] - right[1], left[1] - right[0]
    if kind == "*":
        every = [a * b for a in left for b in right]
        return min(every), max(every)
    if kind == "/" and left[0] >= 0 and right[0] == right[1] > 0:
        return left[0] // right[0], left[1] // right[0]
    return None


def _of_name(view: View, node: Node, depth: int) -> Span | None:
    """That of a loop's counter inside its body, or of a variable that is declared with its value and stays it."""
    name, inner, outer = view.code(node), node, node.parent
    while outer is not None and inner.id != view.body.id:
        loop = counting(view.expanded, outer) if outer.type in LOOPS else None
        body = outer.child_by_field_name("body") if loop is not None else None
        if loop is not None and loop.variable == name and body is not None and body.id == inner.id:
            return of_counter(view, loop, depth + 1)
        if outer.type in ("compound_statement", "for_statement"):
            before = [n for n in outer.named_children if n.end_byte <= inner.start_byte]
            for statement in before:
                for one in plainly_declared_in(view, statement):
                    if one.name != name:
                        continue
                    changed = any(n == name for n, _ in assigned(outer, view))
                    return None if changed or one.stars else span_of(view, one.value, depth + 1)
        inner, outer = outer, outer.parent
    return None


def of_counter(view: View, loop: Counting, depth: int = 0) -> Span | None:
    """The values that a loop's counter has in its body."""
    first = span_of(view, loop.first, depth)
    ends = [span_of(view, bound, depth) for bound in loop.bounds]
    known = [one for one in ends if one is not None]
    if first is None or not known or not loop.step.isdigit() or len(loop.bounds) != 1:
        return None
    inclusive = operator_of(unwrapped(field(loop.node, "condition"))) in ("<=", ">=")
    if loop.downward:
        return max(low for low, _ in known) + (0 if inclusive else 1), first[1]
    return first[0], min(high for _, high in known) - (0 if inclusive else 1)
