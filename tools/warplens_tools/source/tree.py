"""A parsed text: its syntax tree with true spans.

`parse_tree` is cheap to call again for the same text: the last few trees are kept.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Iterator, Mapping

import msgspec
from tree_sitter import Node, Query, QueryCursor, Tree

from warplens_tools.source.macros import MacroTable, MacroUse
from warplens_tools.source.mask import Masked, mask
from warplens_tools.source.recovery import LANGUAGE, parse_code
from warplens_tools.text import SourceText, Span


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

    @functools.cached_property
    def nodes(self) -> dict[str, list[Node]]:
        """The nodes that most readers start from, in text order, found in one walk of the tree."""
        return self.captures(_COMMON)

    def nodes_in(self, name: str, node: Node) -> list[Node]:
        """Those of `nodes` that stand inside `node`."""
        every = self.nodes.get(name, [])
        low = bisect.bisect_left(every, node.start_byte, key=_start)
        high = bisect.bisect_left(every, node.end_byte, key=_start)
        return every[low:high]

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


_COMMON = """
(function_definition) @function
(declaration) @declaration
(field_declaration) @field
(enumerator) @enumerator
(parameter_declaration declarator: (_) @parameter)
(optional_parameter_declaration declarator: (_) @parameter)
(kernel_call_syntax) @launch
"""


def _start(node: Node) -> int:
    return node.start_byte


def _order(node: Node) -> tuple[int, int]:
    return node.start_byte, -node.end_byte


def parse_tree(text: SourceText, defines: Mapping[str, str] | None = None) -> SourceTree:
    """Parse `text`. Never raises on broken code: what cannot be read is an ERROR node.

    `defines` are the macros of the command line, name to body.
    """
    return _cached(text.text, text.encoding, tuple(sorted((defines or {}).items())))


def parse_expansion(text: str, macros: MacroTable, place: Place) -> SourceTree:
    """Parse a macro's expansion under the macros of the file that it stands in, at `place`."""
    return _parsed(SourceText(text), mask(text, {}, macros), place)


@functools.lru_cache(maxsize=4)
def _cached(text: str, encoding: str, defines: tuple[tuple[str, str], ...]) -> SourceTree:
    return _parsed(SourceText(text, encoding=encoding), mask(text, dict(defines)), None)


def _parsed(text: SourceText, masked: Masked, place: Place | None) -> SourceTree:
    code, tree, blanked = parse_code(masked.code)
    if blanked:
        masked = msgspec.structs.replace(masked, code=code, repairs=(*masked.repairs, *blanked))
    return SourceTree(text, masked, tree, place)
