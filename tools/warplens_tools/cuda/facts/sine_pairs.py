# SPDX-License-Identifier: Apache-2.0
"""Sines and cosines of one angle that two calls compute: `c = cosf(a), s = sinf(a)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.invariance import is_others
from warplens_tools.cuda.facts.own_names import is_own
from warplens_tools.cuda.facts.read_only import only_read
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.cuda.values.writes import changes

_CALLEE = re.compile(r"(?:::|std::)?(sin|cos)(pi)?(f?)")
#: What has an effect, or another value when it is evaluated again.
_CHANGING = frozenset({"call_expression", "update_expression", "assignment_expression", "lambda_expression"})
#: What reads memory, which a store in between may change.
_LOADS = frozenset({"subscript_expression", "pointer_expression"})
#: What may stand between a call and its statement so that the call always runs with it.
_STRAIGHT = frozenset({
    "argument_list", "assignment_expression", "binary_expression", "call_expression", "cast_expression",
    "comma_expression", "field_expression", "init_declarator", "initializer_list", "parenthesized_expression",
    "subscript_argument_list", "subscript_expression", "unary_expression",
})  # fmt: skip
_STATEMENTS = frozenset({"declaration", "expression_statement", "return_statement"})


class SinePair(msgspec.Struct, frozen=True):
    """Calls for the sine and for the cosine of one angle, in statements of one block that run together."""

    #: In text order, two or more, of the expanded tree.
    calls: tuple[Node, ...]
    sines: tuple[Node, ...]
    angle: Node
    #: What computes both: "sincosf".
    function: str
    type: Literal["float", "double"]
    #: The statement of the first call.
    first: Node
    #: Whether both may be computed before `first`: the angle is known there, and no store in between changes what it
    #: is loaded from.
    settled: bool


def sine_pairs(expanded: KernelTree, kernel: Kernel) -> Iterator[SinePair]:
    """Those of a kernel's own body, in text order of their first calls.

    Left out: calls that do not always run with their statement (`x ? sinf(a) : 0`), angles that are computed by calls
    or of numbers alone, and calls whose overload the text does not tell.
    """
    tree, body = expanded.tree, expanded.function.body
    code = tree.code_of(body)
    if "sin" not in code or "cos" not in code:
        return
    forms = FormReader(expanded)
    types = TypeReader(forms, PointerReader(kernel, forms))
    found: dict[Hashable, list[_Call]] = {}
    for node in tree.captures("(call_expression) @call", body).get("call", []):
        call = _read(expanded, types, node)
        if call is not None:
            said = "".join(tree.code_of(call.angle).split())
            key = (call.block, call.function, said, *_names(expanded, call.angle))
            found.setdefault(key, []).append(call)
    for calls in found.values():
        if {call.wave for call in calls} == {"sin", "cos"}:
            yield from _pairs(expanded, kernel, calls)


class _Call(msgspec.Struct, frozen=True):
    """A call for the sine or the cosine that has no effect but its value."""

    node: Node
    angle: Node
    wave: str
    #: What computes both.
    function: str
    #: What it always runs with, and the block that this stands in, by number; itself where it stands without braces.
    statement: Node
    block: int


def _read(expanded: KernelTree, types: TypeReader, call: Node) -> _Call | None:
    tree = expanded.tree
    function, angle = call.child_by_field_name("function"), _argument(call)
    callee = _CALLEE.fullmatch(tree.code_of(function)) if function is not None else None
    if callee is None or angle is None or any(n.type in _CHANGING for n in walk(angle)):
        return None
    kind = "float" if callee[3] else types.type(angle)
    statement = _statement(tree.code_of, call)
    if kind is None or statement is None or not any(True for _ in _names(expanded, angle)):
        return None
    ending = f"{callee[2] or ''}{'f' if kind == 'float' else ''}"
    called = callee[0].removeprefix("::").removeprefix("std::")
    if any(is_own(expanded, name, call) for name in (called, f"sincos{ending}")):
        return None
    outer = statement.parent
    in_braces = outer is not None and outer.type == "compound_statement"
    block = outer.id if outer is not None and in_braces else statement.id
    return _Call(call, angle, callee[1], f"sincos{ending}", statement, block)


def _statement(code_of: Callable[[Node], str], call: Node) -> Node | None:
    """The statement of a block that a call always runs with; None where a test stands between."""
    node = call.parent
    while node is not None and node.type in _STRAIGHT:
        operator = node.child_by_field_name("operator")
        if operator is not None and code_of(operator) in ("&&", "||"):
            return None
        node = node.parent
    if node is None or node.type not in _STATEMENTS or node.parent is None:
        return None
    return node if node.parent.type == "compound_statement" or _is_body(node, node.parent) else None


def _is_body(statement: Node, parent: Node) -> bool:
    """Whether a statement is all that a loop or a branch has, without braces."""
    bodies = (parent.child_by_field_name(name) for name in ("body", "consequence"))
    return parent.type == "else_clause" or any(b is not None and b.id == statement.id for b in bodies)


def _pairs(expanded: KernelTree, kernel: Kernel, calls: list[_Call]) -> Iterator[SinePair]:
    """The pair that calls of one text are; none where the angle may change between them."""
    angle, first, last = calls[0].angle, calls[0].statement, calls[-1].statement
    if _may_change(expanded, angle, first, last):
        return
    loads = _loaded(expanded, angle) if first.id != last.id else set()
    if loads and not loads <= only_read(expanded.tree.file, kernel):
        return
    apart = {p.name for p in kernel.parameters if p.restrict}
    yield SinePair(
        calls=tuple(call.node for call in calls),
        sines=tuple(call.node for call in calls if call.wave == "sin"),
        angle=angle,
        function=calls[0].function,
        type="float" if calls[0].function.endswith("f") else "double",
        first=first,
        settled=loads <= apart and not _is_declared_in(expanded, angle, first),
    )


def _argument(call: Node) -> Node | None:
    """The one argument of a call."""
    listed = call.child_by_field_name("arguments")
    given = [n for n in listed.named_children if n.type != "comment"] if listed is not None else []
    return given[0] if len(given) == 1 else None


def _names(expanded: KernelTree, angle: Node) -> Iterator[tuple[str, Binding | None]]:
    for node in walk(angle):
        if node.type == "identifier":
            name = expanded.tree.code_of(node)
            yield name, expanded.constants.binding(name, node.start_byte)


def _may_change(expanded: KernelTree, angle: Node, first: Node, last: Node) -> bool:
    """Whether a variable of the angle may be changed from `first` on, or its declaration there, until `last` ends."""
    tree = expanded.tree
    for name, found in _names(expanded, angle):
        start = max(first.start_byte, found.declaration[1] if found is not None else 0)
        code = tree.masked.code[start : last.end_byte].decode("ascii")
        unseen = found is not None and is_others(tree, found) and first.id != last.id
        if unseen or changes(tree, code, name):
            return True
    return False


def _loaded(expanded: KernelTree, angle: Node) -> set[str]:
    """What memory an angle is loaded from: every name of an angle that loads."""
    loads = any(n.type in _LOADS or "->" in expanded.tree.code_of(n) for n in walk(angle))
    kinds = ("pointer", "array")
    return (
        {name for name, found in _names(expanded, angle) if found is None or found.kind in kinds}
        if loads
        else set()
    )


def _is_declared_in(expanded: KernelTree, angle: Node, first: Node) -> bool:
    """Whether the statement of the first call declares a variable of the angle, too."""
    found = (binding for _, binding in _names(expanded, angle))
    return any(b is not None and b.declaration[1] > first.start_byte for b in found)
