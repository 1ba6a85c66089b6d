# SPDX-License-Identifier: Apache-2.0
"""A kernel's loops, walked in vectors: those that a rewrite reads as such, in the place of what stood there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Target
from warplens_tools.rewrite.common.reading import View
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.vector_writer import VectorWriter
from warplens_tools.rewrite.common.vectors import WIDEST, Array, Work, elements_of_vector
from warplens_tools.text import TextEdit

#: Elements of a vector in a stretch that data tell the ends of.
_SHORT = 8


class Widened(msgspec.Struct, frozen=True):
    """The edits, and each loop that they replace with the arrays it walks."""

    edits: tuple[TextEdit, ...]
    loops: tuple[tuple[Node, tuple[Array, ...]], ...]


def widened(
    view: View, target: Target, read: Callable[[View, Node], tuple[Work, tuple[Array, ...]]], why: str
) -> Widened:
    """The loops on the target's lines that `read` does not refuse.

    Raises:
        Refused: there is none; for what `read` said of the last one, or `why` where there is no loop.
    """
    style, edits, vectors, names = Style(view), list[TextEdit](), dict[int, str](), dict[str, str]()
    loops: list[tuple[Node, tuple[Array, ...]]] = []
    for loop in (n for n in walk(view.body) if n.type == "for_statement"):
        if target.lines and view.span(loop).line not in target.lines:
            continue
        try:
            work, arrays = read(view, loop)
        except Refused as error:
            why = str(error)
            continue
        count = elements_of_vector(view, arrays)
        # stretches among others are short: a vector has to fit between their ends
        count = min(count, _SHORT) if work.begin else count
        if count not in vectors:
            said = f"elements at a time, up to {WIDEST} bytes"
            vectors[count] = style.constant("kVector", str(count), said)
        writer = VectorWriter(view, style, work, arrays, vectors[count], count, names)
        edits.append(TextEdit(view.span(loop), _in_place_of(view, style, loop, writer.loop())))
        loops.append((loop, arrays))
    if not edits:
        raise Refused(why)
    return Widened((style.constants(), *edits), tuple(loops))


def _in_place_of(view: View, style: Style, loop: Node, code: str) -> str:
    """Code in the place of a loop, in its indentation."""
    margin = view.margin(loop)
    lines = []
    for one in code.split("\n"):
        bare = one.lstrip(" ")
        lines.append(f"{margin}{style.step * ((len(one) - len(bare)) // 2)}{bare}" if bare else "")
    return view.text.newline.join(lines).lstrip()
