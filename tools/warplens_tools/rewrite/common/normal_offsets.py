# SPDX-License-Identifier: Apache-2.0
"""Outputs that begin at a place of the run's, in the form that rewrites read: the thread's number in a variable.

`int row = first + blockIdx.y * blockDim.y + threadIdx.y; if (row >= n) return;` becomes `int rowHere = blockIdx.y *
blockDim.y + threadIdx.y; int row = first + rowHere; if (rowHere >= n - first) return;`. So is the number told from
what it is multiplied by in `int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import SIGNED, WORD, BoundReader, bare
from warplens_tools.text import SourceText, TextEdit

_OWN = re.compile(r"\b(?:threadIdx|blockIdx)\s*\.\s*([xyz])\b")
_PLAIN = re.compile(r"[\w\s+*()-]+")
_NUMBER = re.compile(r"\d+")
_LIMITS = frozenset({"<", ">="})


def begun_at_zero(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that give the number of one output's thread a variable; () where no output begins elsewhere."""
    reader = _Reader(text, file, kernel)
    for node in reader.body.named_children if reader.body is not None else ():
        edits = reader.apart(node) if node.type == "declaration" else ()
        if edits:
            return edits
    return ()


class _Reader(BoundReader):
    """The numbers of one kernel's outputs."""

    def apart(self, node: Node) -> tuple[TextEdit, ...]:
        """The edits for one declaration of an integer, alone; () where it begins at zero, or nothing limits it."""
        declarators = node.children_by_field_name("declarator")
        value = declarators[0].child_by_field_name("value") if len(declarators) == 1 else None
        named = declarators[0].child_by_field_name("declarator") if value is not None else None
        if value is None or named is None or self.body is None or named.type != "identifier":
            return ()
        name, written = self.code(named), self.code(node)[: named.start_byte - node.start_byte].strip()
        if product := self._multiple(value):
            here = self.free(f"{name}Here")
            number, factor = (self.text.slice(self.file.span(n)) for n in product)
            numbered = f"{written} {here} = {number};{self.text.newline}{self.margin(node)}"
            new = f"{numbered}{written} {name} = {here} * {factor};"
            return (TextEdit(self.file.span(node), new),) if not self.changes(self.body, name) else ()
        terms = list(self._terms(value))
        own = [t for t in terms if _OWN.search(self.code(t))]
        rest = [t for t in terms if not _OWN.search(self.code(t))]
        letters = {m for t in own for m in _OWN.findall(self.code(t))}
        if len(own) != 2 or len(letters) != 1 or not any("threadIdx" in self.code(t) for t in own):
            return ()
        if not rest or all(_NUMBER.fullmatch(self.code(t)) for t in rest) or self.changes(self.body, name):
            return ()
        # of unsigned ones a difference below zero would be a large number
        if not SIGNED.fullmatch(written) or not all(self._is_uniform(t) for t in rest):
            return ()
        here, first = self.free(f"{name}Here"), " + ".join(self._written(t) for t in rest)
        limits = list(self._limits(name, here, first if len(rest) == 1 else f"({first})"))
        if not limits:
            return ()
        numbered = f"{written} {here} = {' + '.join(self._written(t) for t in own)};"
        new = f"{numbered}{self.text.newline}{self.margin(node)}{written} {name} = {first} + {here};"
        return (TextEdit(self.file.span(node), new), *limits)

    def _multiple(self, value: Node) -> tuple[Node, Node] | None:
        """A thread's number and the constant that it is multiplied by."""
        inner = bare(value)
        if inner is None or inner.type != "binary_expression" or self.code(inner.children[1]) != "*":
            return None
        for number, factor in itertools.permutations((bare(inner.children[0]), bare(inner.children[2]))):
            own = list(self._terms(number)) if number is not None else []
            letters = {m for t in own for m in _OWN.findall(self.code(t))}
            plain = factor is not None and _NUMBER.fullmatch(self.code(factor))
            if number is not None and factor is not None and plain and len(own) == 2 and len(letters) == 1:
                return number, factor
        return None

    def _terms(self, node: Node) -> Iterator[Node]:
        """What a value is the sum of."""
        inner = bare(node)
        if inner is not None and inner.type == "binary_expression" and self.code(inner.children[1]) == "+":
            yield from self._terms(inner.children[0])
            yield from self._terms(inner.children[2])
        elif inner is not None:
            yield inner

    def _written(self, node: Node) -> str:
        text = self.text.slice(self.file.span(node))
        return text if node.type != "binary_expression" or self.code(node.children[1]) == "*" else f"({text})"

    def _is_uniform(self, term: Node) -> bool:
        """Whether a term is the same for all threads: parameters of whole numbers, and constants of the file."""
        if _NUMBER.fullmatch(self.code(term)):
            return True
        inside = list(walk(self.body)) if self.body is not None else []
        own = {d for n in inside if n.type == "init_declarator" for d in WORD.findall(self.code(n))[:1]}
        whole = {p.name for p in self.kernel.parameters if re.fullmatch(r"(?:const )?int", p.type)}
        others = {p.name for p in self.kernel.parameters} - whole
        words = set(WORD.findall(self.code(term)))
        if not words or words & (own | others) or not _PLAIN.fullmatch(self.code(term)):
            return False
        return not any(self.body is not None and self.changes(self.body, w) for w in words)

    def _limits(self, name: str, here: str, first: str) -> Iterator[TextEdit]:
        """The comparisons of a number with what limits it, of the thread's own number instead."""
        for guard in self.body.named_children if self.body is not None else ():
            if guard.type in ("declaration", "comment"):
                continue
            condition = guard.child_by_field_name("condition") if guard.type == "if_statement" else None
            if condition is None or guard.child_by_field_name("alternative") is not None:
                return
            for part in walk(condition):
                if part.type != "binary_expression":
                    continue
                left, right = (bare(part.child_by_field_name(f)) for f in ("left", "right"))
                kind = self.code(part.child_by_field_name("operator"))
                if self.code(right) == name:
                    left, right, kind = right, left, FLIPPED.get(kind, "")
                if left is None or right is None or self.code(left) != name or kind not in _LIMITS:
                    continue
                if self._is_uniform(right):
                    limit = self.text.slice(self.file.span(right))
                    yield TextEdit(self.file.span(part), f"{here} {kind} {limit} - {first}")
