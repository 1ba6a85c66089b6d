# SPDX-License-Identifier: Apache-2.0
"""A kernel opened for editing: its reader, its launches, its edits, and what its file calls constants."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import parse_tree, walk
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.rewrite.base import Apply, Refused, RewriteResult, Target
from warplens_tools.rewrite.common.counting import LOOPS
from warplens_tools.rewrite.common.deduced import given_numbers
from warplens_tools.rewrite.common.groups import Style, style_of
from warplens_tools.rewrite.common.iterations import LoopReader
from warplens_tools.rewrite.common.launches import Launch, Launches
from warplens_tools.rewrite.common.normal_calls import written_out
from warplens_tools.rewrite.common.refusal import expanded_kernel, refusing
from warplens_tools.rewrite.common.statements import KernelEdits
from warplens_tools.text import SourceText, TextEdit

_TIGHTER = frozenset({"*", "/", "%"})
_SIMPLE = re.compile(r"[A-Za-z_]\w*|\d+")


class Opened:
    """One kernel with all that a rewrite of its threads reads and changes.

    Raises:
        Refused: a function walks memory for its threads, and its loop could stand in the kernel.
    """

    def __init__(self, text: SourceText, model: SourceModel, kernel: Kernel) -> None:
        file = parse_tree(text)
        expanded = expanded_kernel(file, kernel)
        if written_out(text, file, kernel, loops=True):
            raise Refused("a function that the kernel calls walks memory by itself")
        self.text, self.model, self.kernel = text, model, kernel
        self.reader = LoopReader(expanded, file, kernel)
        self.launches = Launches(text, model, kernel)
        self.reader.given = given_numbers(file, kernel, self.launches.sites)
        self.edits = KernelEdits(text, expanded)

    def all_edits(self) -> tuple[TextEdit, ...]:
        """Those of the kernel, then those of its launches."""
        return (*self.edits.edits(), *self.launches.edits())

    @property
    def style(self) -> Style:
        """How the file names and indents."""
        return style_of(self.kernel.name, self.edits.unit)

    def first_statement(self) -> Node:
        """The body's first statement."""
        found = next((c for c in self.reader.body.named_children if c.type != "comment"), None)
        if found is None:
            raise Refused("the kernel does nothing")
        return found

    def rows(self) -> frozenset[int]:
        """Offsets of the loops that go by the size of the grid: each iteration is another piece of work."""
        found = set()
        for node in walk(self.reader.body):
            if node.type in LOOPS:
                step = self.reader.forms.loop(node).step
                if step is not None and any(s.kind == "grid size" for s in step.symbols):
                    found.add(node.start_byte)
        return frozenset(found)

    def constant(self, value: int, *words: str) -> tuple[str, str]:
        """A name for a number in the file's style, and its definition, "" where the file has that already."""
        camel = "k" + "".join(w.capitalize() for w in words)
        upper = "_".join(words).upper()
        macros = bool(re.search(r"^\s*#\s*define\s+[A-Z_0-9]+\s+\(?\d", self.text.text, re.MULTILINE))
        macros = macros and "constexpr" not in self.text.text
        name = upper if macros else camel
        for _ in range(9):
            definition = f"#define {name} {value}" if macros else f"constexpr int {name} = {value};"
            at = self.text.text.find(definition)
            if 0 <= at < self._start() and re.search(
                rf"{re.escape(definition)}$", self.text.text, re.MULTILINE
            ):
                return name, ""
            fresh = self.edits.fresh(name)
            if fresh == name:
                return name, definition
            name = fresh
        raise Refused("no name is free for a constant")

    def _start(self) -> int:
        return (
            self.reader.expanded.function.start
            if self.reader.tree is parse_tree(self.text)
            else len(self.text.text)
        )

    def value_of(self, binding: Binding) -> Node | None:
        """What a variable of the kernel is initialised with."""
        return value_node(self.reader.tree, binding) if binding.value is not None else None

    def in_product(self, node: Node, new: str) -> str:
        """An expression `a / b` for a node, in brackets where what is around binds as tightly."""
        parent = node.parent
        operator = parent.child_by_field_name("operator") if parent is not None else None
        tight = parent is not None and parent.type in ("cast_expression", "unary_expression")
        return f"({new})" if tight or (operator is not None and operator.type in _TIGHTER) else new

    def count_of(self, launch: Launch, numbers: list[Node]) -> str:
        """What a launch passes as the bound of the thread's number; "" where there is none, or it is no plain name."""
        for bound in self._bounds(numbers):
            given = self.launches.argument(launch, bound)
            if _SIMPLE.fullmatch(given):
                return given
        return ""

    def _bounds(self, numbers: list[Node]) -> list[str]:
        """Parameters that the numbers of threads are compared with."""
        names = set()
        for node in numbers:
            holder = node.parent
            while holder is not None and holder.type in ("cast_expression", "parenthesized_expression"):
                holder = holder.parent
            name = holder.child_by_field_name("declarator") if holder is not None else None
            if name is not None and name.type == "identifier":
                names.add(self.reader.tree.code_of(name))
        parameters = {p.name for p in self.kernel.parameters if not p.pointer}
        found = []
        for node in walk(self.reader.body):
            operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
            if operator is None or operator.type not in ("<", ">="):
                continue
            left, right = (self.reader.tree.code_of(n) for n in (node.children[0], node.children[-1]))
            if left in names and right in parameters:
                found.append(right)
        return found


def opening(edit: Callable[[Opened], RewriteResult]) -> Apply:
    """`edit` as the `apply` of a rewrite that does all it can in a kernel: `Refused` becomes the refusal."""

    @refusing
    @functools.wraps(edit)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        del target
        return edit(Opened(text, model, kernel))

    return apply
