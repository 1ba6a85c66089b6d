# SPDX-License-Identifier: Apache-2.0
"""Where a part of a loop ends that goes through something in parts: `min(step, limit - from)` in
`for (from = 0; from < limit; from += step)`. What is smaller there is what the loop asks for itself, once more: no case
of its own, whichever of the two it comes to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree, walk

_CALL = re.compile(r"(?:(?:std|cuda::std)::|::)?min(?:<\w+>)?\((\w+),(\w+)-(\w+)\)\Z")
_TURNED = re.compile(r"(?:(?:std|cuda::std)::|::)?min(?:<\w+>)?\((\w+)-(\w+),(\w+)\)\Z")


def ends_a_part(atom: Node, guards: Iterable[Node], tree: SourceTree) -> bool:
    """Whether a condition is the smaller one of a loop's step and what the loop has left.

    Args:
        atom: of an edit.
        guards: the statements that it stands in.
        tree: the edited file's.
    """
    said = _plain(atom, tree)
    if found := _CALL.match(said):
        step, limit, begin = found.groups()
    elif found := _TURNED.match(said):
        limit, begin, step = found.groups()
    else:
        return False
    return any(_goes_by(loop, begin, limit, step, tree) for loop in guards if loop.type == "for_statement")


def _goes_by(loop: Node, begin: str, limit: str, step: str, tree: SourceTree) -> bool:
    """Whether a loop goes from one number below another by a third, and nothing in it sets any of these."""
    header = {part: loop.child_by_field_name(part) for part in ("condition", "update", "body")}
    condition, update, body = (header[part] for part in ("condition", "update", "body"))
    if condition is None or update is None or body is None:
        return False
    asked = _plain(condition, tree) in (f"{begin}<{limit}", f"{limit}>{begin}")
    goes = _plain(update, tree) in (f"{begin}+={step}", f"{begin}={begin}+{step}")
    return asked and goes and not {begin, limit, step} & _set_in(body, tree)


def _set_in(body: Node, tree: SourceTree) -> set[str]:
    """What is set anew, declared, or has its address taken."""
    fields = {
        "assignment_expression": "left",
        "update_expression": "argument",
        "pointer_expression": "argument",
        "init_declarator": "declarator",
    }
    found = ((node, fields[node.type]) for node in walk(body) if node.type in fields)
    return {
        _plain(part, tree).lstrip("&*")
        for node, f in found
        if (part := node.child_by_field_name(f)) is not None
    }


def _plain(node: Node, tree: SourceTree) -> str:
    return "".join(tree.code_of(node).split())
