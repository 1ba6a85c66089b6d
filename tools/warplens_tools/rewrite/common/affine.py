# SPDX-License-Identifier: Apache-2.0
"""What a step makes of a variable as `factor * v + term`, neither of which rests on the variable."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import field, operator_of, unwrapped

_FUSED = frozenset({"fma", "fmaf", "__fmaf_rn", "__fma_rn", "std::fma"})
_LOOSE = re.compile(r"[-+?<>&|^=,]")

#: Signed products; "" is one.
Sum = tuple[tuple[int, str], ...]


class Affine(msgspec.Struct, frozen=True):
    """`factor * v + term`."""

    factor: Sum
    term: Sum

    def times(self, text: str, sign: str = "*") -> Affine:
        """Multiplied, or with "/" divided, by what does not rest on the variable."""
        return Affine(_scaled(self.factor, text, sign), _scaled(self.term, text, sign))

    def plus(self, other: Affine, sign: int) -> Affine:
        """The sum, or with -1 the difference."""
        return Affine(
            (*self.factor, *((s * sign, t) for s, t in other.factor)),
            (*self.term, *((s * sign, t) for s, t in other.term)),
        )


def affine_step(tree: SourceTree, assignment: Node, name: str) -> Affine:
    """The step that an assignment to the variable is.

    Raises:
        Refused: it is none, as a minimum or a square.
    """
    right, operator = field(assignment, "right"), field(assignment, "operator").type
    old = Affine(((1, ""),), ())
    if operator == "=":
        return _affine(tree, right, name)
    if operator in ("+=", "-="):
        return old.plus(_affine(tree, right, name), 1 if operator == "+=" else -1)
    if operator in ("*=", "/=") and not _mentions(tree, right, name):
        return old.times(tree.text_of(right), operator[0])
    raise Refused(f"what a step makes of {name} is not understood")


def written(value: Sum, one: str) -> str:
    """A sum as code; `one` is how a one is written."""
    parts = [("-" if s < 0 else "+", t or one) for s, t in sorted(value, key=lambda v: -v[0])]
    if not parts:
        return ""
    first = f"-{parts[0][1]}" if parts[0][0] == "-" else parts[0][1]
    return " ".join([first, *(f"{sign} {text}" for sign, text in parts[1:])])


def _mentions(tree: SourceTree, node: Node, name: str) -> bool:
    return any(n.type == "identifier" and tree.code_of(n) == name for n in walk(node))


def _affine(tree: SourceTree, node: Node, name: str) -> Affine:
    node = unwrapped(node)
    if not _mentions(tree, node, name):
        return Affine((), ((1, tree.text_of(node)),))
    if node.type == "identifier":
        return Affine(((1, ""),), ())
    if node.type == "call_expression" and tree.code_of(field(node, "function")) in _FUSED:
        first, second, third = field(node, "arguments").named_children
        return _product(tree, first, second, name).plus(_affine(tree, third, name), 1)
    if node.type == "unary_expression" and operator_of(node) == "-":
        return Affine((), ()).plus(_affine(tree, field(node, "argument"), name), -1)
    if node.type == "binary_expression":
        left, right, operator = field(node, "left"), field(node, "right"), operator_of(node)
        if operator in ("+", "-"):
            return _affine(tree, left, name).plus(_affine(tree, right, name), 1 if operator == "+" else -1)
        if operator == "*":
            return _product(tree, left, right, name)
        if operator == "/" and not _mentions(tree, right, name):
            return _affine(tree, left, name).times(tree.text_of(right), "/")
    raise Refused(f"what a step makes of {name} is not understood")


def _product(tree: SourceTree, left: Node, right: Node, name: str) -> Affine:
    if _mentions(tree, left, name) and _mentions(tree, right, name):
        raise Refused(f"what a step makes of {name} is not understood")
    inner, outer = (left, right) if _mentions(tree, left, name) else (right, left)
    return _affine(tree, inner, name).times(tree.text_of(unwrapped(outer)))


def _scaled(value: Sum, text: str, sign: str) -> Sum:
    by = f"({text})" if _LOOSE.search(_flat(text)) or (sign == "/" and re.search(r"[*/%]", text)) else text
    found = list[tuple[int, str]]()
    for factor, own in value:
        if not own:
            found.append((factor, by if sign == "*" else f"1 / {by}"))
            continue
        inner = f"({own})" if re.search(r"[-+?<>&|^=,/%]", _flat(own)) else own
        found.append((factor, f"{by} * {inner}" if sign == "*" else f"{inner} / {by}"))
    return tuple(found)


def _flat(text: str) -> str:
    """The text outside brackets."""
    depth, kept = 0, list[str]()
    for char in text.replace("->", "."):
        depth -= char in ")]}"
        if depth == 0:
            kept.append(char)
        depth += char in "([{"
    return "".join(kept)
