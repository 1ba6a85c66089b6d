# SPDX-License-Identifier: Apache-2.0
"""Tests of a thread's place, clamps and conditions, whose outcome is known where all that it reads is inside."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import NEGATED
from warplens_tools.cuda.syntax.lexical import matching
from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    field,
    operator_of,
    renamed,
    statements,
    unwrapped,
)

_LEAST = frozenset({"min", "std::min", "::min"})
_MOST = frozenset({"max", "std::max", "::max"})
_JOINED = {"+": forms.add, "-": forms.subtract, "*": forms.multiply}
_ELSEWHERE = frozenset({"subscript_expression", "pointer_expression", "field_expression"})
_BUILT_IN = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
_EXTENT = re.compile(r"\bblockDim\s*\.\s*[xyz]\b")
#: Variables that are made of variables are followed this far.
_DEEP = 6
#: What is divided by less is no place in a row.
_LEAST_LENGTH = 32


class Test(msgspec.Struct, frozen=True):
    """Something that is known inside: what holds there, as code, and what then stands in a node's place."""

    node: Node
    holds: tuple[str, ...]
    #: What is left of the node; None for nothing.
    left: Node | None


class Tests:
    """Reads the tests of statements that are to be done in two ways."""

    def __init__(self, view: View, nodes: list[Node]) -> None:
        self.view, self._begin = view, nodes[0].start_byte
        self._tests: dict[int, Test | None] = {}
        self._every = [
            d for n in walk(view.body) if n.type == "declaration" for d in plainly_declared_in(view, n)
        ]

    def _variables(self, node: Node) -> Iterator[tuple[Node, Declared | None]]:
        """The names in an expression, with what the kernel declares as them there."""
        for name in (n for n in walk(node) if n.type == "identifier"):
            binding = self.view.expanded.constants.binding(self.view.code(name), name.start_byte)
            place = binding.declaration[0] if binding is not None else -1
            yield (
                name,
                next(
                    (
                        d
                        for d in self._every
                        if d.name == self.view.code(name)
                        and d.statement.start_byte <= place < d.statement.end_byte
                    ),
                    None,
                ),
            )

    def _is_changed(self, name: Node) -> bool:
        """Whether a variable is anything else than what it began as."""
        tree, code = self.view.tree, self.view.code(name)
        binding = self.view.expanded.constants.binding(code, name.start_byte)
        if binding is None:
            return False
        behind = tree.masked.code[binding.declaration[1] : binding.end].decode("ascii")
        return changes(tree, behind, code, by_call="seen")

    def is_looped(self, node: Node) -> bool:
        """Whether a node stands in a loop."""
        return any(True for _ in self._around(node))

    def _around(self, node: Node) -> Iterator[Node]:
        """The loops around a node."""
        outer = node.parent
        while outer is not None and outer.id != self.view.body.id:
            if outer.type in LOOPS:
                yield outer
            outer = outer.parent

    def of(self, node: Node) -> Iterator[Test]:
        """The tests below a node whose outcome is known inside, the outermost first."""
        found = self._test(node)
        if found is not None:
            yield found
            if found.left is None:
                return
        left = found.left if found is not None and node.type != "call_expression" else None
        for child in node.named_children:
            if left is None or _holds(child, left):
                yield from self.of(child)

    def _test(self, node: Node) -> Test | None:
        # asked of a clamp by each test that holds it
        if node.id not in self._tests:
            self._tests[node.id] = self._read_test(node)
        return self._tests[node.id]

    def _read_test(self, node: Node) -> Test | None:
        if node.type == "call_expression":
            return self._clamp(node)
        if node.type == "binary_expression" and operator_of(node) == "%":
            return self._wrapped(node)
        if node.type not in ("if_statement", "conditional_expression"):
            return None
        taken, other = field(node, "consequence"), node.child_by_field_name("alternative")
        if not self.view.is_plain_enough(node) or (node.type == "if_statement" and other is not None):
            return None
        condition = unwrapped(field(node, "condition"))
        if node.type == "if_statement":
            leaves = statements(taken)[-1].type in JUMPS if statements(taken) else True
        else:
            leaves = other is not None and self._leaves(condition, taken, other)
        holds = self._all(condition, "||" if leaves else "&&", negated=leaves)
        return Test(node, holds, other if leaves else taken) if holds else None

    def _leaves(self, condition: Node, taken: Node, other: Node) -> bool:
        """Whether a choice is for its second value inside: for what is tested itself, against an edge, what is mirrored
        there, or a place from the other end.
        """
        if not self._rests(other) or not self._rests(taken):
            return self._rests(other)
        second, tested = unwrapped(other), condition
        sides = [n for n in (tested.child_by_field_name("left"), tested.child_by_field_name("right")) if n]
        subjects = {self.view.code(unwrapped(n)) for n in sides if self._rests(n)}
        return second.type == "conditional_expression" or self.view.code(second) in subjects

    def _clamp(self, node: Node) -> Test | None:
        name, given = self.view.code(field(node, "function")), field(node, "arguments").named_children
        if name not in _LEAST | _MOST or len(given) != 2 or not self.view.is_plain_enough(node):
            return None
        own = [n for n in given if self._rests(n)]
        if len(own) != 1:
            return None
        other = given[0] if given[1].id == own[0].id else given[1]
        holds = self._holds(own[0], "<=" if name in _LEAST else ">=", other)
        return Test(node, (holds,), own[0]) if holds else None

    def _wrapped(self, node: Node) -> Test | None:
        """`(x + dx + width) % width`, which is `x + dx` inside."""
        own, length = unwrapped(field(node, "left")), field(node, "right")
        known = self.view.value(length)
        few = known is not None and known < _LEAST_LENGTH
        if few or self._rests(length) or not self._rests(own) or not self.view.is_plain_enough(node):
            return None
        if operator_of(own) == "+" and self.view.code(unwrapped(field(own, "right"))) == self.view.code(
            length
        ):
            own = field(own, "left")
        elif operator_of(own) not in ("+", "-"):
            return None
        holds = self._holds(own, ">=", None), self._holds(own, "<", length)
        return Test(node, holds, own) if all(holds) else None

    def _all(self, node: Node, joined: str, *, negated: bool) -> tuple[str, ...]:
        """What makes all parts of a condition true, or with `negated` false; () where that is not known."""
        node = unwrapped(node)
        if node.type == "binary_expression" and operator_of(node) == joined:
            left = self._all(field(node, "left"), joined, negated=negated)
            right = self._all(field(node, "right"), joined, negated=negated)
            return (*left, *right) if left and right else ()
        if node.type != "binary_expression" or operator_of(node) not in NEGATED:
            return ()
        sides = field(node, "left"), field(node, "right")
        if sum(self._rests(s) for s in sides) != 1:
            return ()
        kind = NEGATED[operator_of(node)] if negated else operator_of(node)
        if kind == "!=":
            # what is not the first is behind it, what is not the last is before it: enough for all iterations
            own, other = sides if self._rests(sides[0]) else sides[::-1]
            sides, kind = (own, other), ">" if self.view.value(other) == 0 else "<"
        holds = self._holds(sides[0], kind, sides[1]) if kind != "==" else ""
        return (holds,) if holds else ()

    def _rests(self, node: Node, deep: int = 0) -> bool:
        """Whether an expression rests on which thread runs it."""
        if re.search(r"\b(?:threadIdx|blockIdx)\b", self.view.code(node)):
            return True
        values = [one.value for _, one in self._variables(node) if one is not None]
        return deep < _DEEP and any(v is not None and self._rests(v, deep + 1) for v in values)

    def _holds(self, left: Node, order: str, right: Node | None) -> str:
        """A comparison that holds in all iterations where it holds in the worst of them; "" where that is not known.
        `right`: None for zero.
        """
        a, b = self._form(left), self.view.forms.form(right) if right is not None else forms.number(0)
        if a is None or b is None or not all(self._is_signed(n) for n in (left, right) if n is not None):
            return ""
        difference, worst = forms.subtract(a, b), dict[str, str]()
        if difference is None:
            return ""
        upward = order in ("<", "<=")
        for node in self._around(left):
            loop, symbol = counting(self.view.expanded, node), self.view.forms.loop(node).counter
            growth = _sign(difference.growth(symbol)) if symbol else None
            if growth is None or loop is None or loop.variable in worst:
                return ""
            if not growth:
                continue
            # a bound that goes along with the loop that it bounds has no last value to be asked for
            if left.start_byte < field(node, "body").start_byte:
                return ""
            value = self._last(loop) if (growth > 0) == upward else self._first(loop)
            if not value:
                return ""
            worst[loop.variable] = value
        sides = [_signed(self._resolved(n, worst)) if n is not None else "0" for n in (left, right)]
        return f"{sides[0]} {order} {sides[1]}" if all(sides) else ""

    def _form(self, node: Node, deep: int = 0) -> forms.Form | None:
        """The form of an expression with what is left of clamps inside, its own and those of what it is made of."""
        node, whole = unwrapped(node), self.view.forms.form(node)
        inner, kind = self._left(node), operator_of(node)
        if inner is not None:
            return self._form(inner, deep + 1)
        if deep > _DEEP or node.type not in ("identifier", "binary_expression"):
            return whole
        if node.type == "identifier":
            one = next((d for _, d in self._variables(node)), None)
            is_inside = one is not None and one.statement.start_byte >= self._begin and not one.stars
            value = one.value if one is not None and is_inside and not self._is_changed(node) else None
            return self._form(value, deep + 1) if value is not None else whole
        if kind not in _JOINED:
            return whole
        left, right = (self._form(field(node, side), deep + 1) for side in ("left", "right"))
        return _JOINED[kind](left, right) if left is not None and right is not None else None

    def _left(self, node: Node) -> Node | None:
        """What is left of a clamp inside; None for anything else."""
        is_clamp = node.type in ("call_expression", "conditional_expression") or operator_of(node) == "%"
        found = self._test(node) if is_clamp else None
        return found.left if found is not None else None

    def _first(self, loop: Counting) -> str:
        plain = loop.step == "1" and not loop.downward and loop.declared and loop.first is not None
        return self._resolved(loop.first, {}) if plain and loop.first is not None else ""

    def _last(self, loop: Counting) -> str:
        if loop.step != "1" or loop.downward or not loop.declared or len(loop.bounds) != 1:
            return ""
        bound = self._resolved(loop.bounds[0], {})
        condition = self.view.code(field(loop.node, "condition"))
        if not bound:
            return ""
        return bound if "<=" in condition else f"({bound} - 1)"

    def _is_signed(self, node: Node) -> bool:
        """Whether an expression is made of integers with a sign: others wrap around at zero."""
        if any(n.type in _ELSEWHERE and not self._is_extent(n) for n in walk(node)):
            return False
        for name, one in self._variables(node):
            parameter = next((p for p in self.view.kernel.parameters if p.name == self.view.code(name)), None)
            kind = one.type if one is not None else parameter.type if parameter is not None else "int"
            known = integer_type(unqualified(kind))
            pointer = one.stars if one is not None else parameter is not None and parameter.pointer
            if pointer or known is None or not known.signed:
                return False
        return True

    def _is_extent(self, node: Node) -> bool:
        """Whether it says how large a block is: never so much that its sign would be lost."""
        return _EXTENT.fullmatch(self.view.code(node)) is not None

    def _resolved(self, node: Node, worst: dict[str, str], deep: int = 0) -> str:
        """An expression by what is known before the statements; "" where it cannot be said."""
        text, names = self.view.written(node), dict[str, str]()
        if not self.view.is_plain_enough(node) or deep > _DEEP:
            return ""
        node = unwrapped(node)
        inner = self._left(node)
        if inner is not None:
            return self._resolved(inner, worst, deep + 1)
        if any(n.type == "call_expression" for n in walk(node)):
            return ""
        for name, one in self._variables(node):
            value = self._known(name, one, worst, deep)
            if not value:
                return ""
            if value != self.view.code(name):
                names[self.view.code(name)] = value if _is_tight(value) else f"({value})"
        return renamed(text, names)

    def _known(self, name: Node, one: Declared | None, worst: dict[str, str], deep: int) -> str:
        """A variable by what is known before the statements; "" where it cannot be said."""
        code, holder = self.view.code(name), one.statement.parent if one is not None else None
        if holder is not None and holder.type == "for_statement":
            return worst.get(code, "")
        if self._is_changed(name):
            return ""
        if one is None or one.statement.start_byte < self._begin:
            return code
        if one.value is None or not self._is_signed(name):
            return ""
        if not _BUILT_IN.search(self.view.code(one.value)):
            elsewhere = any(n.type in _ELSEWHERE for n in walk(one.value))
            return "" if elsewhere else self._resolved(one.value, worst, deep + 1)
        # the thread's number has no sign before it is given to a variable
        plain = all(n.type != "subscript_expression" for n in walk(one.value)) and "*" not in one.stars
        text = self._resolved(one.value, worst, deep + 1) if plain else ""
        return f"static_cast<{unqualified(one.type)}>({text})" if text else ""


def _sign(growth: forms.Form | None) -> int | None:
    """1 or -1 for what is more or less than nothing, whatever the launch, 0 for nothing; None where it is not known."""
    if growth is None or not all(_EXTENT.fullmatch(s.name) for symbols, _ in growth.terms for s in symbols):
        return None
    signs = {1 if factor > 0 else -1 for _, factor in growth.terms}
    return signs.pop() if len(signs) == 1 else None if signs else 0


def _signed(text: str) -> str:
    """An expression with a sign: what blocks' extents are added to has none."""
    rest = text
    while found := re.search(r"static_cast<[\w ]+>\(", rest):
        rest = rest[: found.start()] + rest[matching(rest, found.end() - 1) :]
    return f"static_cast<int>({text})" if _EXTENT.search(rest) else text


def _is_tight(text: str) -> bool:
    """Whether an expression may stand anywhere without brackets around it."""
    head = re.match(r"(?:static_cast<[\w ]+>)?\(", text)
    return re.fullmatch(r"\w+", text) is not None or (
        head is not None and matching(text, head.end() - 1) == len(text)
    )


def _holds(node: Node, inner: Node) -> bool:
    return node.start_byte <= inner.start_byte and inner.end_byte <= node.end_byte
