# SPDX-License-Identifier: Apache-2.0
"""Pointers of a kernel's own, `const float* here = image + y * pitch`, as indices of what they point into."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.arithmetic_types import written_before
from warplens_tools.rewrite.base import Refused, Target
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, unwrapped
from warplens_tools.rewrite.common.statements import KernelEdits

#: What an edit that rests on it has to say.
FLAT_CAVEAT = "an array of 2^31 elements or more would be reached by an index that is too small"
#: Of what a pointer's place is summed, to be written out wherever it is used.
_PLAIN = frozenset(
    {"identifier", "number_literal", "binary_expression", "parenthesized_expression", "unary_expression"}
)
#: Pointers that are made of one another.
_DEEP = 4


def pointers_flat(view: View) -> View:
    """The kernel with the elements behind pointers of its own by an index of what those point into; the view itself
    where it has none.

    Raises:
        Refused: the kernel is none any more.
    """
    for _ in range(_DEEP):
        edits = KernelEdits(view.text, view.expanded)
        pointers = {
            d.name: d for n in walk(view.body) for d in plainly_declared_in(view, n) if _is_sum(view, d)
        }
        inner = [d for d in pointers.values() if not _names_in_values(view, d, pointers)]
        done = [d for d in inner if _write(view, edits, d)]
        if not done:
            break
        text = view.text.apply(list(edits.edits()))
        model = parse(text, view.model.path)
        kernel = model.same(view.kernel, view.model)
        if kernel is None or kernel.broken:
            raise Refused("the pointers are not understood")
        view = View(text, model, kernel)
    return view


def with_outputs(view: View, title: str, chain: Chain, target: Target) -> tuple[View, str, str]:
    """The kernel as a chain that gives each thread several outputs leaves it, its pointers flat; what flat pointers
    have to say, "" where there were none, and what the chain has.

    Raises:
        Refused: the chain is refused, or what it leaves is not understood.
    """
    flat = pointers_flat(view)
    found = chain.result(title, flat.text, flat.model, flat.kernel, target)
    if not found.edits:
        raise Refused(found.refused)
    after = flat.text.apply(list(found.edits))
    model = parse(after, view.model.path)
    again = model.same(flat.kernel, flat.model)
    if again is None or again.broken:
        raise Refused("the kernel is not understood with several outputs")
    return View(after, model, again), FLAT_CAVEAT if flat is not view else "", found.caveat


def _names_in_values(view: View, one: Declared, pointers: dict[str, Declared]) -> bool:
    """Whether another of the pointers is made of this one: that is written out first."""
    return any(d.value is not None and one.name in view.names(d.value) for d in pointers.values())


def _is_sum(view: View, one: Declared) -> bool:
    """Whether a variable is a pointer that begins as another plus integers, and stays."""
    if one.stars.strip() != "*" or one.value is None or not view.is_plain_enough(one.statement):
        return False
    alone = len(one.statement.children_by_field_name("declarator")) == 1
    still = all(name != one.name for name, _ in assigned(view.body, view))
    return alone and still and _parts(view, one.value) is not None


def _parts(view: View, value: Node) -> tuple[str, str] | None:
    """The pointer that a sum begins with, and the rest of it; None for anything else."""
    node = value
    while node.type == "binary_expression" and operator_of(node) in ("+", "-"):
        last, node = node, field(node, "left")
        if node.type == "identifier" and operator_of(last) == "+":
            rest = view.written(value)[len(view.written(node)) :].strip()
            plain = view.written(value).startswith(view.written(node)) and rest.startswith("+")
            is_pointer = view.pointers.pointer(node) is not None and _is_signed(view, value, view.code(node))
            return (view.code(node), rest[1:].strip()) if plain and is_pointer else None
    return None


def _is_signed(view: View, node: Node, base: str = "") -> bool:
    """Whether all variables of an index but `base` are integers that may be below zero, or as wide as an address: of
    others a sum may begin anew at zero."""
    parts = [n for n in walk(node) if n.is_named and n.type != "subscript_argument_list"]
    named = [n for n in parts if n.type == "identifier" and view.code(n) != base]
    if any(
        n.type not in _PLAIN or (n.type == "number_literal" and "u" in view.code(n).lower()) for n in parts
    ):
        return False
    return all(view.value(n) is not None or _is_wide(view, n) for n in named)


def _is_wide(view: View, name: Node) -> bool:
    binding = view.expanded.constants.binding(view.code(name), name.start_byte)
    kind = integer_type(written_before(view.expanded.tree, binding)) if binding is not None else None
    return kind is not None and (kind.bytes == 8 or (kind.signed and kind.bytes == 4))


def _write(view: View, edits: KernelEdits, one: Declared) -> bool:
    """The edits that write one pointer's elements as those of what it is made of; False where it is used otherwise."""
    parts = _parts(view, one.value) if one.value is not None else None
    uses = [n for n in walk(view.body) if n.type == "identifier" and view.code(n) == one.name]
    uses = [n for n in uses if n.start_byte >= one.statement.end_byte]
    elements = [n.parent for n in uses if n.parent is not None and _is_element(view, n.parent, n)]
    if parts is None or not uses or len(elements) != len(uses):
        return False
    if any(_changes(view, one, e) or not _is_signed(view, field(e, "indices")) for e in elements):
        return False
    base, rest = parts
    for element in elements:
        (index,) = field(element, "indices").named_children
        code = view.code(index)
        added = (
            ""
            if code == "0"
            else f" + {view.written(index)}"
            if _is_tight(index)
            else f" + ({view.written(index)})"
        )
        edits.replace(element, f"{base}[{rest}{added}]")
    edits.remove(one.statement)
    return True


def _is_element(view: View, node: Node, name: Node) -> bool:
    is_base = node.type == "subscript_expression" and unwrapped(field(node, "argument")).id == name.id
    return is_base and len(field(node, "indices").named_children) == 1 and view.is_plain_enough(node)


def _is_tight(node: Node) -> bool:
    """Whether an expression may stand behind a plus without parentheses."""
    if node.type == "binary_expression":
        return operator_of(node) in ("+", "-", "*", "/", "%")
    return node.type in (
        "identifier",
        "number_literal",
        "subscript_expression",
        "call_expression",
        "field_expression",
    )


def _changes(view: View, one: Declared, element: Node) -> bool:
    """Whether a name means something else at an element than where the pointer was made."""
    names = view.names(one.value) if one.value is not None else frozenset()
    constants = view.expanded.constants
    if any(
        constants.binding(n, element.start_byte) != constants.binding(n, one.statement.start_byte)
        for n in names
    ):
        return True
    loops = [n for n in walk(view.body) if n.type == "for_statement" and holds(n, one.statement)]
    headers = [u for n in loops if (u := n.child_by_field_name("update")) is not None]
    moved = [place for name, place in assigned(view.body, view) if name in names]
    return not all(any(holds(u, place) for u in headers) for place in moved)
