# SPDX-License-Identifier: Apache-2.0
"""A loop over tiles and the loop within a tile as one: what an index of both is as one of the whole.

Indices are compared by their values at random points, which two different sums of products do not share.
"""

from __future__ import annotations

import ast
import operator
import random
import re
from collections.abc import Callable, Mapping

import msgspec

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import WORD, renamed

_INTEGER = re.compile(r"[\w\s+*/%().-]+")
_POINTS = 3
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class JoinedLoops(msgspec.Struct, frozen=True):
    """Two loops as one: `whole` is `variable * depth + counter` where the outer one counts tiles (`step` 1), and
    `variable + counter` where it goes on by `step` = `depth`.
    """

    variable: str
    counter: str
    whole: str
    depth: int
    step: int
    known: dict[str, int]

    def at(self, text: str) -> str:
        """An expression of both variables as one of the whole; text of an element changes within its index."""
        zeroed = _simplified(renamed(text, {self.variable: "0", self.counter: self.whole}))
        self._check(text, zeroed)
        return zeroed

    def _check(self, before: str, after: str) -> None:
        draw, factor = random.Random(0), self.depth // self.step
        for _ in range(_POINTS):
            point = {n: draw.randrange(3, 10**6) for n in WORD.findall(before + " " + after)} | self.known
            point[self.variable] = draw.randrange(2, 10**4) * self.step
            point[self.counter] = draw.randrange(0, self.depth)
            old = _value(before, point)
            point[self.whole] = point[self.variable] * factor + point[self.counter]
            new = _value(after, point)
            if old is None or old != new:
                raise Refused("a tile is not filled by consecutive elements of the loop")


def _simplified(text: str) -> str:
    """Text without what is zero: `0 * 16 + k` is `k`."""
    zero = r"(?:\b0\s*\*\s*(?:blockDim\.[xyz]|\w+)|(?:blockDim\.[xyz]|\b\w+)\s*\*\s*0\b|\(0\)|\b0\b(?!\s*\*))"
    text = re.sub(rf"{zero}\s*\+\s*", "", text)
    text = re.sub(rf"\s*\+\s*{zero}(?!\s*[*/%.\w])", "", text)
    return re.sub(r"\((\w+)\)(?=\s*[+*<\])]|$)", r"\1", text)


def _value(text: str, point: dict[str, int]) -> list[int] | None:
    """The values of an element's index, or of both sides of a comparison, as integers."""
    match = re.fullmatch(r"\s*[\w.]+\s*\[(.*)\]\s*", text, re.DOTALL)
    parts = [match[1]] if match is not None else re.split(r"<=|>=|<|>|==|!=", text)
    found = []
    for part in parts:
        plain = re.sub(r"\(\s*(?:size_t|int|long|unsigned|long long|unsigned int|int64_t)\s*\)", "", part)
        plain = re.sub(r"(block|thread|grid)(Idx|Dim)\s*\.\s*([xyz])", r"\1\2\3", plain)
        if not _INTEGER.fullmatch(plain):
            return None
        names = dict(point)
        for word in WORD.findall(plain):
            names.setdefault(word, 7 + sum(map(ord, word)))
        try:
            found.append(int(_evaluated(plain.replace("/", "//"), names)))
        except (ArithmeticError, KeyError, SyntaxError, ValueError):
            return None
    return found


def _evaluated(code: str, names: Mapping[str, int]) -> int:
    """An expression of names, integers, and `+ - * // %` in brackets.

    Raises:
        SyntaxError, ValueError: it is none.
    """
    return _computed(ast.parse(code.strip(), mode="eval").body, names)


def _computed(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_computed(node.left, names), _computed(node.right, names))
    raise ValueError("no sum of products")
