# SPDX-License-Identifier: Apache-2.0
"""A kernel as a rewrite reads it: its statements, what names rest on, and the text behind a node."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.lexical import matching, split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree, walk
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.pointers import Pointer, PointerReader
from warplens_tools.lazily import cached_property
from warplens_tools.rewrite.base import Apply, Refused, RewriteResult, Target
from warplens_tools.rewrite.common import refusal
from warplens_tools.rewrite.common.deduced import deduced_type, given_numbers, given_type
from warplens_tools.rewrite.common.refusal import expanded_kernel
from warplens_tools.text import SourceText, Span

WORD = re.compile(r"[A-Za-z_]\w*")
#: Statements that leave the straight way through a kernel.
JUMPS = frozenset(
    {"return_statement", "break_statement", "continue_statement", "goto_statement", "labeled_statement"}
)
_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)


Reading = Callable[["View", Target], RewriteResult]


def refusing(read: Reading, *, singly: bool = True) -> Apply:
    """`read` as the `apply` of a rewrite: what it raises as `Refused` becomes the refusal. `singly` as there."""

    @functools.wraps(read)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        return read(View(text, model, kernel), target)

    return refusal.refusing(apply, singly=singly)


def concrete_type(
    model: SourceModel, kernel: Kernel, tree: SourceTree, file: SourceTree, written: str
) -> str:
    """The type that a template's parameter stands for in every launch, or another name for a type; else `written`.

    "" where launches differ. `tree` has the kernel's macros expanded, `file` is as the user wrote it.
    """
    names = kernel.template_parameters
    layouts = layouts_of(tree)
    plain = layouts.plain(written) if written not in names else written
    if plain not in names:
        return plain
    place = names.index(plain)
    sites = model.launches_of(kernel)
    given = {
        _given(file, s, place) if place < len(s.template_arguments) else deduced_type(file, kernel, s, plain)
        for s in sites
    }
    return layouts.plain(given.pop()) if len(given) == 1 else ""


def _given(file: SourceTree, site: LaunchSite, place: int) -> str:
    """The type that a launch gives a template, whose function may be a template itself."""
    written = site.template_arguments[place]
    return (
        written
        if site.path
        else given_type(file, written, file.text.offset(site.span.line, site.span.column))
    )


class View:
    """One kernel, ready to be read and rewritten.

    Nodes are of the tree with macros expanded; `written` gives the user's text behind them.

    Raises:
        Refused: the kernel's text is not what is compiled.
    """

    def __init__(self, text: SourceText, model: SourceModel, kernel: Kernel) -> None:
        self.text, self.model, self.kernel = text, model, kernel
        self.file = parse_tree(text)
        self.expanded = expanded_kernel(self.file, kernel)
        if numbers := given_numbers(self.file, kernel, model.launches_of(kernel)):
            known = self.expanded.constants.given(numbers)
            self.expanded = msgspec.structs.replace(self.expanded, constants=known)
        self.tree, self.function = self.expanded.tree, self.expanded.function
        self.body = self.function.body
        self.forms = FormReader(self.expanded)
        self.pointers = PointerReader(kernel, self.forms)

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of the kernel's parameters."""
        return frozenset(p.name for p in self.kernel.parameters)

    @cached_property
    def used(self) -> frozenset[str]:
        """Every word of the file: names that a new one must not take."""
        return frozenset(WORD.findall(self.text.text))

    def code(self, node: Node) -> str:
        """The node's code: macros expanded, no comments."""
        return self.tree.code_of(node)

    def written(self, node: Node) -> str:
        """The node's text in the user's file, comments included."""
        return self.text.slice(self.tree.span(node))

    def span(self, node: Node) -> Span:
        """Where the node stands in the user's file."""
        return self.tree.span(node)

    def margin(self, node: Node) -> str:
        """The white space that the node's line begins with, in the user's file."""
        return self.text.margin(self.span(node).line)

    def start(self, node: Node) -> int:
        """Where the node begins in the user's file."""
        span = self.tree.span(node)
        return self.text.offset(span.line, span.column)

    def end(self, node: Node) -> int:
        """Where the node ends in the user's file."""
        span = self.tree.span(node)
        return self.text.offset(span.end_line, span.end_column)

    def is_plain(self, node: Node) -> bool:
        """Whether the node is written out: no macro wrote it or a part of it."""
        return squeezed(without_comments(self.written(node))) == squeezed(self.code(node))

    def is_plain_enough(self, node: Node) -> bool:
        """Whether the node begins and ends outside of macros, so that its text can be moved or replaced."""
        code, written = self.code(node), self.written(node)
        both = bool(written) and code[:1] == written[:1] and code[-1:] == written[-1:]
        return both or self._is_macro(node, written)

    def _is_macro(self, node: Node, written: str) -> bool:
        """Whether the node is all that one use of a macro stands for: `A(i, k)` of `a[(i) + (k) * lda]`."""
        span, outer = self.span(node), node.parent
        while outer is not None and self.span(outer) == span and outer.type == "parenthesized_expression":
            outer = outer.parent
        used = re.match(r"\w+\s*\(", written)
        alone = used is not None and matching(written, used.end() - 1) == len(written)
        return alone and outer is not None and self.span(outer) != span

    def names(self, node: Node) -> frozenset[str]:
        """The variables that an expression or statement mentions."""
        return frozenset(self.code(n) for n in walk(node) if n.type == "identifier")

    def value(self, node: Node | None) -> int | None:
        """The integer that an expression is, where constants fix it."""
        return self.expanded.constants.value(self.code(node), node.start_byte) if node is not None else None

    def place(self, node: Node) -> Pointer | None:
        """Where an access `a[i]`, `*p`, or the pointer of a load, goes."""
        if node.type == "subscript_expression":
            return self.pointers.element(node)
        inner = node.child_by_field_name("argument") if node.type == "pointer_expression" else node
        return self.pointers.pointer(inner)

    def element(self, node: Node) -> str:
        """Element type of what an access reads; "" where it is not known."""
        found = self.place(node)
        return found.element_type if found is not None else ""

    def concrete(self, element_type: str) -> str:
        """As `concrete_type`."""
        return concrete_type(self.model, self.kernel, self.tree, self.file, element_type)

    def space(self, node: Node) -> str:
        """The memory space that an access goes to."""
        found = self.place(node)
        return found.space if found is not None else "unknown"

    def array(self, node: Node) -> str:
        """The parameter or array that an access goes to; "" where it is not known."""
        found = self.place(node)
        return found.name if found is not None else ""

    def elements(self, node: Node) -> Iterator[Node]:
        """The array elements that a node mentions, `a[i][j]` once, in text order."""
        for found in walk(node):
            is_element = found.type == "subscript_expression" and not is_base(found)
            if is_element or (found.type == "pointer_expression" and self.code(found).startswith("*")):
                yield found


def is_base(node: Node) -> bool:
    """Whether an element is subscripted again."""
    outer = node.parent
    if outer is None or outer.type != "subscript_expression":
        return False
    base = outer.child_by_field_name("argument")
    return base is not None and base.id == node.id


def stores(view: View, node: Node) -> list[Node]:
    """The array elements that a node assigns."""
    found = []
    for element in view.elements(node):
        inner: Node = element
        outer = element.parent
        while outer is not None and outer.type in ("parenthesized_expression", "field_expression"):
            inner, outer = outer, outer.parent
        is_left = outer is not None and outer.type == "assignment_expression"
        left = outer.child_by_field_name("left") if is_left and outer is not None else None
        stepped = outer is not None and outer.type == "update_expression"
        if (left is not None and left.id == inner.id) or stepped:
            found.append(element)
    return [n for n in found if not is_base(n)]


def statements(node: Node) -> list[Node]:
    """The statements of a block, or the one statement that stands without braces; comments left out."""
    found = node.named_children if node.type == "compound_statement" else [node]
    return [n for n in found if n.type != "comment"]


def unwrapped(node: Node) -> Node:
    """An expression without the parentheses and clauses around it."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def field(node: Node, name: str) -> Node:
    """A child that the grammar promises.

    Raises:
        Refused: it is missing, as in code that does not parse.
    """
    found = node.child_by_field_name(name)
    if found is None:
        raise Refused("the kernel has a statement that is not understood")
    return found


def operator_of(node: Node) -> str:
    """The operator of an expression; "" for what has none."""
    found = node.child_by_field_name("operator")
    return found.type if found is not None else ""


def assigned(node: Node, view: View) -> Iterator[tuple[str, Node]]:
    """What a node assigns or steps: the variable (or array) at the bottom of each, and the whole place.

    So is a variable whose address is taken, and one that a function of the file takes by reference.
    """
    for found in walk(node):
        place = None
        if found.type == "call_expression":
            yield from ((view.code(one), one) for one in _lent(found, view))
        if found.type == "assignment_expression":
            place = found.child_by_field_name("left")
        elif found.type == "update_expression":
            place = found.child_by_field_name("argument")
        if place is not None:
            yield root_name(place, view), place


def _lent(call: Node, view: View) -> Iterator[Node]:
    """The variables that a call may change: those it is given the address of, or as a reference."""
    function = call.child_by_field_name("function")
    name = view.code(function).strip().split("<")[0] if function is not None else ""
    lists = [split_arguments(one) for one in view.tree.parameter_lists(name)]
    for place, one in enumerate(field(call, "arguments").named_children):
        inner = one.child_by_field_name("argument") if one.type == "pointer_expression" else None
        if inner is not None and inner.type == "identifier" and view.code(one).startswith("&"):
            yield inner
        by_reference = (p[place] for p in lists if place < len(p) and "&" in p[place])
        if one.type == "identifier" and any(not re.search(r"\bconst\b", p) for p in by_reference):
            yield one


def root_name(place: Node, view: View) -> str:
    """`a` of `a[i].x`, `*a` and `(a)`."""
    current: Node | None = place
    while current is not None and current.type not in ("identifier", "this"):
        current = current.child_by_field_name("argument") or next(iter(current.named_children), None)
    return view.code(current) if current is not None else ""


def calls(node: Node, view: View) -> Iterator[tuple[str, Node]]:
    """The calls below a node, each with the callee's code."""
    for found in walk(node):
        if found.type == "call_expression":
            function = found.child_by_field_name("function")
            yield (view.code(function).strip() if function is not None else ""), found


def has_barrier(view: View) -> bool:
    """Whether the threads of a block wait for each other, or a warp's lanes exchange values."""
    return (
        re.search(r"__sync\w+|__shfl\w*|\bsync\s*\(|cooperative_groups|\basm\b", view.code(view.body))
        is not None
    )


def shares_memory(view: View) -> bool:
    """Whether the threads of a block work together already: by `has_barrier`, or through shared memory."""
    return has_barrier(view) or any(a.space == "shared" for a in view.kernel.arrays)


def require_apart(view: View) -> None:
    """Refuse where `shares_memory` holds.

    Raises:
        Refused: the threads of a block work together.
    """
    if shares_memory(view):
        raise Refused("the threads of a block work together already")


def squeezed(text: str) -> str:
    """Text without white space."""
    return "".join(text.split())


def without_comments(text: str) -> str:
    """Text with its comments taken out."""
    return re.sub(_SKIPPED, lambda m: m[0] if m[0][0] in "\"'" else " ", text)


def renamed(text: str, names: dict[str, str]) -> str:
    """Text with variables renamed; members, strings and comments stay."""
    if not names:
        return text
    word = re.compile(
        _SKIPPED.pattern + r"|(?<![\w.])(?<!->)(" + "|".join(map(re.escape, names)) + r")\b", re.DOTALL
    )
    return word.sub(lambda m: names[m[1]] if m[1] else m[0], text)


def substituted(view: View, node: Node, found: Iterable[tuple[Node, str]]) -> str:
    """A node's text as written, with other text in the place of nodes below it."""
    begin, text, at, parts = view.start(node), view.written(node), 0, []
    for inner, new in sorted(found, key=lambda pair: pair[0].start_byte):
        low, high = view.start(inner) - begin, view.end(inner) - begin
        if low < at:
            raise Refused("a macro writes what would have to change")
        parts += [text[at:low], new]
        at = high
    return "".join([*parts, text[at:]])
