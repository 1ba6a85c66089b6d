# SPDX-License-Identifier: Apache-2.0
"""Integers that are kept within bounds, in the form that rewrites read: `max` and `min` where they are declared.

`int lo = i - r; if (lo < 0) lo = 0;` becomes `int lo = max(i - r, 0);`, and so does a choice between the two.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.text import SourceText, Span, TextEdit

SIGNED = re.compile(r"(?:const\s+)?int(?:\s+const)?")
WORD = re.compile(r"[A-Za-z_]\w*")
#: What may differ from thread to thread, or from one time to the next.
VARIES = re.compile(r"threadIdx|blockIdx|[\[(]|->")
_EXTREME = re.compile(r"(?:(?:std|cuda::std)::)?(max|min)(?:\s*<\s*int\s*>)?")


class _Bound(msgspec.Struct, frozen=True):
    """`max(value, limit)` or `min(value, limit)`."""

    kind: str
    limit: str


def clamped(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that put the bounds of one integer into its declaration; () where there are none."""
    reader = BoundReader(text, file, kernel)
    for node in reader.declarations():
        edits = reader.bounded(node)
        if edits:
            return edits
    return ()


class BoundReader:
    """One kernel's body, as the file has it."""

    def __init__(self, text: SourceText, file: SourceTree, kernel: Kernel) -> None:
        self.text, self.file, self.kernel = text, file, kernel
        span = kernel.body
        ends = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
        found = file.root.descendant_for_byte_range(*ends)
        self.body = found if found is not None and found.type == "compound_statement" else None

    def code(self, node: Node | None) -> str:
        """A node's code; "" for None."""
        return self.file.code_of(node).strip() if node is not None else ""

    def first_call(self, written_out: Callable[[Node], str]) -> tuple[TextEdit, ...]:
        """The edit of the first call for which that gives a text; () where there is none."""
        for node in walk(self.body) if self.body is not None else ():
            new = written_out(node) if node.type == "call_expression" else ""
            if new:
                return (TextEdit(self.file.span(node), new),)
        return ()

    def margin(self, node: Node) -> str:
        """The white space that a node's line begins with."""
        return self.text.margin(self.file.span(node).line)

    def free(self, name: str) -> str:
        """The name, or one with a number, that the body does not have."""
        taken = self.words(self.body) if self.body is not None else frozenset()
        names = itertools.chain((name,), (f"{name}{n}" for n in itertools.count(2)))
        return next(one for one in names if one not in taken)

    def values_of(self, name: str) -> Iterator[Node]:
        """What the variables of that name begin at, where they are declared with a value."""
        for node in walk(self.body) if self.body is not None else ():
            value = node.child_by_field_name("value") if node.type == "init_declarator" else None
            if value is not None and self.code(node.child_by_field_name("declarator")) == name:
                yield value

    def declarations(self) -> Iterator[Node]:
        """Declarations of one signed integer each, with a value."""
        for node in walk(self.body) if self.body is not None else ():
            declarators = node.children_by_field_name("declarator") if node.type == "declaration" else []
            if declarators and declarators[-1].type == "init_declarator":
                written = self.code(node)[: declarators[0].start_byte - node.start_byte]
                if SIGNED.fullmatch(written.strip()):
                    yield node

    # bounds

    def bounded(self, node: Node) -> tuple[TextEdit, ...]:
        """A declaration with the bounds that a choice or the conditions behind it give its last variable."""
        if node.parent is None or node.parent.type != "compound_statement":
            return ()
        declarator = node.children_by_field_name("declarator")[-1]
        name, value = (
            self.code(declarator.child_by_field_name("declarator")),
            declarator.child_by_field_name("value"),
        )
        if value is None or not WORD.fullmatch(name):
            return ()
        chosen = self._chosen(bare(value))
        if chosen is not None:
            return (TextEdit(self.file.span(value), chosen),)
        between, after = self._next_naming(node, name)
        bounds = self._bounds(after, name) if after is not None else ()
        moved = {w for b in bounds for w in WORD.findall(b.limit)}
        if after is None or not bounds or any(self._sets(n, w) for n in between for w in moved):
            return ()
        new = self.text.slice(self.file.span(value))
        for bound in bounds:
            new = f"{bound.kind}({new}, {bound.limit})"
        gone = self.file.span(after)
        before, behind = self.text.line_text(gone.line), self.text.line_text(gone.end_line)
        if not before[: gone.column - 1].strip() and not behind[gone.end_column - 1 :].strip():
            gone = Span(gone.line, 1, gone.end_line + 1, 1)
        return (TextEdit(self.file.span(value), new), TextEdit(gone, ""))

    def _next_naming(self, node: Node, name: str) -> tuple[list[Node], Node | None]:
        """Declarations and bounds of other variables, and the first statement behind them that names this one."""
        between, after = list[Node](), node.next_named_sibling
        while after is not None and name not in self.words(after):
            words = WORD.findall(self.code(after.child_by_field_name("condition")))
            bounds = any(self._bounds(after, w) for w in words)
            if after.type not in ("comment", "declaration") and not bounds:
                return between, None
            between.append(after)
            after = after.next_named_sibling
        return between, after

    def _sets(self, node: Node, name: str) -> bool:
        return self.changes(node, name) or (node.type == "declaration" and name in self.words(node))

    def words(self, node: Node) -> frozenset[str]:
        """Every name in a node's code."""
        return frozenset(WORD.findall(self.code(node)))

    def _bounds(self, node: Node, name: str) -> tuple[_Bound, ...]:
        """What `if (x < 0) x = 0; else if (x >= n) x = n - 1;` or `x = max(x, 0);` bounds a variable by."""
        if node.type == "expression_statement":
            inner = node.named_children[0] if node.named_child_count == 1 else node
            bound = self._extreme(inner, name)
            return (bound,) if bound is not None else ()
        if node.type != "if_statement":
            return ()
        condition = bare(node.child_by_field_name("condition"))
        set_to = self._set_to(node.child_by_field_name("consequence"), name)
        bound = self._of_choice(condition, set_to, name)
        if bound is None:
            return ()
        alternative = node.child_by_field_name("alternative")
        if alternative is None:
            return (bound,)
        other = next((n for n in alternative.named_children if n.type == "if_statement"), None)
        further = self._bounds(other, name) if other is not None else ()
        return (bound, *further) if further else ()

    def _set_to(self, node: Node | None, name: str) -> str:
        """What a statement, alone, sets a variable to."""
        if node is not None and node.type == "compound_statement" and node.named_child_count == 1:
            node = node.named_children[0]
        inner = node.named_children[0] if node is not None and node.type == "expression_statement" else None
        if inner is None or inner.type != "assignment_expression":
            return ""
        parts = [self.code(inner.child_by_field_name(n)) for n in ("left", "operator")]
        if parts != [name, "="]:
            return ""
        return self.code(inner.child_by_field_name("right"))

    def _of_choice(self, condition: Node | None, chosen: str, value: str) -> _Bound | None:
        """The bound that taking `chosen` instead of `value` under a condition is."""
        if condition is None or condition.type != "binary_expression" or not chosen:
            return None
        left, right = (self.code(condition.child_by_field_name(n)) for n in ("left", "right"))
        kind = self.code(condition.child_by_field_name("operator"))
        if squeezed(right) == squeezed(value):
            left, right, kind = right, left, FLIPPED.get(kind, "")
        if squeezed(left) != squeezed(value) or kind not in FLIPPED or VARIES.search(chosen):
            return None
        is_word = WORD.fullmatch(value)
        if is_word and value in WORD.findall(chosen):
            return None
        exact = {squeezed(right)}
        exact |= (
            {squeezed(f"{right}-1")} if kind == ">=" else {squeezed(f"{right}+1")} if kind == "<=" else set()
        )
        return _Bound("max" if kind in ("<", "<=") else "min", chosen) if squeezed(chosen) in exact else None

    def _extreme(self, node: Node, name: str) -> _Bound | None:
        """`x = max(x, 0)`."""
        if node.type != "assignment_expression" or self.code(node.child_by_field_name("left")) != name:
            return None
        found = self.call(node.child_by_field_name("right"))
        if found is None or self.code(node.child_by_field_name("operator")) != "=":
            return None
        kind, given = found
        limits = [self.code(g) for g in given if self.code(g) != name]
        if len(limits) != 1 or name in WORD.findall(limits[0]) or VARIES.search(limits[0]):
            return None
        return _Bound(kind, limits[0])

    def call(self, node: Node | None) -> tuple[str, list[Node]] | None:
        """`max` or `min` of two, and those."""
        if node is None or node.type != "call_expression":
            return None
        kind = _EXTREME.fullmatch(self.code(node.child_by_field_name("function")))
        listed = node.child_by_field_name("arguments")
        if kind is None or listed is None or listed.named_child_count != 2:
            return None
        return kind[1], listed.named_children

    def _chosen(self, value: Node | None) -> str | None:
        """`max(a, b)` of `a < b ? b : a`."""
        if value is None or value.type != "conditional_expression":
            return None
        condition = bare(value.child_by_field_name("condition"))
        one, other = (bare(value.child_by_field_name(n)) for n in ("consequence", "alternative"))
        if one is None or other is None:
            return None
        bound, kept = self._of_choice(condition, self.code(one), self.code(other)), self.code(other)
        if bound is None and condition is not None:
            # `a > b ? a : b` takes the limit where the condition does not hold
            bound, kept = self._of_choice(condition, self.code(other), self.code(one)), self.code(one)
            if bound is None or self.code(condition.child_by_field_name("operator")) not in (
                "<",
                ">",
                "<=",
                ">=",
            ):
                return None
            exact = {squeezed(self.code(condition.child_by_field_name(n))) for n in ("left", "right")}
            if squeezed(bound.limit) not in exact:
                return None
            bound = _Bound("min" if bound.kind == "max" else "max", bound.limit)
        return f"{bound.kind}({kept}, {bound.limit})" if bound is not None else None

    def changes(self, node: Node, name: str) -> bool:
        """Whether code below a node sets a variable otherwise than by declaring it."""
        for found in walk(node):
            if found.type == "assignment_expression" and self.code(found.child_by_field_name("left")) == name:
                return True
            if found.type == "update_expression" and self.code(found.child_by_field_name("argument")) == name:
                return True
            if found.type == "pointer_expression" and self.code(found) == f"&{name}":
                return True
        return False


def squeezed(text: str) -> str:
    """Text without white space."""
    return "".join(text.split())


def bare(node: Node | None) -> Node | None:
    """An expression without the parentheses and the clause around it."""
    while node is not None and node.type in ("parenthesized_expression", "condition_clause"):
        if node.named_child_count != 1:
            return node
        node = node.named_children[0]
    return node
