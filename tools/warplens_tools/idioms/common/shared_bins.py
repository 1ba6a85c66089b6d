# SPDX-License-Identifier: Apache-2.0
"""Bins in shared memory: an array that is zeroed, that a block's threads add to by atomics, and that is read then."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.passes import is_unconditional
from warplens_tools.rewrite.common.reading import View, field, squeezed, unwrapped

_ATOMIC = re.compile(r"(?:::)?atomicAdd(?:_block)?")
_ZERO = re.compile(r"(?:\(\w+\))?0*\.?0*[fFuUlL]*")
_CHANGING = frozenset({"call_expression", "update_expression", "assignment_expression"})


class Read(msgspec.Struct, frozen=True):
    """A statement that reads bins: one bin by one index, wherever it stands there."""

    statement: Node
    index: Node
    places: tuple[Node, ...]


class Bins(msgspec.Struct, frozen=True):
    """One array of bins, with every use of it."""

    array: ArrayDeclaration
    count: int
    bytes: int
    #: What atomics add to: `bins[i]`, or the name in `bins + i`.
    added: tuple[Node, ...]
    #: Assignments of zero, as statements, each with its element.
    zeroed: tuple[tuple[Node, Node], ...]
    read: tuple[Read, ...]


def bins_of(view: View, array: ArrayDeclaration) -> Bins:
    """The uses of a shared array as bins.

    Raises:
        Refused: it is used in another way.
    """
    count = array.sizes[0] if len(array.sizes) == 1 else None
    size = type_bytes(view.concrete(array.element_type))
    if (
        array.space != "shared"
        or array.dynamic
        or count is None
        or size is None
        or len(array.extent_spans) != 1
    ):
        raise Refused("no shared array of a known size is counted in")
    added, zeroed, found = list[Node](), list[tuple[Node, Node]](), list[Node]()
    for name in _uses(view, array.name):
        element = name.parent
        if element is None:
            continue
        if element.type == "binary_expression" and _is_added(view, element, element):
            added.append(name)
            continue
        if element.type != "subscript_expression" or field(element, "argument").id != name.id:
            raise Refused(f"{array.name} is used otherwise than to count in")
        outer = element.parent
        if outer is not None and outer.type == "pointer_expression":
            if not _is_added(view, outer, element):
                raise Refused(f"{array.name} is used otherwise than to count in")
            added.append(element)
        elif outer is not None and outer.type == "assignment_expression" and _is_left(outer, element):
            zeroed.append((_zeroing(view, outer), element))
        elif outer is not None and outer.type == "update_expression":
            raise Refused(f"{array.name} is used otherwise than to count in")
        else:
            found.append(element)
    if not added or not zeroed or not found:
        raise Refused("no shared array is zeroed, added to by atomics, and read then")
    last = max(n.end_byte for n in added)
    if any(n.start_byte < last for n in found):
        raise Refused(f"{array.name} is read while it is counted in")
    return Bins(array, count, size, tuple(added), tuple(zeroed), tuple(_reads(view, found)))


def _uses(view: View, name: str) -> Iterator[Node]:
    """Every occurrence of the array but its declaration."""
    for node in walk(view.body):
        outer = node.parent
        if node.type != "identifier" or view.code(node) != name or outer is None:
            continue
        if outer.type == "array_declarator" and field(outer, "declarator").id == node.id:
            continue
        yield node


def _is_left(assignment: Node, element: Node) -> bool:
    return field(assignment, "left").id == element.id


def _is_added(view: View, address: Node, element: Node) -> bool:
    """Whether an address is what an atomic whose result nobody uses adds to."""
    listed = address.parent
    call = listed.parent if listed is not None and listed.type == "argument_list" else None
    if call is None or listed is None or listed.named_children[0].id != address.id:
        return False
    if not _ATOMIC.fullmatch(view.code(field(call, "function"))) or not view.is_plain_enough(element):
        return False
    return call.parent is not None and call.parent.type == "expression_statement"


def _zeroing(view: View, assignment: Node) -> Node:
    statement = assignment.parent
    plain = field(assignment, "operator").type == "=" and _ZERO.fullmatch(
        squeezed(view.code(unwrapped(field(assignment, "right"))))
    )
    if statement is None or statement.type != "expression_statement" or not plain:
        raise Refused("bins begin at something else than zero")
    if not view.is_plain_enough(statement):
        raise Refused("a macro writes what would have to change")
    return statement


def _reads(view: View, found: list[Node]) -> Iterator[Read]:
    """Each statement that reads bins.

    Raises:
        Refused: it reads several, or one under a condition of its own.
    """
    tops: dict[int, tuple[Node, list[Node]]] = {}
    for element in found:
        top = _statement(element, found)
        tops.setdefault(top.id, (top, []))[1].append(element)
    for top, elements in tops.values():
        indices = {squeezed(view.code(field(e, "indices"))) for e in elements}
        index = field(elements[0], "indices").named_children[0]
        if len(indices) != 1 or any(n.type in _CHANGING for n in walk(index)):
            raise Refused("a statement reads several bins")
        if not any(is_unconditional(e, top) for e in elements) or not view.is_plain_enough(top):
            raise Refused("a bin is read under a condition of its own")
        yield Read(top, index, tuple(elements))


def _statement(element: Node, found: list[Node]) -> Node:
    """The statement that reads a bin: all of an `if` whose condition reads one."""
    node = element
    while not node.type.endswith("_statement") and node.type != "declaration":
        if node.parent is None:
            raise Refused("bins are read where no statement is")
        node = node.parent
    outer = node.parent
    while outer is not None and outer.type in ("if_statement", "compound_statement"):
        if outer.type == "if_statement" and any(holds(field(outer, "condition"), e) for e in found):
            node = outer
        outer = outer.parent
    if node.type not in ("expression_statement", "if_statement", "declaration"):
        raise Refused("bins are read by a loop or a jump")
    return node
