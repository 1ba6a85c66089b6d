# SPDX-License-Identifier: Apache-2.0
"""Threads that one variable numbers, and the condition that limits it."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in
from warplens_tools.rewrite.common.digits import factors
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    operator_of,
    squeezed,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.thread_forms import declared_number


class FlatGuard(msgspec.Struct, frozen=True):
    """`if (i >= total) return;` or `if (i < total) { … }`."""

    statement: Node
    condition: Node
    limit: Node
    returns: bool


def flat_number(view: View, launches: Launches) -> Declared:
    """The variable that is the thread's number.

    Raises:
        Refused: there is none, or it is not all that tells threads apart.
    """
    code = view.code(view.body)
    if re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*[yz]\b|\bgridDim\b", code):
        raise Refused("its threads are numbered along several axes already")
    if len(re.findall(r"\bthreadIdx\b", code)) != 1:
        raise Refused("the kernel uses the thread's place in its block")
    declarations = (n for n in statements(view.body) if n.type == "declaration")
    every = (d for n in declarations for d in declared_in(view, n))
    found = declared_number(view, every, launches.read()[0].site)
    if found is None:
        raise Refused("the kernel does not number its threads")
    beside = len(declared_in(view, found.statement)) > 1
    if beside or any(name == found.name for name, _ in assigned(view.body, view)):
        raise Refused("the thread's number is changed")
    return found


def flat_guard(view: View, number: Declared) -> FlatGuard:
    """What limits the number.

    Raises:
        Refused: nothing does.
    """
    for node in statements(view.body):
        if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
            continue
        condition = unwrapped(field(node, "condition"))
        inside = statements(field(node, "consequence"))
        returns = len(inside) == 1 and inside[0].type == "return_statement"
        wanted = {">=": True, "<": False}.get(operator_of(condition))
        if condition.type != "binary_expression" or wanted is not returns:
            continue
        if view.code(unwrapped(field(condition, "left"))) == number.name:
            return FlatGuard(node, condition, field(condition, "right"), returns)
    raise Refused("nothing limits the thread's number")


def as_factor(text: str) -> str:
    """An expression as a factor."""
    plain = re.fullmatch(r"[\w.]+", squeezed(text)) or (text.startswith("(") and len(factors(text)) == 1)
    return text if plain else f"({text})"
