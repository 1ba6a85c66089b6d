# SPDX-License-Identifier: Apache-2.0
"""Loops that carry one variable from step to step, by a factor and a term: `h = keep * h + x[t]`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.affine import Affine, affine_step, written
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.kernel_reader import JOINED
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.reading import field, statements
from warplens_tools.rewrite.common.scans import check_apart

ONE = {"float": "1.0f", "double": "1.0", "unsigned": "1u", "unsigned int": "1u", "uint32_t": "1u"}


class Recurrence(msgspec.Struct, frozen=True):
    """The loop, the variable that it carries, and what a step makes of it."""

    loop: Counting
    name: str
    type: str
    step: Affine
    #: Declarations before the step.
    declared: tuple[Node, ...]
    #: Other variables that each step moves on, by how much, and the statements that do.
    stepped: tuple[tuple[str, str, Node], ...]
    #: The statement that takes the step.
    taken: Node


def read_recurrence(found: Opened, *, downward: bool = False) -> Recurrence:
    """The kernel's only loop, as a recurrence. `downward`: also one that goes down.

    Raises:
        Refused: it is none.
    """
    reader = found.reader
    if JOINED.search(reader.tree.code_of(reader.body)):
        raise Refused("threads work together already")
    loops = [n for n in walk(reader.body) if n.type in LOOPS]
    loop = counting(reader.expanded, loops[0]) if len(loops) == 1 else None
    if (
        loop is None
        or (loop.downward and not downward)
        or loop.step != "1"
        or len(loop.bounds) != 1
        or not loop.declared
    ):
        raise Refused("no loop walks down a column step by step")
    if loop.first is None:
        raise Refused("no loop walks down a column step by step")
    body = statements(loop.body)
    if any(n.type not in ("declaration", "expression_statement") for n in body):
        raise Refused("a step does more than to set variables and to store")
    check_apart(found, loop)
    return _carried(found, loop, body)


def _carried(found: Opened, loop: Counting, body: list[Node]) -> Recurrence:
    """The variable that the loop carries, with all else that it moves on."""
    tree, stepped, steps = found.reader.tree, list[tuple[str, str, Node]](), list[tuple[str, Node]]()
    inside = {n for s in body if s.type == "declaration" for n in _declared(found, s)}
    for node in body:
        whole = node.named_children[0] if node.type == "expression_statement" else node
        if node.type == "declaration" or _is_store(whole):
            continue
        target = whole.child_by_field_name("left") or whole.child_by_field_name("argument")
        if target is None or target.type != "identifier" or tree.code_of(target) in inside:
            raise Refused("a step does more than to set variables and to store")
        name, by = tree.code_of(target), _moved(found, whole, loop)
        if by:
            stepped.append((name, by, node))
        else:
            steps.append((name, whole))
    if len(steps) != 1 or len({n for n, _, _ in stepped}) != len(stepped):
        raise Refused("the loop carries no variable, or several")
    name, assignment = steps[0]
    kind = _type(found, name, assignment)
    before = [n for n in body if n.type == "declaration" and n.end_byte <= assignment.start_byte]
    moved = {n for n, _, _ in stepped}
    if any(name in _names(found, n) for n in before):
        raise Refused("a step makes more of what it carries than one sum")
    if assignment.type != "assignment_expression":
        raise Refused("the loop counts")
    step = affine_step(tree, assignment, name)
    if not step.factor or written(step.factor, "1") == "1":
        raise Refused("the loop only sums up")
    if integer_type(kind) is not None and "/" in written(step.factor, "1"):
        raise Refused("an integer is divided in each step")
    # what is moved on before the step is another place than behind it
    if any(n.start_byte < assignment.start_byte for _, _, n in stepped) or moved & {name}:
        raise Refused("an index moves on before the step")
    return Recurrence(loop, name, kind, step, tuple(before), tuple(stepped), assignment)


def _declared(found: Opened, statement: Node) -> set[str]:
    kinds = ("init_declarator", "declaration")
    return {
        found.reader.tree.code_of(n)
        for n in walk(statement)
        if n.type == "identifier" and n.parent is not None and n.parent.type in kinds
    }


def _is_store(node: Node) -> bool:
    target = node.child_by_field_name("left")
    return node.type == "assignment_expression" and target is not None and target.type != "identifier"


def _moved(found: Opened, node: Node, loop: Counting) -> str:
    """By what a statement moves an index or a pointer on in each step; "" for any other."""
    tree = found.reader.tree
    if node.type == "update_expression":
        return "1" if "++" in tree.code_of(node) else ""
    if node.type != "assignment_expression" or field(node, "operator").type != "+=":
        return ""
    binding = found.reader.binding(field(node, "left"))
    if binding is None:
        return ""
    start, end = binding.declaration
    kind = integer_type(_declared_type(found, start, end))
    right = field(node, "right")
    fixed = right.type in ("identifier", "number_literal") and tree.code_of(right) != loop.variable
    changed = any(tree.code_of(right) == name for name in _set_in(found, loop.body))
    is_index = binding.kind == "pointer" or kind is not None
    return tree.text_of(right) if fixed and not changed and is_index else ""


def _set_in(found: Opened, body: Node) -> set[str]:
    tree = found.reader.tree
    targets = (n.child_by_field_name("left") or n.child_by_field_name("argument") for n in walk(body)
               if n.type in ("assignment_expression", "update_expression"))  # fmt: skip
    return {tree.code_of(t) for t in targets if t is not None} | {
        name for n in walk(body) if n.type == "declaration" for name in _declared(found, n)
    }


def _declared_type(found: Opened, start: int, end: int) -> str:
    node: Node | None = found.reader.tree.root.descendant_for_byte_range(start, end)
    while node is not None and node.type not in ("declaration", "parameter_declaration"):
        node = node.parent
    kind = node.child_by_field_name("type") if node is not None else None
    return " ".join(found.reader.tree.code_of(kind).split()) if kind is not None else ""


def _type(found: Opened, name: str, assignment: Node) -> str:
    """The carried variable's type.

    Raises:
        Refused: it is the loop's own, or no number that may be multiplied in another order.
    """
    target = assignment.child_by_field_name("left") or assignment
    binding = found.reader.binding(target)
    if binding is None or found.reader.is_inside(binding, found.reader.body) is False:
        raise Refused(f"{name} is no variable of the thread's own")
    kind = _declared_type(found, *binding.declaration)
    if kind not in ONE:
        raise Refused(f"the type of {name} is not known to be one that may be multiplied in another order")
    return kind


def _names(found: Opened, node: Node) -> set[str]:
    return {found.reader.tree.code_of(n) for n in walk(node) if n.type == "identifier"}


def check_beside(found: Opened, one: Recurrence) -> None:
    """That steps do not read what others store, and that nothing rests on moved indices behind the loop.

    Raises:
        Refused: one does.
    """
    reader, loop = found.reader, one.loop
    written_to = {s.array: "".join(reader.tree.code_of(s.target).split()) for s in reader.stores(loop.node)}
    for node in walk(loop.node):
        if node.type in ("subscript_expression", "pointer_expression"):
            array, _ = reader.array_of(node)
            if array in written_to and "".join(reader.tree.code_of(node).split()) != written_to[array]:
                raise Refused("a step reads what another stores")
    moved = {name for name, _, _ in one.stepped}
    for node in walk(reader.body):
        if (
            node.start_byte >= loop.node.end_byte
            and node.type == "identifier"
            and reader.tree.code_of(node) in moved
        ):
            raise Refused("an index is used behind the loop")


def stores_before(found: Opened, one: Recurrence) -> list[Node]:
    """The statements before the loop that store to memory.

    Raises:
        Refused: one adds to it.
    """
    return _stores(found, lambda statement: statement.end_byte <= one.loop.node.start_byte)


def stores_behind(found: Opened, one: Recurrence) -> list[Node]:
    """The statements behind the loop that store to memory. Raises as `stores_before`."""
    return _stores(found, lambda statement: statement.start_byte >= one.loop.node.end_byte)


def _stores(found: Opened, lies_there: Callable[[Node], bool]) -> list[Node]:
    reader, stores = found.reader, list[Node]()
    for statement in walk(reader.body):
        if statement.type != "expression_statement" or not lies_there(statement):
            continue
        if reader.has_atomic(statement):
            raise Refused("it has an atomic beside its loop")
        if any(s.space != "local" for s in reader.stores(statement)):
            stores.append(statement)
    return stores
