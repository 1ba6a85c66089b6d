# SPDX-License-Identifier: Apache-2.0
"""What a block reads of an array: where it begins, its rows, and an element's place among them."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.common.reading import renamed

AXES = ("threadIdx.x", "threadIdx.y")


class Role(msgspec.Struct, frozen=True):
    """Something that an index goes by: a thread's place, or a loop's variable, from 0 to below `extent`."""

    text: str
    extent: int
    #: Elements by which the index grows with it.
    step: int


class Staged(msgspec.Struct, frozen=True):
    """What a block reads of one array by one index."""

    array: str
    element_type: str
    places: tuple[Node, ...]
    #: Where it begins, as the user's index with all roles at 0.
    base: str
    roles: tuple[Role, ...]
    rows: int
    width: int
    #: Elements from row to row.
    pitch: int

    @property
    def elements(self) -> int:
        """How many different elements these are."""
        return self.rows * self.width

    def bytes(self) -> int:
        """Shared memory that they take, padding included."""
        return self.rows * (self.width + 1) * (type_bytes(self.element_type) or 16)

    def place(self) -> str:
        """The indices of an element in the tile."""
        down = [r for r in self.roles if self.pitch and r.step >= self.pitch]
        along = [r for r in self.roles if r not in down]
        row = [_times(r.text, r.step // self.pitch) for r in down]
        column = " + ".join(_times(r.text, r.step) for r in along) or "0"
        return f"[{' + '.join(row)}][{column}]" if self.rows > 1 else f"[{column}]"


def _times(text: str, factor: int) -> str:
    return text if factor == 1 else f"{text} * {factor}"


def with_values(text: str, values: dict[str, str]) -> str:
    """An index with other text for threads' places and variables."""
    for axis in AXES:
        if axis in values:
            text = re.sub(rf"threadIdx\s*\.\s*{axis[-1]}\b", values[axis], text)
    return renamed(text, {k: v for k, v in values.items() if "." not in k})


def without_zeros(text: str) -> str:
    """A sum without what is zero in it: `0 * n + first + 0` is `first`; "" where nothing is left."""
    zero = r"(?:\(0\)|\b0\b)"
    for _ in range(4):
        text = re.sub(rf"{zero}\s*\*\s*[\w.]+|(?<![\w.])[\w.]+\s*\*\s*{zero}", "0", text)
        text = re.sub(rf"{zero}\s*\+\s*|\s*\+\s*{zero}(?!\s*\*)", "", text)
        text = re.sub(r"\(\s*0\s*\)", "0", text)
    return "" if text.strip() == "0" else text.strip()
