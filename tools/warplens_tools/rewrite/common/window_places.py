# SPDX-License-Identifier: Apache-2.0
"""What an element of a window must be worked out from where it is loaded apart from the work on it."""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.reading import View, field, statements


def conditions_of(view: View, work: Sequence[Node], node: Node) -> tuple[frozenset[str], list[str]]:
    """What must hold for an access to be made, inside the work, and the names in that."""
    tests: list[str] = []
    names: frozenset[str] = frozenset()
    child, outer = node, node.parent
    tops = {w.id for w in work}
    while outer is not None and child.id not in tops:
        if outer.type == "compound_statement":
            for before in statements(outer):
                if before.start_byte >= child.start_byte:
                    break
                if before.type == "if_statement" and "continue" in view.code(before):
                    condition = field(before, "condition")
                    tests.append(f"!{view.written(condition)}")
                    names |= view.names(condition)
        if outer.type == "if_statement" and field(outer, "condition").id != child.id:
            condition = field(outer, "condition")
            is_else = field(outer, "consequence").id != child.id
            tests.append(f"{'!' if is_else else ''}{view.written(condition)}")
            names |= view.names(condition)
        if outer.type == "conditional_expression" and field(outer, "condition").id != child.id:
            condition = field(outer, "condition")
            is_else = field(outer, "consequence").id != child.id
            tests.append(f"{'!' if is_else else ''}({view.written(condition)})")
            names |= view.names(condition)
        child, outer = outer, outer.parent
    return names, tests[::-1]


def locals_of(
    view: View, work: Sequence[Node], own: Sequence[Declared], node: Node, needed: frozenset[str]
) -> list[Declared]:
    """The integers that an access and its conditions, which name `needed`, are worked out from; `own` stand before."""
    every = list(own)
    for statement in (n for w in work for n in walk(w) if n.type == "declaration"):
        outer = statement.parent
        if (
            outer is not None
            and outer.start_byte <= node.start_byte < outer.end_byte
            and outer.type != "for_statement"
        ):
            every += plainly_declared_in(view, statement)
    kept, names = list[Declared](), set(needed)
    for one in reversed(every):
        if one.name in names and one.value is not None and one.is_index:
            kept.append(one)
            names |= view.names(one.value)
    return kept[::-1]
