# SPDX-License-Identifier: Apache-2.0
"""Where a kernel uses the structures of an array: one by its members, whole copies of it, and whole stores."""

from __future__ import annotations

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Parameter
from warplens_tools.cuda.syntax.tree import LOOPS, holds, is_assigned, walk
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.layouts import Record
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import JUMPS, View, assigned, field, operator_of, squeezed

NO_RECORDS = "it takes no array of structures whose layout the file tells"
_PIECES = (16, 8)
_PASSED = frozenset({"field_expression", "subscript_expression", "parenthesized_expression"})


class Group(msgspec.Struct, frozen=True):
    """The uses of one structure by its members, within one block of statements."""

    index: str
    uses: tuple[Node, ...]
    region: Node
    first: Node
    last: Node
    #: Some member is written.
    writes: bool


class Uses(msgspec.Struct):
    """What a kernel does with one array of structures."""

    parameter: Parameter
    record: Record
    #: Bytes moved at a time.
    piece: int
    copies: list[Node]
    #: Assignments of whole structures.
    puts: list[Node]
    groups: list[Group]


def read_uses(view: View, parameter: Parameter) -> Uses:
    """The uses of an array of structures.

    Raises:
        Refused: it is none, or some use of it is not understood.
    """
    record = layouts_of(view.tree).record(layouts_of(view.tree).plain(parameter.element_type))
    if not parameter.pointer or record is None or parameter.element_type in view.kernel.template_parameters:
        raise Refused(NO_RECORDS)
    piece = next((p for p in _PIECES if record.size % p == 0 and record.alignment < p), 0)
    if not piece:
        raise Refused("its structures are no whole pieces of 8 or 16 bytes")
    found = Uses(parameter, record, piece, [], [], [])
    members: dict[str, list[Node]] = {}
    for node in walk(view.body):
        if node.type == "identifier" and view.code(node) == parameter.name:
            _sort(view, node, found, members)
    for index, uses in members.items():
        if len({_path(view, use) for use in uses}) > 1:
            found.groups.append(_group(view, index, uses))
    grouped = {use.id for one in found.groups for use in one.uses}
    single = [use for uses in members.values() for use in uses if use.id not in grouped]
    if found.puts or any(_is_written(use) for uses in members.values() for use in uses):
        written = [one for one in found.groups if one.writes]
        if written and (len(found.groups) > 1 or single or found.copies or found.puts):
            raise Refused("one structure is written by its members while others are read")
        if not written and any(_is_written(use) for use in single):
            raise Refused("single members are written")
        if found.puts and found.groups:
            raise Refused("one structure is written by its members while others are read")
    return found


def _sort(view: View, node: Node, found: Uses, members: dict[str, list[Node]]) -> None:
    element = node.parent
    if element is None or element.type != "subscript_expression" or element.children[0].id != node.id:
        raise Refused("an array of structures is passed on")
    outer = element.parent
    if outer is None or not view.is_plain_enough(element):
        raise Refused("a macro writes what would have to change")
    if outer.type == "field_expression" and operator_of(outer) == ".":
        members.setdefault(squeezed(view.code(element)), []).append(element)
    elif outer.type == "init_declarator" and _is_copied(view, outer, found):
        found.copies.append(element)
    elif outer.type == "assignment_expression" and operator_of(outer) == "=":
        left = field(outer, "left").id == element.id
        if left and (outer.parent is None or outer.parent.type != "expression_statement"):
            raise Refused("a structure is stored within an expression")
        (found.puts if left else found.copies).append(outer if left else element)
    else:
        raise Refused("a structure is used in a way that is not understood")


def _is_copied(view: View, declarator: Node, found: Uses) -> bool:
    """Whether what is declared is a structure of its own, or a constant reference to one that nobody changes."""
    inner = field(declarator, "declarator")
    if inner.type == "identifier":
        return True
    declaration = declarator.parent
    constant = declaration is not None and "const" in view.code(declaration).split("=")[0].split()
    return constant and inner.type == "reference_declarator" and "const" in found.parameter.type.split()


def _path(view: View, element: Node) -> str:
    """The member of a structure that is used: ".pos" of `p[i].pos[2]`."""
    outer = element.parent
    return view.code(field(outer, "field")) if outer is not None else ""


def _group(view: View, index: str, uses: list[Node]) -> Group:
    """The uses of one structure, and the statements that are around them.

    Raises:
        Refused: it is not one and the same structure there, or may not be there.
    """
    region = uses[0].parent
    while region is not None and not (
        region.type == "compound_statement" and all(holds(region, u) for u in uses)
    ):
        region = region.parent
    if region is None:
        raise Refused("the uses of a structure are not understood")
    region = _around(view, uses[0], region)
    inside = [n for n in region.named_children if any(holds(n, u) for u in uses)]
    first, last = inside[0], inside[-1]
    _check_same(view, uses[0], region, first)
    if not _comes_to(uses[0], first):
        raise Refused("a structure is used under a condition")
    written = [use for use in uses if _is_written(use)]
    if any(_is_lent(view, use) for use in uses):
        raise Refused("a member's place is passed on")
    if written:
        begun = min(n.start_byte for n in written)
        between = [n for n in walk(region) if first.start_byte <= n.start_byte < last.end_byte]
        if any(n.type in JUMPS and n.start_byte > begun for n in between) or _waits(view, first, last):
            raise Refused("threads leave before a structure is stored")
        form = view.forms.form(field(uses[0], "indices"))
        form = form if form is not None else view.forms.form(field(uses[0], "indices").named_children[0])
        if form is None or form.uniform:
            raise Refused("a structure is not its thread's own")
    return Group(index, tuple(uses), region, first, last, bool(written))


def _around(view: View, use: Node, region: Node) -> Node:
    """The statements around a loop of constant length, where the structure is the same in each of its rounds."""
    loop = region.parent
    if loop is None or loop.type != "for_statement" or not _is_counted(loop):
        return region
    outer = loop.parent
    if outer is None or outer.type != "compound_statement":
        return region
    try:
        _check_same(view, use, outer, loop)
    except Refused:
        return region
    return _around(view, use, outer)


def _waits(view: View, first: Node, last: Node) -> bool:
    """Whether threads wait for each other between two statements."""
    code = view.tree.masked.code[first.start_byte : last.end_byte].decode("ascii")
    return "__sync" in code or "__shfl" in code


def _check_same(view: View, use: Node, region: Node, first: Node) -> None:
    """That the index is the same in all of a region, and known before its first statement."""
    indices = field(use, "indices")
    names = view.names(indices)
    if any(
        n.type in ("call_expression", "update_expression", "assignment_expression") for n in walk(indices)
    ):
        raise Refused("a structure's index is worked out anew")
    changed = {name for name, _ in assigned(region, view)}
    if names & changed or any(view.array(e) in changed for e in view.elements(indices)):
        raise Refused("a structure's index changes")
    for name in names - view.parameters:
        binding = view.expanded.constants.binding(name, use.start_byte)
        if binding is not None and first.start_byte <= binding.declaration[0] < first.end_byte:
            raise Refused("a structure's index changes")


def _comes_to(node: Node, statement: Node) -> bool:
    """Whether a statement always evaluates an expression in it."""
    child, outer = node, node.parent
    kept = {
        "if_statement": "condition",
        "conditional_expression": "condition",
        "while_statement": "condition",
    }
    while child.id != statement.id and outer is not None:
        if outer.type in kept:
            first = outer.child_by_field_name(kept[outer.type])
            if first is None or first.id != child.id:
                return False
        elif outer.type in LOOPS:
            body = outer.child_by_field_name("body")
            if body is not None and body.id == child.id:
                return outer.type == "for_statement" and _is_counted(outer)
        elif operator_of(outer) in ("&&", "||") and field(outer, "left").id != child.id:
            return False
        child, outer = outer, outer.parent
    return True


def _is_counted(loop: Node) -> bool:
    """Whether a loop's bound is a number, as that of a vector's components."""
    condition = loop.child_by_field_name("condition")
    right = condition.child_by_field_name("right") if condition is not None else None
    return right is not None and right.type == "number_literal" and (right.text or b"0") != b"0"


def _member(use: Node) -> Node:
    """The whole member behind a structure: `p[i].pos[2]`."""
    node = use
    while node.parent is not None and node.parent.type in _PASSED and node.parent.children[0].id == node.id:
        node = node.parent
    return node


def _is_written(use: Node) -> bool:
    node = _member(use)
    outer = node.parent
    if outer is None:
        return False
    return outer.type == "update_expression" or is_assigned(node)


def _is_lent(view: View, use: Node) -> bool:
    """Whether a member's address is taken, an array of it passed on, or a function of the file may change it."""
    node = _member(use)
    outer = node.parent
    if outer is None or (outer.type == "pointer_expression" and view.code(outer).startswith("&")):
        return True
    if outer.type == "init_declarator" and field(outer, "declarator").type != "identifier":
        return True
    call = outer.parent if outer.type == "argument_list" else None
    name = (
        view.code(field(call, "function")).split("<")[0]
        if call is not None and call.type == "call_expression"
        else ""
    )
    return (
        any("&" in one and "const" not in one for one in view.tree.parameter_lists(name)) if name else False
    )
