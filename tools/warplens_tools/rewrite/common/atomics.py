# SPDX-License-Identifier: Apache-2.0
"""Atomics that join values into a place in memory."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import View, field
from warplens_tools.rewrite.common.style import zero

_LARGEST = {"int": "0x7fffffff", "unsigned int": "0xffffffffu", "unsigned": "0xffffffffu"}
_SMALLEST = {"int": "(-0x7fffffff - 1)", "unsigned int": "0u", "unsigned": "0u"}
_LONG = {
    "unsigned long long",
    "unsigned long long int",
    "long long",
    "double",
    "float",
    "int",
    "unsigned int",
    "unsigned",
}


class Atomic(msgspec.Struct, frozen=True):
    """Atomics of one kind on one place."""

    name: str
    type: str
    target: Node
    statements: tuple[Node, ...]
    values: tuple[Node, ...]

    def neutral(self) -> str:
        """The value that changes nothing."""
        if self.name == "atomicMin":
            return _LARGEST[self.type]
        return _SMALLEST[self.type] if self.name == "atomicMax" else zero(self.type)

    def joined(self, left: str, right: str) -> str:
        """The statement that joins a value into another."""
        if self.name in ("atomicMax", "atomicMin"):
            return f"{left} = {self.name[6:].lower()}({left}, {right});"
        return f"{left} {'|=' if self.name == 'atomicOr' else '+='} {right};"


def read_atomic(view: View, name: str, call: Node) -> Atomic:
    """The atomic that a call is.

    Raises:
        Refused: its old value is used, it joins nothing, or of what type its result is is not known.
    """
    statement, given = call.parent, field(call, "arguments").named_children
    if name not in ("atomicAdd", "atomicMax", "atomicMin", "atomicOr") or len(given) != 2:
        raise Refused(f"{name} is no reduction")
    if statement is None or statement.type != "expression_statement" or not view.is_plain_enough(statement):
        raise Refused("the old value is used")
    written = target_type(view, given[0])
    if written not in _LONG:
        raise Refused("the type or place of the result is not known")
    if name != "atomicAdd" and written not in _LARGEST:
        raise Refused(f"{name} of {written} is not reduced")
    return Atomic(name, written, given[0], (statement,), (given[1],))


def target_type(view: View, node: Node) -> str:
    """The type behind a pointer to global memory: `out`, `&out[1]`, `&total->count`; "" where it is not known."""
    pointer = view.pointers.pointer(node)
    if pointer is not None:
        return pointer.element_type if pointer.space == "global" else ""
    member = re.fullmatch(r"&\s*\(?\s*(\w+)\s*->\s*([\w.]+)\s*\)?", view.code(node))
    owner = view.pointers.parameters.get(member[1]) if member else None
    if member is None or owner is None:
        return ""
    found = layouts_of(view.tree).member(owner.element_type, member[2])
    return found.type if found is not None and not found.pointer else ""
