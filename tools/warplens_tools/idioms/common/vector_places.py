# SPDX-License-Identifier: Apache-2.0
"""Which elements lie side by side in memory, so that one vector may hold several of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import WORD, View, field, operator_of, unwrapped

_LOADED = re.compile(r"__ld\w+")


class Addressed(msgspec.Struct, frozen=True):
    """One element that is read: its address as an expression, and the variable whose next value is its neighbour's."""

    address: str
    #: "" where neighbours of no variable are known to lie side by side.
    along: str


#: What each name rests on: names of axes, of loops' variables.
Rests = Mapping[str, frozenset[str]]


def addressed(view: View, place: Node, variables: tuple[str, ...], rests: Rests) -> Addressed:
    """An element, or the `__ldg` of one. `variables`: those of which one may count along memory.

    Raises:
        Refused: the element has no address that could be written.
    """
    if place.type == "call_expression":
        given = field(place, "arguments").named_children
        if len(given) != 1 or not _LOADED.fullmatch(view.code(field(place, "function"))):
            raise Refused("an element is read by a call that is not known")
        inner = given[0]
        is_address = inner.type == "pointer_expression" and view.code(inner).startswith("&")
        element = unwrapped(field(inner, "argument")) if is_address else inner
        return Addressed(view.written(inner), _along(view, element, variables, rests))
    return Addressed(f"&{view.written(place)}", _along(view, place, variables, rests))


def _along(view: View, element: Node, variables: tuple[str, ...], rests: Rests) -> str:
    """The variable that is a term of the element's index by itself, and that nothing else of the element rests on."""
    index = _index(view, element)
    if index is None:
        return ""
    terms = list(_terms(index))
    for name in variables:
        alone = [t for t in terms if t.type == "identifier" and view.code(t) == name]
        words = WORD.findall(view.code(element))
        others = (w for w in words if w != name and name in rests.get(w, ()))
        if len(alone) == 1 and words.count(name) == 1 and not any(others):
            return name
    return ""


def _index(view: View, element: Node) -> Node | None:
    if element.type == "subscript_expression":
        listed = field(element, "indices").named_children
        return listed[0] if len(listed) == 1 else None
    if element.type == "pointer_expression" and view.code(element).startswith("*"):
        return unwrapped(field(element, "argument"))
    return element if element.type == "binary_expression" else None


def _terms(node: Node) -> list[Node]:
    """What is added up to an index; nothing that is taken off."""
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == "+":
        return [*_terms(field(node, "left")), *_terms(field(node, "right"))]
    if node.type == "binary_expression" and operator_of(node) == "-":
        return _terms(field(node, "left"))
    return [node]
