# SPDX-License-Identifier: Apache-2.0
"""Whether values that are folded into an integer come to the same in parts.

`int sum; sum += x` of a float cuts off at every step, and `signed char most; if (v > most) most = v` of an `int` drops
bits of what it compares next: parts that are folded apart would come to something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, holds, walk
from warplens_tools.cuda.syntax.types import Integer, integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reductions import Fold

_FLOATING = re.compile(r"\b(?:float|double|half|__half|__nv_bfloat16|nv_bfloat16|auto)[1-4]?\b")
_LITERAL = re.compile(r"(?!0[xX])[\d']*(?:\.\d*|\d+[eE])\S*|\d+[fF]")
_TO_INTEGER = re.compile(
    r"__(?:float|double|half|bfloat16)\w*2u?(?:int|ll|short|char)\w*|l?l?r(?:int|ound)f?"
)
_COMPARED = frozenset({"<", "<=", ">", ">=", "==", "!=", "&&", "||"})
_FOLDS = frozenset({"assignment_expression", "update_expression", "if_statement"})
_INT_BYTES = 4


def check_integer_folds(
    kernel: Kernel,
    tree: SourceTree,
    body: Node,
    fold: Fold,
    written: str,
    concrete: Callable[[str], str] = str,
) -> None:
    """That a fold into a variable of type `written` comes to the same in parts, where that is an integer.

    `concrete`: the type that a name stands for.

    Raises:
        Refused: it does not.
    """
    state = integer_type(concrete(written))
    if state is None or fold.operation in ("||", "&&"):
        return
    types = {p.name: concrete(p.element_type) for p in kernel.parameters}
    types |= dict.fromkeys(kernel.template_parameters, "auto")
    for node in walk(body):
        kind = node.child_by_field_name("type") if node.type == "declaration" else None
        for one in node.children_by_field_name("declarator") if kind is not None else ():
            name = _declared(one)
            if name is not None and kind is not None:
                types[tree.code_of(name)] = concrete(tree.code_of(kind))
    for statement in _statements(body, fold):
        leaves = _leaves(tree, statement, fold.place)
        if fold.operation in ("max", "min", "best"):
            narrow = state.bytes < _INT_BYTES
            if narrow and not all(_fits(types.get(tree.code_of(n), ""), state) for n in leaves):
                raise Refused(f"what is folded into {fold.place} is wider than it")
        elif any(_is_floating(tree, n, types) for n in leaves):
            raise Refused(
                f"{fold.place} is an integer that floating point numbers are added to, cut off at each"
            )


def _declared(declarator: Node) -> Node | None:
    inner: Node | None = declarator
    while inner is not None and inner.type != "identifier":
        inner = inner.child_by_field_name("declarator") or next(
            (n for n in inner.named_children if n.type == "identifier"), None
        )
    return inner


def _statements(body: Node, fold: Fold) -> list[Node]:
    """What folds: the innermost statement that holds all occurrences of the variable."""
    own = [n for n in walk(body) if n.id in fold.own]
    at = own[0] if own else None
    while at is not None and not (at.type in _FOLDS and all(holds(at, n) for n in own)):
        at = at.parent
    return [at] if at is not None else []


def _leaves(tree: SourceTree, node: Node, place: str) -> list[Node]:
    """The names and literals that a folded value is made of, without indices, conditions and what is cut off anew."""
    if node.type in ("identifier", "number_literal"):
        return [] if tree.code_of(node) == place else [node]
    if node.type == "subscript_expression":
        return _leaves(tree, node.children[0], place)
    kind = node.child_by_field_name("type") if node.type == "cast_expression" else None
    if kind is not None:
        return [] if integer_type(tree.code_of(kind)) is not None else [kind]
    operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    if operator is not None and operator.type in _COMPARED:
        return []
    children = node.named_children
    if node.type == "call_expression":
        name = tree.code_of(node.children[0]).removeprefix("std::")
        cast = re.fullmatch(r"(?:static_cast\s*<\s*)?([\w ]+?)\s*>?", name)
        if _TO_INTEGER.fullmatch(name) or (cast is not None and integer_type(cast[1]) is not None):
            return []
        children = node.children[1].named_children
    return [leaf for child in children for leaf in _leaves(tree, child, place)]


def _fits(kind: str, state: Integer) -> bool:
    known = integer_type(kind)
    return known is not None and known.bytes <= state.bytes and known.signed == state.signed


def _is_floating(tree: SourceTree, leaf: Node, types: dict[str, str]) -> bool:
    written = tree.code_of(leaf)
    if leaf.type == "number_literal":
        return _LITERAL.fullmatch(written) is not None
    return _FLOATING.search(types.get(written, "") if leaf.type == "identifier" else written) is not None
