# SPDX-License-Identifier: Apache-2.0
"""How large a number that a kernel is given may be, by the ends of the kernel's own arrays.

A kernel that keeps a row in `int row[MAX_LENGTH + 1]` and walks it with `j <= length` has no result for longer rows: it
leaves its array, which neither the card nor memcheck sees in a thread's local memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.writes import changes
from warplens_tools.tunable.source import File

_INDEX = re.compile(r"(\w+)(?:([+-])(\d+))?")
_TESTS = frozenset({"if_statement", "conditional_expression"})
_CONSTANT = re.compile(r"\b(?:k[A-Z]|[A-Z][A-Z_0-9]+\b)")
_ENDS = {"<": -1, "!=": -1, "<=": 0}


def largest_that_fit(file: File, kernel: str) -> dict[int, int]:
    """By integer parameter the largest number that leads the kernel to no element past one of its own arrays.

    Only what the text says plainly counts: an array of known extents, an index that is the parameter or counts up to
    it, give or take a number, no test of either around or before it, and a parameter that is never assigned.
    """
    defined = file.model.kernel(kernel)
    expanded = kernel_tree(file.tree, defined) if defined is not None else None
    if defined is None or expanded is None:
        return {}
    ends = _Ends(expanded.tree, expanded.function.body, defined)
    return {
        i: least for i, p in enumerate(defined.parameters) if (least := ends.least_of(p.name)) is not None
    }


class _Ends:
    """One kernel's own arrays and what they are indexed by."""

    def __init__(self, tree: SourceTree, body: Node, kernel: Kernel) -> None:
        self._tree, self._body = tree, body
        self._sizes = {
            a.name: a.sizes for a in kernel.arrays if a.space in ("shared", "local") and not a.dynamic
        }
        self._numbers = frozenset(p.name for p in kernel.parameters if not p.pointer)

    def least_of(self, name: str) -> int | None:
        """The largest number that all uses allow; None where none says anything."""
        body = self._tree.masked.code[self._body.start_byte : self._body.end_byte].decode("ascii")
        if name not in self._numbers or changes(self._tree, body, name, by_call="none"):
            return None
        return min(self._allowed(name), default=None)

    def _allowed(self, name: str) -> Iterator[int]:
        for node in walk(self._body):
            extent = self._extent(node) if node.type == "subscript_expression" else None
            index = _INDEX.fullmatch(self._index(node)) if extent is not None else None
            if extent is None or index is None:
                continue
            last = 0 if index[1] == name else self._last(node, index[1], name)
            if last is None or self._is_tested(node, index[1], name):
                continue
            step = int(f"{index[2] or ''}{index[3] or 0}")
            yield extent - 1 - last - step

    def _extent(self, node: Node) -> int | None:
        """Elements along the axis that a subscript is of."""
        depth, inner = 0, node.child_by_field_name("argument")
        while inner is not None and inner.type == "subscript_expression":
            depth, inner = depth + 1, inner.child_by_field_name("argument")
        sizes = self._sizes.get(self._tree.code_of(inner)) if inner is not None else None
        return sizes[depth] if sizes is not None and depth < len(sizes) else None

    def _index(self, node: Node) -> str:
        argument = node.child_by_field_name("argument")
        rest = (c for c in node.named_children if argument is None or c.id != argument.id)
        return "".join("".join(self._tree.code_of(c).split()) for c in rest).strip("[]")

    def _last(self, node: Node, counter: str, name: str) -> int | None:
        """By how much the last value of the counter of a loop around a node is more than a number; None if it does not
        count up to it."""
        loop = node.parent
        while loop is not None and loop.id != self._body.id:
            condition = loop.child_by_field_name("condition") if loop.type in LOOPS else None
            words = "".join(self._tree.code_of(condition).split()) if condition is not None else ""
            found = re.fullmatch(rf"\(?{re.escape(counter)}(<=|<|!=){re.escape(name)}\)?", words)
            if found:
                return _ENDS[found[1]]
            loop = loop.parent
        return None

    def _is_tested(self, node: Node, counter: str, name: str) -> bool:
        """Whether a test around a node, or before it, may hold the counter or the number against another end."""
        for other in walk(self._body):
            test = other.child_by_field_name("condition") if other.type in _TESTS else None
            if test is None or other.start_byte > node.start_byte:
                continue
            code = self._tree.code_of(test)
            held = {self._tree.code_of(one) for one in walk(test) if one.type == "identifier"}
            constant = any(one.type == "number_literal" for one in walk(test)) or _CONSTANT.search(code)
            if (counter != name and counter in held and not held <= {counter, name}) or (
                held & {counter, name} and constant
            ):
                return True
        return False
