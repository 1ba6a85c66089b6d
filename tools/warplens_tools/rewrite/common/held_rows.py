# SPDX-License-Identifier: Apache-2.0
"""Which elements of a row a thread can keep from one pass over it to the next."""

from __future__ import annotations

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.common.passes import Group, Place, is_unconditional, place_of
from warplens_tools.rewrite.common.reading import View, field

#: Bytes of the largest element that is kept.
_WIDEST = 8


class Row(msgspec.Struct, frozen=True):
    """An element that several passes access, kept by each thread."""

    place: Place
    type: str
    #: Name of the pointer in the text.
    base: str
    #: Accesses of each pass, in text order.
    uses: tuple[tuple[Node, ...], ...]

    @property
    def first(self) -> int:
        """The pass that has it first."""
        return next(k for k, uses in enumerate(self.uses) if uses)

    @property
    def last(self) -> int:
        """The last pass that reads it; the first of all where none does."""
        return max((k for k, uses in enumerate(self.uses) if any(map(reads, uses))), default=0)


def reads(element: Node) -> bool:
    """Whether an access reads its element: it is no target of a plain `=`."""
    outer = element.parent
    if outer is None or outer.type != "assignment_expression" or field(outer, "left").id != element.id:
        return True
    return field(outer, "operator").type != "="


def kept_rows(view: View, group: Group, taken: frozenset[str], wanted: tuple[str, ...]) -> tuple[Row, ...]:
    """What to keep of a group's rows: `wanted` limits the arrays, `taken` are those that a launch passes twice."""
    if "" in group.stored:
        return ()
    found: dict[Place, list[list[Node]]] = {}
    for number, one in enumerate(group.passes):
        for element in view.elements(one.body):
            place = place_of(view, one, element) if view.space(element) == "global" else None
            if place is not None:
                found.setdefault(place, [[] for _ in group.passes])[number].append(element)
    rows = []
    for place, uses in found.items():
        if wanted and place.array not in wanted:
            continue
        row = Row(place, "", "", tuple(map(tuple, uses)))
        row = msgspec.structs.replace(
            row, type=_plain(view.element(row.uses[row.first][0])), base=_base(view, row)
        )
        if _is_held(view, group, row, taken):
            rows.append(row)
    return tuple(rows)


def _plain(written: str) -> str:
    return " ".join(w for w in written.split() if w != "const")


def _base(view: View, row: Row) -> str:
    argument = row.uses[row.first][0].child_by_field_name("argument")
    plain = argument is not None and argument.type == "identifier"
    return view.code(argument) if plain and argument is not None else row.place.array


def _is_held(view: View, group: Group, row: Row, taken: frozenset[str]) -> bool:
    array = row.place.array
    size = type_bytes(view.concrete(row.type))
    if row.last <= row.first or size is None or size > _WIDEST:
        return False
    if array in taken and (group.stored & taken) - {array}:
        return False
    used = [e for uses in row.uses for e in uses]
    if any(not view.is_plain_enough(e) or view.names(e) & group.changed for e in used):
        return False
    if group.stored - {array} and not _is_placed_before(view, group, row):
        return False
    if array in group.stored and not _is_alone(view, group, row):
        return False
    return not _is_passed(view, group, array) and _is_loaded(group, row)


def _is_placed_before(view: View, group: Group, row: Row) -> bool:
    """Whether what is loaded to tell where the row is was loaded before the first pass."""
    loads = [view.forms.loads.get(s.name) for symbols, _ in row.place.rest for s in symbols if s.opaque]
    return all(n is not None and n.end_byte <= group.span[0].start_byte for n in loads)


def _is_alone(view: View, group: Group, row: Row) -> bool:
    """Whether no other element of its array is accessed from the first pass to the last."""
    own = {e.id for uses in row.uses for e in uses}
    every = [e for n in group.span for e in view.elements(n)]
    return all(e.id in own for e in every if view.array(e) in (row.place.array, ""))


def _is_passed(view: View, group: Group, array: str) -> bool:
    """Whether the pointer, or an element's address, is used otherwise than to access an element."""
    for node in (n for s in group.span for n in walk(s)):
        outer = node.parent
        if node.type == "subscript_expression" and view.array(node) == array:
            if outer is not None and outer.type == "pointer_expression" and view.code(outer).startswith("&"):
                return True
        elif node.type == "identifier" and outer is not None and outer.type != "subscript_expression":
            pointer = view.pointers.pointer(node)
            if pointer is not None and pointer.name == array and not _is_in_base(node):
                return True
    return False


def _is_in_base(node: Node) -> bool:
    """Whether a pointer stands in `(p + n)[i]`, or is the name that a declaration gives."""
    outer = node.parent
    while outer is not None and outer.type in ("parenthesized_expression", "binary_expression"):
        node, outer = outer, outer.parent
    return outer is not None and outer.type == "subscript_expression"


def _is_loaded(group: Group, row: Row) -> bool:
    """Whether the first pass has the element in every iteration."""
    one = group.passes[row.first]
    return any(is_unconditional(e, one.body) for e in row.uses[row.first])
