# SPDX-License-Identifier: Apache-2.0
"""Macros with parameters that say an element or its place, written out: `img[IDX(y, x)]` as `img[y * width + x]`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.text import SourceText, TextEdit

#: What is no expression, or no longer one when it stands elsewhere.
_NO_EXPRESSION = re.compile(r"[;{}#\"]|\b(?:do|for|if|while|return)\b")
_WHOLE_PLACES = frozenset({"subscript_argument_list", "argument_list", "init_declarator"})


def macros_out(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that write out all of them; () where there is none."""
    span = kernel.body
    low, high = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
    body = file.root.descendant_for_byte_range(low, high)
    if body is None or body.type != "compound_statement":
        return ()
    return tuple(_written_out(file, body))


def _written_out(file: SourceTree, body: Node) -> Iterator[TextEdit]:
    done = -1
    for node in walk(body):
        if node.type != "call_expression" or node.start_byte < done:
            continue
        new = _expansion(file, node)
        if new:
            done = node.end_byte
            yield TextEdit(file.span(node), new)


def _expansion(file: SourceTree, call: Node) -> str:
    """What one use of a macro stands for; "" for any other call."""
    function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    macro = file.macros.get(file.code_of(function).strip()) if function is not None else None
    if macro is None or macro.parameters is None or listed is None or call.parent is None:
        return ""
    new = file.macros.expand(file.code_of(call))
    if new is None or _NO_EXPRESSION.search(new) or call.parent.type == "expression_statement":
        return ""
    if "[" not in new and not _is_in_index(call):
        return ""
    new = " ".join(new.split())
    for one in listed.named_children:
        plain = file.code_of(one).strip()
        if re.fullmatch(r"\w+", plain):
            # brackets around a parameter, but not those of a cast or of a call
            new = re.sub(rf"(?<![\w)\]])\(\s*{plain}\s*\)(?=\s*(?:[-+*/%<>=!&|^?:,)\]]|$))", plain, new)
    return _bare(new) if call.parent.type in _WHOLE_PLACES else new


def _is_in_index(node: Node) -> bool:
    """Whether a node stands in the index of an element."""
    outer = node.parent
    while outer is not None and not outer.type.endswith("_statement"):
        if outer.type == "subscript_argument_list":
            return True
        outer = outer.parent
    return False


def _bare(code: str) -> str:
    """An expression without brackets around the whole of it."""
    depth = 0
    for at, char in enumerate(code):
        depth += (char == "(") - (char == ")")
        if depth == 0 and at < len(code) - 1:
            return code
    return code[1:-1].strip() if code.startswith("(") else code
