# SPDX-License-Identifier: Apache-2.0
"""Loops that end where their elements begin to lie outside, in the form that rewrites read: outside is skipped.

`for (k = 0; k < w; k++) { if (t - k < 0) break; … }` becomes a loop of one length whose steps outside do nothing: what
lies outside once does so for good. Results stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import BoundReader, bare, squeezed
from warplens_tools.text import SourceText, TextEdit

#: Comparisons that hold for good once they hold, of what falls and of what grows.
_FALLING, _GROWING = ("<", "<="), (">", ">=")


def skipping(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that skip what one loop was left for; () where there is none."""
    reader = _Reader(text, file, kernel)
    for loop in walk(reader.body) if reader.body is not None else ():
        if loop.type == "for_statement" and (jump := reader.jump(loop)) is not None:
            return (TextEdit(file.span(jump), "continue;"),)
    return ()


class _Reader(BoundReader):
    """The loops of one kernel."""

    def jump(self, loop: Node) -> Node | None:
        """The `break;` at the beginning of a loop that counts up, where its condition holds for good once it does."""
        update, body = loop.child_by_field_name("update"), loop.child_by_field_name("body")
        counted = re.fullmatch(r"(?:(\w+)\+\+|\+\+(\w+)|(\w+)\+=1)", squeezed(self.code(update)))
        if counted is None or body is None or body.type != "compound_statement":
            return None
        name = next(filter(None, counted.groups()))
        if self.changes(body, name):
            return None
        own: dict[str, Node] = {}
        for node in (n for n in body.named_children if n.type != "comment"):
            if node.type == "declaration":
                own |= self._declared(node)
                continue
            jump = _alone(node) if node.type == "if_statement" else None
            condition = bare(node.child_by_field_name("condition")) if jump is not None else None
            return jump if condition is not None and self._lasts(condition, name, body, own) else None
        return None

    def _declared(self, node: Node) -> dict[str, Node]:
        """What a declaration gives its variables."""
        found = {}
        for one in node.children_by_field_name("declarator"):
            value = one.child_by_field_name("value") if one.type == "init_declarator" else None
            if value is not None:
                found[self.code(one.child_by_field_name("declarator"))] = value
        return found

    def _lasts(self, condition: Node, name: str, body: Node, own: dict[str, Node]) -> bool:
        """Whether a condition stays true; `own` are variables of the step with their values."""
        if condition.type != "binary_expression":
            return False
        left, right = (bare(condition.child_by_field_name(side)) for side in ("left", "right"))
        kind = self.code(condition.child_by_field_name("operator"))
        if left is None or right is None or kind not in FLIPPED:
            return False
        moving = {name, *own}
        if self.words(right) & moving:
            left, right, kind = right, left, FLIPPED[kind]
        known = {*self.words(left), *self.words(right), *(w for v in own.values() for w in self.words(v))}
        if self.words(right) & moving or any(self.changes(body, word) for word in known):
            return False
        ways = list(self._ways(left, name, own, 1))
        return len(ways) == 1 and kind in {-1: _FALLING, 1: _GROWING}.get(ways[0], ())

    def _ways(self, node: Node, name: str, own: dict[str, Node], sign: int) -> Iterator[int]:
        """1 or -1 for each time that a sum grows or falls with a variable; 0 for what is no sum."""
        inner = bare(node)
        if inner is None:
            return
        operator = self.code(inner.child_by_field_name("operator"))
        if inner.type == "binary_expression" and operator in ("+", "-"):
            for side, one in (("left", sign), ("right", sign if operator == "+" else -sign)):
                child = inner.child_by_field_name(side)
                if child is not None:
                    yield from self._ways(child, name, own, one)
        elif self.code(inner) == name:
            yield sign
        elif self.code(inner) in own:
            yield from self._ways(own[self.code(inner)], name, own, sign)
        elif self.words(inner) & {name, *own}:
            yield 0


def _alone(node: Node) -> Node | None:
    """The `break;` that a condition alone decides on; None where it decides more."""
    then = node.child_by_field_name("consequence")
    if then is None or node.child_by_field_name("alternative") is not None:
        return None
    inside = [then] if then.type != "compound_statement" else then.named_children
    return inside[0] if len(inside) == 1 and inside[0].type == "break_statement" else None
