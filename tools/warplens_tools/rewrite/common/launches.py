# SPDX-License-Identifier: Apache-2.0
"""Other grids and blocks for a kernel's launches, in terms of what the launch says now.

What a launch says may be anything that makes a size: `(n + 255) / 256`, a variable, a parameter, a `dim3`, a macro.
A number or an expression is scaled where it stands; a `dim3` variable in its declaration where this launch is its
only use, else at the launch: `dim3(grid.x * 32, grid.y)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree, walk
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.constants import constants_of
from warplens_tools.cuda.values.writes import changes, is_set_once
from warplens_tools.rewrite.base import Refused
from warplens_tools.text import SourceText, Span, TextEdit

AXES = "xyz"
#: As rewrites name constants.
_CONSTANT = re.compile(r"(?<![\w:.])k[A-Z]\w*")
#: Binds as tightly as `*` or tighter, so that it may stand before `* 32` as it is.
_TIGHT = re.compile(r"[\w.]+|\w+\s*(?:->\w+|\.\w+)*")


class Extents(msgspec.Struct, frozen=True):
    """The grid or the block of a launch: its texts, x first, and where a new one goes."""

    #: As written; of a variable `grid.x`, … An axis that is not written is missing.
    written: tuple[str, ...]
    #: What is replaced by `dim3(…)` or, where there is one extent that is no dim3, by that.
    span: Span
    #: Single extents that may be replaced in place; empty for a variable used elsewhere.
    places: tuple[Span, ...] = ()

    def axis(self, index: int) -> str:
        """The extent of an axis; "1" where none is written."""
        return self.written[index] if index < len(self.written) else "1"


class Launch(msgspec.Struct, frozen=True):
    """One launch of the kernel."""

    site: LaunchSite
    grid: Extents
    block: Extents


class Launches:
    """The launches of one kernel in its file, and edits of them."""

    def __init__(self, text: SourceText, model: SourceModel, kernel: Kernel) -> None:
        self.text, self.kernel = text, kernel
        self.tree: SourceTree = parse_tree(text)
        self.constants = constants_of(self.tree)
        self.sites = model.launches_of(kernel)
        self._edits: dict[Span, str] = {}

    def read(self) -> list[Launch]:
        """Every launch.

        Raises:
            Refused: there is none in this file, or one is written in a way that cannot be edited.
        """
        if not self.sites:
            raise Refused("no launch of the kernel is in this file, and its grid would have to change")
        return [Launch(s, self._extents(s.grid_span), self._extents(s.block_span)) for s in self.sites]

    def block_value(self, axis: int) -> int | None:
        """Threads of a block on an axis, where all launches agree on it and it is constant."""
        values = {site.block_value[axis] for site in self.sites}
        return values.pop() if len(values) == 1 else None

    def argument(self, launch: Launch, name: str) -> str:
        """What a launch passes for the kernel's parameter `name`; "" where that is not known."""
        index = next((i for i, p in enumerate(self.kernel.parameters) if p.name == name), -1)
        given = launch.site.arguments
        return given[index] if 0 <= index < len(given) == len(self.kernel.parameters) else ""

    def meaning(self, extent: str, launch: Launch) -> str:
        """What a variable of the host's, set once, was declared as: `n / 16` of `blocks`; else the text as it is."""
        at = launch.site.span
        node = self.tree.root.descendant_for_byte_range(*(self.text.offset(at.line, at.column),) * 2)
        binding = (
            self.constants.binding(extent, node.start_byte)
            if node is not None and extent.isidentifier()
            else None
        )
        value = value_node(self.tree, binding) if binding is not None and binding.value is not None else None
        if value is None or binding is None:
            return extent
        # the second of two variables that one `dim3` declares looks like a call that might change what it is given
        behind = self.tree.masked.code[binding.declaration[1] : binding.end].decode("ascii")
        return extent if changes(self.tree, behind, extent, by_call="none") else self.tree.text_of(value)

    def set(self, extents: Extents, values: dict[int, str]) -> None:
        """Give axes of a grid or a block other expressions."""
        if all(axis < len(extents.places) for axis in values):
            for axis, value in values.items():
                self._put(extents.places[axis], value)
            return
        count = max(len(extents.written), *(a + 1 for a in values))
        every = [values.get(axis, extents.axis(axis)) for axis in range(count)]
        self._put(extents.span, f"dim3({', '.join(every)})")

    def set_whole(self, extents: Extents, value: str) -> None:
        """Write a grid or a block anew, where it is launched or where the launch's own variable is declared."""
        if not extents.places or extents.span.contains(extents.places[0]):
            self._put(extents.span, value)
            return
        listed = value.removeprefix("dim3(").removesuffix(")") if value.startswith("dim3(") else value
        first, last = extents.places[0], extents.places[-1]
        self._put(Span(first.line, first.column, last.end_line, last.end_column), listed)

    def edits(self) -> tuple[TextEdit, ...]:
        """All changes, each once."""
        changed = {span: new for span, new in self._edits.items() if self.text.slice(span) != new}
        return tuple(TextEdit(span, self._reached(span, new)) for span, new in changed.items())

    def _reached(self, span: Span, new: str) -> str:
        """An expression whose new constants, which stand before the kernel, are named as the launch names that: with
        the kernel's namespace.
        """
        spaces = {site.kernel_name.rpartition("::")[0] for site in self.sites if not site.path}
        space = spaces.pop() if len(spaces) == 1 else ""
        if not space or "<" in space:
            return new
        kernel = self.text.offset(self.kernel.span.line, self.kernel.span.column)
        before = self.text.text[:kernel]
        inside = before[max(before.rfind(f"namespace {space.rpartition('::')[2]}"), 0) :]
        old = set(re.findall(r"\w+", self.text.slice(span)))
        words = set(re.findall(r"\w+", self.text.text))

        def named(found: re.Match[str]) -> str:
            name = found[0]
            beside = name not in words or f"constexpr int {name} =" in inside
            return f"{space}::{name}" if beside and name not in old else name

        return _CONSTANT.sub(named, new)

    def _put(self, span: Span, new: str) -> None:
        if self._edits.get(span, new) != new:
            raise Refused("its launches share a size that would have to change differently")
        self._edits[span] = new

    def _extents(self, span: Span) -> Extents:
        start = self.text.offset(span.line, span.column)
        end = self.text.offset(span.end_line, span.end_column)
        node = self.tree.root.descendant_for_byte_range(start, end) if end > start else None
        if node is None or self.tree.text_of(node) != self.text.slice(span):
            raise Refused("a launch is written by a macro")
        return self._of(node, span)

    def _of(self, node: Node, span: Span) -> Extents:
        listed = _listed(self.tree, node)
        if listed is not None and listed.named_child_count:
            return self._listed(listed, span)
        binding = self._variable(node)
        if binding is not None and binding.kind in ("dim3", "object", "plain"):
            found = self._of_variable(node, binding, span)
            if found is not None:
                return found
        return Extents((self.tree.text_of(node),), span, (span,))

    def _listed(self, listed: Node, span: Span) -> Extents:
        nodes = listed.named_children
        places = tuple(self.tree.span(n) for n in nodes)
        return Extents(tuple(self.tree.text_of(n) for n in nodes), span, places)

    def _variable(self, node: Node) -> Binding | None:
        if node.type != "identifier":
            return None
        return self.constants.binding(self.tree.code_of(node), node.start_byte)

    def _of_variable(self, node: Node, binding: Binding, span: Span) -> Extents | None:
        """A `dim3` variable or parameter; None for an integer."""
        name = self.tree.text_of(node)
        declared = self.tree.masked.code[binding.declaration[0] : binding.declaration[1]].decode("ascii")
        if not re.search(r"\bdim3\b", declared):
            return None
        value = value_node(self.tree, binding) if binding.value is not None else None
        listed = _listed(self.tree, value) if value is not None else None
        alone = sum(1 for _ in self._uses(name, binding)) == 1 and is_set_once(self.tree, binding)
        if listed is not None and listed.named_child_count and alone:
            return self._listed(listed, span)
        count = listed.named_child_count if listed is not None and is_set_once(self.tree, binding) else 3
        written = tuple(f"{name}.{axis}" for axis in AXES[: max(count, 1)])
        return Extents(written, span)

    def _uses(self, name: str, binding: Binding) -> Iterator[Node]:
        for node in walk(self.tree.root):
            if (
                node.type == "identifier"
                and self.tree.code_of(node) == name
                and not _is_declared(node, binding)
            ):
                found = self.constants.binding(name, node.start_byte)
                if found is not None and found.declaration == binding.declaration:
                    yield node


def _is_declared(node: Node, binding: Binding) -> bool:
    """Whether an identifier is where the variable gets its name: `t` of `dim3 t(16, 16), g(n / t.x)` once."""
    if not binding.declaration[0] <= node.start_byte < binding.declaration[1]:
        return False
    child, parent = node, node.parent
    while parent is not None and parent.type.endswith("_declarator"):
        name = parent.child_by_field_name("declarator")
        if name is not None and name.id != child.id:
            return False
        child, parent = parent, parent.parent
    return parent is not None and parent.type in ("declaration", "parameter_declaration")


def times(extent: str, factor: str) -> str:
    """`extent * factor`, with the brackets that it needs, or without a factor of 1."""
    if factor == "1":
        return extent
    if extent == "1":
        return factor
    left = extent if _is_product(extent) else f"({extent})"
    right = factor if _TIGHT.fullmatch(factor) else f"({factor})"
    return f"{left} * {right}"


def rounded_up(extent: str, each: str) -> str:
    """`(extent + each - 1) / each`, with the brackets that a shift or a choice needs."""
    loose = re.search(r"<<|>>|[?&|^]", _outside_brackets(extent))
    return f"({f'({extent})' if loose else extent} + {each} - 1) / {each}"


def _is_product(extent: str) -> bool:
    """Whether nothing in an expression, outside brackets, binds less tightly than `*`."""
    return re.search(r"[-+<>?&|^=!,~]", _outside_brackets(extent)) is None


def _outside_brackets(extent: str) -> str:
    depth, flat = 0, []
    for char in extent:
        depth -= char in ")]}"
        if depth == 0:
            flat.append(char)
        depth += char in "([{"
    return "".join(flat).replace("->", ".").replace("::", ".")


def _listed(tree: SourceTree, node: Node) -> Node | None:
    """The list of `dim3(…)`, `dim3{…}`, `{…}` or of a declaration's `(…)`, which of names alone is a parameter list."""
    if node.type in ("argument_list", "initializer_list", "parameter_list"):
        return node
    if node.type == "compound_literal_expression":
        return node.child_by_field_name("value")
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    is_dim3 = function is not None and tree.code_of(function).removeprefix("::") == "dim3"
    return node.child_by_field_name("arguments") if is_dim3 else None
