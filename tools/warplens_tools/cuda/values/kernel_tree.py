# SPDX-License-Identifier: Apache-2.0
"""A kernel's own tree with every macro of the file expanded.

Analyses of a kernel's body run on this: a loop or an access that a macro hides is then in plain sight,
and stands where the macro is used. Where no macro is used it is the file's tree itself.
"""

from __future__ import annotations

import bisect

import msgspec

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.bracketed import without_brackets
from warplens_tools.cuda.syntax.functions import Function, find_functions, functions_of
from warplens_tools.cuda.syntax.macros import Piece, specifier_names
from warplens_tools.cuda.syntax.tree import SourceTree, parse_expansion
from warplens_tools.cuda.values.constants import Constants, constants_of
from warplens_tools.text import Span


class KernelTree(msgspec.Struct, frozen=True):
    """A kernel's definition, ready to be analysed. Spans of `tree` are spans of the file."""

    tree: SourceTree
    function: Function
    constants: Constants


def _by_start(tree: SourceTree) -> dict[int, Function]:
    return tree.remembered("functions by start", lambda: {f.start: f for f in functions_of(tree)})


def kernel_tree(tree: SourceTree, kernel: Kernel) -> KernelTree | None:
    """The tree to analyse a kernel on; None where the text no longer holds the kernel."""
    key = ("kernel tree", kernel.span, kernel.name)
    return tree.remembered(key, lambda: _kernel_tree(tree, kernel.span, kernel.name))


def _kernel_tree(tree: SourceTree, span: Span, name: str) -> KernelTree | None:
    start, end = tree.text.offsets(span)
    function = _by_start(tree).get(start)
    header = function is None or (function.macro is not None and function.macro.kind == "header")
    keep = frozenset() if header else tree.remembered("readable", lambda: _readable(tree))
    pieces = tree.macros.pieces(tree.masked.source[start:end], keep)
    if pieces is None:
        return None
    plain = len(pieces) == 1 and not pieces[0].macro
    if plain and without_brackets(pieces[0].text) == pieces[0].text:
        return KernelTree(tree, function, constants_of(tree)) if function is not None else None
    inner = parse_expansion("".join(p.text for p in pieces), tree, _Placed(tree, start, pieces))
    written = next((f for f in find_functions(inner) if inner.text_of(f.name_node).endswith(name)), None)
    if written is None:
        return None
    return KernelTree(inner, written, Constants(inner, outer=(constants_of(tree), start)))


def _readable(tree: SourceTree) -> frozenset[str]:
    """Macros that hide nothing from the file's own tree: integers, and specifiers it was parsed without."""
    constants, table = constants_of(tree), tree.macros
    whole = {name for name, kind in specifier_names(table).items() if kind == "specifier"}
    plain = (m for m in map(table.get, table.by_name) if m is not None and m.parameters is None)
    return frozenset(whole | {m.name for m in plain if constants.value(m.body, 0) is not None})


class _Placed:
    """Where offsets of an expanded text stand in the file."""

    def __init__(self, tree: SourceTree, start: int, pieces: list[Piece]) -> None:
        self.tree, self.start, self.pieces = tree, start, pieces
        self.starts: list[int] = []
        at = 0
        for piece in pieces:
            self.starts.append(at)
            at += len(piece.text)

    def __call__(self, start: int, end: int) -> Span:
        first = self.offset(start, opening=True)
        return self.tree.text_span(first, max(first, self.offset(end, opening=False)))

    def offset(self, at: int, *, opening: bool) -> int:
        index = bisect.bisect_right(self.starts, at if opening else max(at - 1, 0)) - 1
        piece = self.pieces[index]
        if piece.macro:
            return self.start + (piece.start if opening else piece.end)
        return self.start + piece.start + at - self.starts[index]
