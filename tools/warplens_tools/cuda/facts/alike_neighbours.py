# SPDX-License-Identifier: Apache-2.0
"""What neighbouring threads load alike where a flat index is taken apart: with `c = i % channels`, all that hangs on
`i / channels` alone is the same for `channels` threads."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.lane_names import names_from
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form, Symbol
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

#: How a value hangs on the flat index: on its remainder, on its quotient alone, on neither, or nobody can tell.
Hangs = Literal["remainder", "quotient", "neither", "unknown"]

_LANE = "threadIdx.x"
_MAX_DEPTH, _WARP = 6, 32
_SPREADS = re.compile(r"[\w)]\s*%")


class AlikeNeighbours(msgspec.Struct, frozen=True):
    """Loads that neighbouring threads of one quotient make alike."""

    #: `c = i % channels`.
    span: Span
    #: "c" and "channels".
    remainder: str
    divisor: str
    #: The loads, in text order, and the arrays they are of.
    loads: tuple[Span, ...]
    names: tuple[str, ...]
    looped: bool


def alike_neighbours(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> AlikeNeighbours | None:
    """The loads that hang on the quotient alone, where another access hangs on the remainder; None where none do."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or not _SPREADS.search(expanded.tree.code_of(expanded.function.body)):
        return None
    reader = _Reader(expanded, kernel, block)
    split = reader.split()
    return reader.loads_alike(*split) if split is not None else None


class _Reader:
    def __init__(self, expanded: KernelTree, kernel: Kernel, block: Dim3) -> None:
        self.expanded, self.tree = expanded, expanded.tree
        self.body = expanded.function.body
        self.forms = FormReader(expanded, block)
        self.pointers = PointerReader(kernel, self.forms)

    def split(self) -> tuple[Node, str, str] | None:
        """The first `c = i % n` of a flat index that counts neighbouring threads."""
        for node in walk(self.body):
            operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
            if operator is None or operator.type != "%":
                continue
            whole = self.forms.form(node.child_by_field_name("left"))
            by = node.child_by_field_name("right")
            target = _target(node)
            if whole is None or by is None or target is None or whole.coefficient(_LANE) != 1:
                continue
            divisor = self.forms.form(by)
            if divisor is not None and divisor.value == _WARP:
                continue  # A warp for each: its lanes share what it goes through.
            return node, self.tree.code_of(target), " ".join(self.tree.code_of(by).split())
        return None

    def loads_alike(self, split: Node, remainder: str, divisor: str) -> AlikeNeighbours | None:
        following = names_from(self.tree.code_of(self.body), frozenset({remainder}))
        loads: list[tuple[Node, str]] = []
        spread = False
        for node in walk(self.body):
            if node.type != "subscript_expression" or node.start_byte < split.start_byte:
                continue
            pointer = self.pointers.element(node)
            if pointer is None or pointer.space != "global" or self.pointers.is_row(node):
                continue
            how = self._hangs(node, following)
            spread = spread or how == "remainder"
            if how == "quotient" and not _is_stored(node):
                loads.append((node, pointer.name))
        spread = spread or self._passes_on(following)
        if not loads or not spread:
            return None
        return AlikeNeighbours(
            self.tree.span(split),
            remainder,
            divisor,
            tuple(self.tree.span(node) for node, _ in loads),
            tuple(dict.fromkeys(name for _, name in loads)),
            any(
                len(loops_around(self.tree, node)) > len(loops_around(self.tree, split)) for node, _ in loads
            ),
        )

    def _passes_on(self, following: frozenset[str]) -> bool:
        """Whether a call is handed what hangs on the remainder: it may read by that."""
        calls = (n.child_by_field_name("arguments") for n in walk(self.body) if n.type == "call_expression")
        words = (set(re.findall(r"\w+", self.tree.code_of(listed))) for listed in calls if listed is not None)
        return any(found & following for found in words)

    def _hangs(self, node: Node, following: frozenset[str]) -> Hangs:
        kinds = [self._of_name(n, following, 0) for n in walk(node) if n.type == "identifier"]
        return _joined(kinds)

    def _of_name(self, name: Node, following: frozenset[str], depth: int) -> Hangs:
        text = self.tree.code_of(name)
        if text in following:
            return "remainder"
        form = self.forms.traced(name)
        if form is not None:
            return _of_form(form)
        constants = self.expanded.constants
        binding = constants.binding(text, name.start_byte)
        if binding is None or depth > _MAX_DEPTH:
            return (
                "neither" if binding is None and not constants.is_bound(text, name.start_byte) else "unknown"
            )
        if binding.start < self.body.start_byte:
            return "neither"  # A parameter.
        value = value_node(self.tree, binding)
        if value is None:
            return "unknown"
        return _joined(
            [self._of_name(n, following, depth + 1) for n in walk(value) if n.type == "identifier"]
        )


def _joined(kinds: list[Hangs]) -> Hangs:
    for kind in ("remainder", "unknown", "quotient"):
        if kind in kinds:
            return kind
    return "neither"


def _of_form(form: Form) -> Hangs:
    """By the symbols that mention the lane: a quotient's are all inside of divisions."""
    hits = [s for symbols, _ in form.terms for s in symbols if s.mentions(_LANE)]
    if not hits:
        return "neither"
    return "quotient" if all(map(_is_quotient, hits)) else "remainder"


def _is_quotient(symbol: Symbol) -> bool:
    if symbol.operation == "/":
        return True
    inner = [s for operand in symbol.operands for symbols, _ in operand.terms for s in symbols]
    hits = [s for s in inner if s.mentions(_LANE)]
    return bool(hits) and all(map(_is_quotient, hits))


def _target(node: Node) -> Node | None:
    """The name that is set to the value of `node`, past parentheses and casts."""
    around = node.parent
    while around is not None and around.type in ("parenthesized_expression", "cast_expression"):
        around = around.parent
    if around is None or around.type not in ("init_declarator", "assignment_expression"):
        return None
    found = around.child_by_field_name("declarator") or around.child_by_field_name("left")
    return found if found is not None and found.type == "identifier" else None


def _is_stored(node: Node) -> bool:
    around = node.parent
    left = around.child_by_field_name("left") if around is not None else None
    if around is None or around.type != "assignment_expression" or left is None:
        return False
    return left.id == node.id
