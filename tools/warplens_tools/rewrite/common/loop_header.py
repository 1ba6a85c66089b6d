# SPDX-License-Identifier: Apache-2.0
"""The head of a loop that counts up by one, as long for all outputs."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.outputs import Outputs
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, squeezed, unwrapped

UNEVEN = "the loop is not as long for all threads"


def header_of(view: View, outputs: Outputs, loop: Node, *, but: str = "") -> tuple[str, str, str]:
    """The loop's variable, its type and its first value; it counts up by one to an end that no axis changes, `but` one.

    Raises:
        Refused: it is another kind of loop.
    """
    initial, update = field(loop, "initializer"), view.code(field(loop, "update"))
    if initial.type == "declaration":
        declared = declared_in(view, initial)
        if len(declared) != 1 or declared[0].value is None:
            raise Refused("the loop is not over one variable")
        name, written, value = declared[0].name, declared[0].type, declared[0].value
    elif initial.type == "assignment_expression":
        name, value = view.code(field(initial, "left")), field(initial, "right")
        written = next((d.type for d in outputs.declared if d.name == name), "int")
    else:
        raise Refused("the loop is not over one variable")
    if squeezed(update) not in (f"{name}++", f"++{name}", f"{name}+=1", f"{name}={name}+1"):
        raise Refused("the loop does not count up by one")
    condition = field(loop, "condition")
    if operator_of(condition) not in ("<", "<=") or view.code(unwrapped(field(condition, "left"))) != name:
        raise Refused("the loop does not count up to a bound")
    if outputs.resting(view.names(condition) | view.names(value)) - {but}:
        raise Refused(UNEVEN)
    body = field(loop, "body")
    if any(n == name for n, _ in assigned(body, view)):
        raise Refused("the loop changes its variable")
    return name, written, view.written(value)
