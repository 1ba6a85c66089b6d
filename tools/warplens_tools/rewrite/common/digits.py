# SPDX-License-Identifier: Apache-2.0
"""A thread's number that is divided into the indices of an array, `i % W`, `i / W % H`, `i / (W * H)`, however written.

Which digit an expression is, is told by its values at random points, so that `rest = i % (H * W); y = rest / W;` and
`t = i / W; y = t % H;` are read alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.evaluated import Evaluator, Values
from warplens_tools.rewrite.common.reading import View, field, operator_of, statements, unwrapped

_CAST = re.compile(r"\(\s*(?:size_t|int|long|long long|unsigned|unsigned int|int64_t|uint64_t)\s*\)\s*")
_COMPOUND = {"/=": "/", "%=": "%", "-=": "-", "+=": "+", "*=": "*"}


class Part(msgspec.Struct, frozen=True):
    """A quotient or a remainder that the kernel works out, and its values."""

    node: Node
    kind: str
    values: Values
    left: Values
    right: Values


class Radix(msgspec.Struct, frozen=True):
    """The extents of the two fastest digits; `height` is "" where the rest is not divided again."""

    width: str
    #: Where that stands.
    at: Node
    height: str
    width_values: Values
    height_values: Values | None


class Digits:
    """Quotients and remainders of one variable in straight code, in text order."""

    def __init__(self, view: View, index: Declared, code: list[Node]) -> None:
        self.view, self.evaluator = view, Evaluator(view)
        self.name, self.index = index.name, self.evaluator.index()
        self.evaluator.give(index.name, self.index)
        self.parts: list[Part] = []
        #: Variables that are set once, with their values.
        self.named: list[tuple[Declared, Values]] = []
        #: Names that go with the number, and those that memory or a call gives.
        self._moving = {index.name}
        for node in code:
            self._read(node)

    def _read(self, node: Node) -> None:
        if node.type == "if_statement":
            for inner in statements(field(node, "consequence")):
                self._read(inner)
        elif node.type == "declaration":
            self._declared(node)
        else:
            self._parts_of(node)
            inner = node.named_children[0] if node.named_child_count else node
            if inner.type == "assignment_expression":
                self._assigned(inner)

    def _declared(self, node: Node) -> None:
        every = plainly_declared_in(self.view, node)
        for one in every:
            if one.value is None or one.stars or one.name == self.name:
                continue
            self._parts_of(one.value)
            values = self.evaluator.of(one.value) if one.is_index else None
            if self._is_moving(one.value):
                self._moving.add(one.name)
            elif one.is_index and (values is None or min(values) <= 1):
                # an extent, `(width - pool) / stride + 1`, which random sizes make no sense of
                values = self.evaluator.of_name(one.name)
            self.evaluator.give(one.name, values)
            if values is not None:
                self.named.append((one, values))

    def _is_moving(self, node: Node) -> bool:
        """Whether an expression may go with the number."""
        threads = ("threadIdx", "blockIdx")
        loaded = any(
            n.type in ("subscript_expression", "pointer_expression", "call_expression") for n in walk(node)
        )
        return loaded or bool(self.view.names(node) & {*self._moving, *threads})

    def _assigned(self, node: Node) -> None:
        target, kind = field(node, "left"), operator_of(node)
        if target.type != "identifier":
            return
        name, value = self.view.code(target), self.evaluator.of(field(node, "right"))
        if kind in _COMPOUND:
            value = self.evaluator.combined(_COMPOUND[kind], self.evaluator.of_name(name), value)
        self.evaluator.give(name, value)
        self.named = [pair for pair in self.named if pair[0].name != name]

    def _parts_of(self, node: Node) -> None:
        for found in walk(node):
            if found.type != "binary_expression" or operator_of(found) not in ("/", "%"):
                continue
            values = self.evaluator.of(found)
            left, right = self.evaluator.of(field(found, "left")), self.evaluator.of(field(found, "right"))
            if values is not None and left is not None and right is not None:
                self.parts.append(Part(found, operator_of(found), values, left, right))

    def radix(self) -> Radix:
        """The extents of the two fastest digits.

        Raises:
            Refused: the number is not divided.
        """
        widths = self._modules(self.index)
        if not widths:
            raise Refused("its threads' number is not divided into indices")
        values, at = min(widths, key=lambda pair: pair[0])
        width = self.view.written(at)
        rest = quotients(self.index, values)
        heights = [(v, self.view.written(n)) for v, n in self._modules(rest)]
        heights = heights or list(self._heights(width, values, rest))
        if not heights:
            return Radix(width, at, "", values, None)
        height_values, height = min(heights, key=lambda pair: pair[0])
        return Radix(width, at, height, values, height_values)

    def _modules(self, of: Values) -> list[tuple[Values, Node]]:
        """What the remainder of some values is taken by."""
        return [
            (p.right, unwrapped(field(p.node, "right")))
            for p in self.parts
            if p.kind == "%" and min(p.right) > 1 and p.values == remainders(of, p.right)
        ]

    def _heights(self, width: str, values: Values, rest: Values) -> Iterator[tuple[Values, str]]:
        """`H` of a remainder by `H * W` that is divided by `W`."""
        for part in self.parts:
            larger = part.kind == "%" and part.values == remainders(self.index, part.right)
            if not larger or part.right == values or any(remainders(part.right, values)):
                continue
            height = quotients(part.right, values)
            text = without_factors(self.view.written(unwrapped(field(part.node, "right"))), width)
            divided = any(p.kind == "/" and p.values == remainders(rest, height) for p in self.parts)
            if divided and text:
                yield height, text


def factors(text: str) -> list[str]:
    """The factors of a product, casts and outer brackets left out; all of it where it is none."""
    text = _CAST.sub("", text).strip()
    while text.startswith("(") and text.endswith(")") and _is_closed(text[1:-1]):
        text = text[1:-1].strip()
    parts, depth, begin = list[str](), 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 0 and char in "+-/%<>?&|":
            return [text]
        if depth == 0 and char == "*":
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return [f for p in parts for f in (factors(p) if p.startswith("(") else [p])]


def without_factors(text: str, *others: str) -> str:
    """A product without the factors of others, "1" where none is left; "" where it does not hold them."""
    left = factors(text)
    for other in (f for o in others if o for f in factors(o)):
        if other not in left:
            return ""
        left.remove(other)
    return " * ".join(f if re.fullmatch(r"[\w.]+", f) else f"({f})" for f in left) or "1"


def _is_closed(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def remainders(of: Values, by: Values) -> Values:
    """Of each number by the one at its place."""
    return tuple(a % b for a, b in zip(of, by, strict=True))


def quotients(of: Values, by: Values) -> Values:
    """Of each number by the one at its place."""
    return tuple(a // b for a, b in zip(of, by, strict=True))
