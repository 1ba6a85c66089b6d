# SPDX-License-Identifier: Apache-2.0
"""How a kernel numbers its threads: `blockIdx.x * blockDim.x + threadIdx.x`, in all its spellings."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.writes import is_set_once
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.kernel_reader import KernelReader

_BUILTINS = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_APART = frozenset({"/", "%", ">>", "&", "^", "|"})
_TRANSPARENT = frozenset({"parenthesized_expression", "cast_expression"})


class Numbering:
    """The uses of `threadIdx`, `blockIdx` and `blockDim` on one axis of a kernel.

    `block` is the block's extent on that axis, where the launches agree on it.
    """

    def __init__(self, reader: KernelReader, axis: str, block: int | None) -> None:
        self.reader, self.tree, self.axis, self.block = reader, reader.tree, axis, block
        uses = list(self._builtins())
        self.threads = [n for name, n in uses if name == "threadIdx"]
        self.blocks = [n for name, n in uses if name == "blockIdx"]
        self.sizes = [n for name, n in uses if name == "blockDim"]
        self.grids = [n for name, n in uses if name == "gridDim"]

    def _builtins(self) -> Iterator[tuple[str, Node]]:
        for node in walk(self.reader.body):
            if node.type != "field_expression":
                continue
            name, _, part = "".join(self.tree.code_of(node).split()).partition(".")
            if name in _BUILTINS and part == self.axis:
                yield name, node

    def followed(self, node: Node) -> list[Node]:
        """The uses of what a builtin is given to, `int tx = threadIdx.x;`, or the builtin itself."""
        holder = node.parent
        while holder is not None and holder.type in _TRANSPARENT:
            holder = holder.parent
        if holder is None or holder.type != "init_declarator":
            return [node]
        name = holder.child_by_field_name("declarator")
        binding = self.reader.binding(name) if name is not None and name.type == "identifier" else None
        if name is None or binding is None or not is_set_once(self.tree, binding):
            return [node]
        return [n for n in self.reader.occurrences(name) if n.id != name.id]

    def alias(self, node: Node) -> str:
        """The variable at the body's top that a builtin is given to; "" for none."""
        holder = node.parent
        name = holder.child_by_field_name("declarator") if holder is not None else None
        declaration = holder.parent if holder is not None else None
        if name is None or name.type != "identifier" or declaration is None or declaration.parent is None:
            return ""
        is_top = declaration.parent.id == self.reader.body.id
        return self.tree.code_of(name) if is_top and self.followed(node) != [node] else ""

    def check_whole(self) -> None:
        """Raises `Refused` where threads of a block are told apart otherwise than by their number."""
        for node in self.threads:
            for use in self.followed(node):
                if _is_apart(use):
                    raise Refused("the kernel divides the threads of a block already")

    def widths(self) -> list[Node]:
        """The factors of `blockIdx` that are the block's extent: `blockDim.x`, a number, a constant.

        Raises:
            Refused: blocks are numbered otherwise.
        """
        found = []
        for node in self.blocks:
            for use in self.followed(node):
                factor = _factor(use)
                if factor is None or not self._is_width(factor):
                    raise Refused("the kernel uses blockIdx otherwise than to number its threads")
                found.append(factor)
        return found

    def _is_width(self, node: Node) -> bool:
        written = "".join(self.tree.code_of(node).split()).strip("()")
        if written == f"blockDim.{self.axis}":
            return True
        if node.type == "identifier" and (binding := self.reader.binding(node)) is not None:
            if binding.value is not None and f"blockDim.{self.axis}" in binding.value:
                return True
            if binding.kind == "parameter" and binding.name in self.reader.kernel.template_parameters:
                return True  # a template's block size
        value = self.reader.expanded.constants.value(self.tree.code_of(node), node.start_byte)
        return value is not None and value == self.block

    def is_followed(self, node: Node) -> bool:
        """Whether a width is a variable that is made from the builtin, which is changed itself."""
        binding = self.reader.binding(node) if node.type == "identifier" else None
        return binding is not None and f"blockDim.{self.axis}" in (binding.value or "")

    def only_numbered(self) -> list[Node]:
        """As `numbered`, where threads and blocks are used for nothing else.

        Raises:
            Refused: they are.
        """
        found = self.numbered()
        for node in (*self.threads, *self.blocks):
            for use in self.followed(node):
                if not any(f.start_byte <= use.start_byte and use.end_byte <= f.end_byte for f in found):
                    raise Refused("the kernel uses the numbers of threads and blocks apart")
        return found

    def called(self) -> list[Node]:
        """Calls of a function of the file that gives the number of a thread."""
        return [node for node in self.numbered() if node.type == "call_expression"]

    def strides(self) -> list[Node]:
        """Expressions that are the number of all threads: `gridDim.x * blockDim.x`."""
        wanted = {f"gridDim.{self.axis}", f"blockDim.{self.axis}"}
        found = []
        for node in walk(self.reader.body):
            form = self.reader.forms.form(node) if node.type == "binary_expression" else None
            if form is None or len(form.terms) != 1 or form.terms[0][1] not in (1, self.block):
                continue
            names = {s.name for s in form.terms[0][0]}
            if names == wanted or (names == {f"gridDim.{self.axis}"} and form.terms[0][1] == self.block):
                found.append(node)
        return found

    def numbered(self) -> list[Node]:
        """The largest expressions that are the number of a thread in the grid."""
        found: list[Node] = []
        for node in walk(self.reader.body):
            inside = any(f.start_byte <= node.start_byte and node.end_byte <= f.end_byte for f in found)
            counts = node.type in ("binary_expression", "call_expression")
            if not inside and counts and self._is_number(node):
                found.append(node)
        return found

    def _is_number(self, node: Node) -> bool:
        form = self.reader.forms.form(node)
        if form is None or len(form.terms) != 2:
            return False
        names = {tuple(s.name for s in symbols): factor for symbols, factor in form.terms}
        thread, block, size = (f"{b}.{self.axis}" for b in ("threadIdx", "blockIdx", "blockDim"))
        width = names.get((block, size)) or names.get((size, block))
        if width is None and names.get((block,)) is not None:
            width = 1 if names[block,] == self.block else None
        return names.get((thread,)) == 1 and width == 1


def _is_apart(node: Node) -> bool:
    """Whether a use stands under a division, a remainder or a shift, before it is multiplied or stored."""
    parent = node.parent
    while parent is not None and parent.type in (*_TRANSPARENT, "binary_expression"):
        operator = parent.child_by_field_name("operator")
        if operator is not None and operator.type in _APART:
            return True
        if operator is not None and operator.type not in ("+", "-", "*"):
            return False
        parent = parent.parent
    return False


def _factor(node: Node) -> Node | None:
    """What a use is multiplied by."""
    child, parent = node, node.parent
    while parent is not None and parent.type in _TRANSPARENT:
        child, parent = parent, parent.parent
    if parent is None:
        return None
    if parent.type == "argument_list" and parent.named_child_count == 2:  # __umul24(blockIdx.x, blockDim.x)
        call = parent.parent
        function = call.child_by_field_name("function") if call is not None else None
        if function is None or (function.text or b"") not in (b"__mul24", b"__umul24"):
            return None
        return next(n for n in parent.named_children if n.id != child.id)
    operator = parent.child_by_field_name("operator")
    if parent.type != "binary_expression" or operator is None or operator.type != "*":
        return None
    left, right = parent.child_by_field_name("left"), parent.child_by_field_name("right")
    other = right if left is not None and left.id == child.id else left
    while other is not None and other.type in _TRANSPARENT:
        inner = other.child_by_field_name("value") or (
            other.named_children[0] if other.named_child_count else None
        )
        other = inner
    return other
