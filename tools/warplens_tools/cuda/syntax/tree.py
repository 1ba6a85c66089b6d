# SPDX-License-Identifier: Apache-2.0
"""A parsed text: its syntax tree with true spans.

`parse_tree` is cheap to call again for the same text: the last few trees are kept.
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from tree_sitter import Node, Tree

from warplens_tools.cuda.syntax.bracketed import with_conversions, without_brackets
from warplens_tools.cuda.syntax.lexical import defined_in
from warplens_tools.cuda.syntax.macros import MacroUse
from warplens_tools.cuda.syntax.mask import Masked, mask
from warplens_tools.cuda.syntax.patterns import pattern_of
from warplens_tools.cuda.syntax.patterns import walk as walk
from warplens_tools.cuda.syntax.recovery import parse_code
from warplens_tools.lazily import cached_property
from warplens_tools.process.cancel import checkpoint
from warplens_tools.text import SourceText, Span

#: Every statement that may run another one more than once.
LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})


#: Where a stretch of a macro's expansion stands in the user's file.
Place = Callable[[int, int], Span]


Made = TypeVar("Made")


class Leaf(msgspec.Struct, frozen=True):
    """A definition or declaration of file or namespace scope."""

    node: Node
    #: The function that it defines, with `template<…>` and `extern "C"` taken off; None for all else.
    function: Node | None
    #: Heads of the namespaces and linkage blocks around it.
    scope: str


class Carried:
    """What was read of the versions of one text, by keys that say all it rests on. What none of them asked for in a
    while goes. Safe to use from several threads.
    """

    _LASTS = 24

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}
        self._asked: dict[Hashable, int] = {}
        self._version = 0

    def get(self, key: Hashable) -> Any:
        """The value; None where there is none."""
        found = self._found.get(key)
        if found is not None:
            self._asked[key] = self._version
        return found

    def keep(self, key: Hashable, value: Any) -> None:
        """Keep a value, which is not None."""
        self._found[key] = value
        self._asked[key] = self._version

    def next_version(self) -> None:
        """Another version of the text begins."""
        self._version += 1
        if self._version % self._LASTS:
            return
        for key, version in list(self._asked.items()):
            if version <= self._version - self._LASTS:
                self._found.pop(key, None)
                self._asked.pop(key, None)


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
        self._file: SourceTree | None = None
        #: What readers worked out about this tree; it goes when the tree goes.
        self._remembered: dict[Hashable, Any] = {}
        self._use_starts = [use.start for use in masked.uses]
        self._carried = Carried()

    def remembered(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gave the first time for `key`."""
        if key not in self._remembered:
            checkpoint()
            self._remembered[key] = make()
        found: Made = self._remembered[key]
        return found

    def forget(self) -> None:
        """Drop what was remembered, which refers back to the tree and would keep it in memory."""
        self._remembered.clear()

    @property
    def file(self) -> SourceTree:
        """The tree of the whole file: this one, unless it is a macro's expansion."""
        return self._file or self

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
        return pattern_of(pattern).captures(node or self.root)

    def captures_beside(self, pattern: str, *words: bytes) -> dict[str, list[Node]]:
        """As `captures` of the whole tree, for what stands in no definition without one of these words."""
        found: dict[str, list[Node]] = {}
        for leaf in self.leaves:
            code = self.masked.code[leaf.node.start_byte : leaf.node.end_byte]
            if any(word in code for word in words):
                for name, nodes in self.captures(pattern, leaf.node).items():
                    found.setdefault(name, []).extend(nodes)
        return found

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The definitions and declarations of file and namespace scope, in text order."""
        return tuple(_leaves(self.root, ""))

    @cached_property
    def functions(self) -> list[Node]:
        """Every function definition, in text order."""
        found: list[Node] = []
        for leaf in self.leaves:
            code = self.masked.code[leaf.node.start_byte : leaf.node.end_byte]
            if leaf.function is None or any(word in code for word in _CLASSES):
                found += self.nodes("function", leaf)
            else:
                found.append(leaf.function)
        return found

    def nodes(self, name: str, leaf: Leaf) -> list[Node]:
        """The nodes of a kind (see `_COMMON`) in a leaf, in text order, found in one walk of it."""
        key = ("nodes", leaf.node.start_byte, leaf.node.end_byte)
        return self.remembered(key, lambda: self.captures(_COMMON, leaf.node)).get(name, [])

    def nodes_in(self, name: str, node: Node) -> list[Node]:
        """The nodes of a kind that stand inside `node`."""
        first = bisect.bisect_right(self.leaves, node.start_byte, key=_leaf_start) - 1
        found: list[Node] = []
        for leaf in self.leaves[max(first, 0) :]:
            if leaf.node.start_byte >= node.end_byte:
                break
            found += (n for n in self.nodes(name, leaf) if node.start_byte <= n.start_byte < node.end_byte)
        return found

    def carried(self, key: Hashable) -> Any:
        """What an earlier version of this text kept under a key that says all it rests on; None if nothing."""
        return self._carried.get(key)

    def carry(self, key: Hashable, value: Any) -> None:
        """Keep a value for the next versions of this text."""
        self._carried.keep(key, value)

    def stretches(self) -> list[str]:
        """The masked text in pieces that each end with a definition or declaration, so that most outlive an edit."""
        code = self.masked.code.decode("ascii")
        ends = [leaf.node.end_byte for leaf in self.leaves]
        return [code[a:b] for a, b in itertools.pairwise((0, *ends, len(code))) if a < b]

    def parameter_lists(self, name: str) -> list[str]:
        """The parameter lists, as written, of the functions of that name that the file defines."""
        tree = self.file
        return tree.remembered("parameter lists", lambda: _parameter_lists(tree.masked.source)).get(name, [])

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

    def may_be_left_out(self, offset: int) -> bool:
        """Whether an `#if` inside the function around the offset, whose condition is not known, may leave it out."""
        ranges = [r for r in self.masked.directives.conditional if r[0] <= offset < r[1]]
        function = self.function_at(offset, offset) if ranges else None
        return function is not None and any(start > function.start_byte for start, _ in ranges)

    def function_at(self, start: int, end: int) -> Node | None:
        """The innermost function definition around [start, end)."""
        node = self.root.descendant_for_byte_range(start, end)
        while node is not None and node.type != "function_definition":
            node = node.parent
        return node


def _parameter_lists(code: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, parameters in defined_in(code):
        found.setdefault(name, []).append(parameters)
    return found


def holds(outer: Node, node: Node) -> bool:
    """Whether `node` is `outer` or stands inside it."""
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


def is_looped(node: Node, body: Node, again: Collection[str] = LOOPS) -> bool:
    """Whether a loop, or another of these kinds of nodes, stands around it within `body`."""
    outer = node.parent
    while outer is not None and outer.id != body.id:
        if outer.type in again:
            return True
        outer = outer.parent
    return False


def function_around(node: Node) -> Node:
    """The innermost function definition around it; where there is none, the whole file."""
    while node.type != "function_definition" and node.parent is not None:
        node = node.parent
    return node


def before(node: Node) -> Iterator[Node]:
    """What stands before it in its block, the nearest first, comments left out."""
    at = node.prev_named_sibling
    while at is not None:
        if at.type != "comment":
            yield at
        at = at.prev_named_sibling


def is_assigned(node: Node) -> bool:
    """Whether `node` is what an assignment sets."""
    around = node.parent
    left = around.child_by_field_name("left") if around is not None else None
    assigns = around is not None and around.type == "assignment_expression"
    return assigns and left is not None and left.id == node.id


def subscripts(node: Node) -> tuple[Node, list[Node]]:
    """What an element is reached from, and the indices on the way, the last first: `list`, and `k` and `i`, of
    `list[i].next[k]`."""
    indices: list[Node] = []
    at = node
    while at.type in ("field_expression", "subscript_expression"):
        given = at.child_by_field_name("indices") if at.type == "subscript_expression" else None
        indices += given.named_children[:1] if given is not None else []
        below = at.child_by_field_name("argument")
        if below is None:
            break
        at = below
    return at, indices


def addends(node: Node, operators: frozenset[str] = frozenset("+")) -> list[Node]:
    """What `operators` join in an expression, in text order, out of its parentheses; the whole where it is none."""
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    if operator is None or operator.type not in operators:
        return [node]
    sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
    return [leaf for side in sides if side is not None for leaf in addends(side, operators)]


_COMMON = """
(function_definition) @function
(declaration) @declaration
(field_declaration) @field
(enumerator) @enumerator
(parameter_declaration declarator: (_) @parameter)
(optional_parameter_declaration declarator: (_) @parameter)
"""


_CLASSES = (b"struct", b"class", b"union")
_CONTAINERS = frozenset({"namespace_definition", "linkage_specification"})
_HEADS = frozenset({"template_declaration", "linkage_specification"})


def _leaves(node: Node, scope: str) -> Iterator[Leaf]:
    for child in node.named_children:
        body = child.child_by_field_name("body") if child.type in _CONTAINERS else child
        if body is not None and body.type in ("declaration_list", "ERROR"):
            head = (child.text or b"")[: body.start_byte - child.start_byte].decode("ascii")
            yield from _leaves(body, f"{scope}{' '.join(head.split())}{{")
        else:
            defined = child
            while defined.type in _HEADS and defined.named_children:
                defined = defined.named_children[-1]
            yield Leaf(child, defined if defined.type == "function_definition" else None, scope)


def _leaf_start(leaf: Leaf) -> int:
    return leaf.node.start_byte


def parse_tree(text: SourceText, defines: Mapping[str, str] | None = None) -> SourceTree:
    """Parse `text`. Never raises on broken code: what cannot be read is an ERROR node.

    `defines` are the macros of the command line, name to body; None takes those that the text carries.
    """
    defines = text.defines if defines is None else defines
    key = (text.text, text.encoding, tuple(sorted(defines.items())))
    with _LOCK:
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
        before = next((t for t in reversed(_KEPT.values()) if _is_similar(t.text.text, text.text)), None)
    masked = mask(text.text, defines, before=before.masked if before is not None else None)
    tree = _parsed(text, masked, None, before)
    with _LOCK:
        _KEPT[key] = tree
        while len(_KEPT) > 1 and (len(_KEPT) > _KEEP or sum(len(k[0]) for k in _KEPT) > _KEEP_CHARACTERS):
            _KEPT.popitem(last=False)[1].forget()
    return tree


def parse_apart(text: SourceText) -> SourceTree:
    """Parse a text that nobody will ask for again: nothing is kept, nothing that is kept goes for it."""
    return _parsed(text, mask(text.text, text.defines), None)


def _is_similar(old: str, new: str) -> bool:
    """Whether one text may well be an edit of the other: cheap, and only a guess."""
    quarter = min(len(old), len(new)) // 4
    return quarter > 0 and (old[:quarter] == new[:quarter] or old[-quarter:] == new[-quarter:])


#: Trees kept, and the characters they may have in all: a tree takes some 50 bytes for each.
_KEEP = 4
_KEEP_CHARACTERS = 200_000
_KEPT: OrderedDict[tuple[str, str, tuple[tuple[str, str], ...]], SourceTree] = OrderedDict()
_LOCK = threading.Lock()


def parse_expansion(text: str, file: SourceTree, place: Place) -> SourceTree:
    """Parse a macro's expansion under the macros of the file that it stands in, at `place`."""
    text = without_brackets(text)
    tree = _parsed(SourceText(text), mask(text, {}, file.macros), place)
    tree._file = file.file
    return tree


def _parsed(
    text: SourceText, masked: Masked, place: Place | None, before: SourceTree | None = None
) -> SourceTree:
    known = (before.masked.code, before.tree) if before is not None else None
    code, tree, blanked = parse_code(with_conversions(masked.code), known)
    if code != masked.code:
        masked = msgspec.structs.replace(masked, code=code, repairs=(*masked.repairs, *blanked))
    made = SourceTree(text, masked, tree, place)
    if before is not None:
        made._carried = before._carried
        made._carried.next_version()
    return made
