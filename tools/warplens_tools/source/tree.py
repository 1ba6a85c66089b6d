"""A parsed text: its syntax tree with true spans.

`parse_tree` is cheap to call again for the same text: the last few trees are kept.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Iterator, Mapping

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from warplens_tools.source.macros import MacroTable, MacroUse
from warplens_tools.source.mask import Masked, mask
from warplens_tools.text import SourceText, Span

LANGUAGE = Language(tree_sitter_cuda.language())


@functools.cache
def query(pattern: str) -> Query:
    """A compiled tree-sitter query; compiled once."""
    return Query(LANGUAGE, pattern)


#: Where a stretch of a macro's expansion stands in the user's file.
Place = Callable[[int, int], Span]


class SourceTree:
    """A syntax tree over the masked text.

    Node offsets (`start_byte`, `end_byte`) are code-point offsets of the text. `text_of` and `span`
    read the user's own text, so a comment or a macro that the tree does not show is in what they give.
    """

    def __init__(self, text: SourceText, masked: Masked, tree: Tree, place: Place | None = None) -> None:
        self.text = text
        self._place = place
        self.masked = masked
        self.tree = tree
        self.macros = masked.macros
        #: The whole file's text without comments and directives, also for a macro's expansion.
        self.file_code = masked.source
        self._use_starts = [use.start for use in masked.uses]

    @property
    def root(self) -> Node:
        """The `translation_unit`, or ERROR where nothing could be read."""
        return self.tree.root_node

    def text_of(self, node: Node) -> str:
        """The text a node covers, as written."""
        return self.text.text[node.start_byte : node.end_byte]

    def code_of(self, node: Node) -> str:
        """The masked text a node covers: no comments, no taken-out macros."""
        return self.masked.code[node.start_byte : node.end_byte].decode("ascii")

    def span(self, node: Node) -> Span:
        """Where a node stands in the user's file."""
        return self.text_span(node.start_byte, node.end_byte)

    def text_span(self, start: int, end: int) -> Span:
        """The span in the user's file of two code-point offsets of this tree's text."""
        return self._place(start, end) if self._place else self.text.span(start, end)

    def captures(self, pattern: str, node: Node | None = None) -> dict[str, list[Node]]:
        """Captures of a tree-sitter query below `node` (the whole tree when None), in text order."""
        found = QueryCursor(query(pattern)).captures(node or self.root)
        return {name: sorted(nodes, key=_order) for name, nodes in found.items()}

    def uses(self, start: int, end: int) -> list[MacroUse]:
        """The macros taken out of the text that begin in [start, end)."""
        low = bisect.bisect_left(self._use_starts, start)
        high = bisect.bisect_left(self._use_starts, end)
        return list(self.masked.uses[low:high])

    def words(self, start: int, end: int) -> str:
        """Masked text of [start, end) followed by the expansions of what was taken out of it."""
        code = self.masked.code[start:end].decode("ascii")
        return " ".join([code, *(use.expansion for use in self.uses(start, end))])

    def is_conditional(self, offset: int) -> bool:
        """Whether the offset stands under an `#if` whose condition is not known."""
        return any(start <= offset < end for start, end in self.masked.directives.conditional)

    def function_at(self, start: int, end: int) -> Node | None:
        """The innermost function definition around [start, end)."""
        node = self.root.descendant_for_byte_range(start, end)
        while node is not None and node.type != "function_definition":
            node = node.parent
        return node


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, in text order, without recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def _order(node: Node) -> tuple[int, int]:
    return node.start_byte, -node.end_byte


def parse_tree(text: SourceText, defines: Mapping[str, str] | None = None) -> SourceTree:
    """Parse `text`. Never raises on broken code: what cannot be read is an ERROR node.

    `defines` are the macros of the command line, name to body.
    """
    return _cached(text.text, text.encoding, tuple(sorted((defines or {}).items())))


def parse_expansion(text: str, macros: MacroTable, place: Place) -> SourceTree:
    """Parse a macro's expansion under the macros of the file that it stands in, at `place`."""
    masked = mask(text, {}, macros)
    return SourceTree(SourceText(text), masked, Parser(LANGUAGE).parse(masked.code), place)


@functools.lru_cache(maxsize=8)
def _cached(text: str, encoding: str, defines: tuple[tuple[str, str], ...]) -> SourceTree:
    masked = mask(text, dict(defines))
    return SourceTree(SourceText(text, encoding=encoding), masked, Parser(LANGUAGE).parse(masked.code))
