# SPDX-License-Identifier: Apache-2.0
"""Both versions of a kernel in one, where the edit is faster at some of the program's launches and slower at others.

The choice is the kernel's own, by the number of its blocks, which all threads of a launch share: host code stays as it
is. Each launch runs one of two bodies that were written for it, so registers are those of the larger.
"""

from __future__ import annotations

import difflib
import math
import textwrap
from collections.abc import Sequence

from warplens.agent.edits import text_hash
from warplens.agent.moves import Move, Proposal
from warplens.agent.versions import Node, Versions
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText, TextEdit

Grid = tuple[int, int, int]


def dispatched(versions: Versions, node: Node, heaviest: Grid, slower_at: Sequence[Grid]) -> Node | None:
    """A version that takes `node`'s body where the launch is as large as `heaviest`, and the user's at `slower_at`.

    None where the number of blocks does not tell them apart, the edit changes launches or what else the user's body
    rests on, or that text is known already.
    """
    candidate = node.ask.candidate
    same = candidate.grid is None and candidate.block is None and not candidate.asks_program
    condition = _condition(heaviest, slower_at)
    if not same or candidate.dynamic_shared_bytes is not None or not condition:
        return None
    found = _joined(versions.root.text, node, condition)
    if found is None:
        return None
    edit, text = found
    if text_hash(text) == candidate.text_hash:
        return None
    move = Move(("dispatch",), "", f"Keep the original where {condition}")
    return versions.grow(node, Proposal(move, (edit,)))


def _condition(heaviest: Grid, slower_at: Sequence[Grid]) -> str:
    """When the user's version is to run; "" where the number of blocks does not tell."""
    most, others = math.prod(heaviest), [math.prod(grid) for grid in slower_at]
    flat = all(grid[1:] == (1, 1) for grid in (heaviest, *slower_at))
    blocks = "gridDim.x" if flat else "gridDim.x * gridDim.y * gridDim.z"
    if others and max(others) < most:
        return f"{blocks} <= {max(others)}"
    return f"{blocks} >= {min(others)}" if others and min(others) > most else ""


def _joined(root: SourceText, node: Node, condition: str) -> tuple[TextEdit, SourceText] | None:
    """The edit of a version's text that brings the user's body back under a condition, and what it makes."""
    path, name = node.ask.candidate.path, node.ask.candidate.kernel
    theirs, mine = parse(root, path).kernel(name), parse(node.text, path).kernel(name)
    if theirs is None or mine is None or theirs.broken or mine.broken or theirs.macro or mine.macro:
        return None
    named = [[p.name for p in kernel.parameters] for kernel in (theirs, mine)]
    if named[0] != named[1] or theirs.template_parameters != mine.template_parameters:
        return None
    if not _keeps(_outside(root, theirs), _outside(node.text, mine)):
        return None
    before, after = (_inside(text, kernel) for text, kernel in ((root, theirs), (node.text, mine)))
    body = f"{{\n  if ({condition}) {{\n{before}\n  }} else {{\n{after}\n  }}\n}}"
    edit = TextEdit(mine.body, body)
    return edit, node.text.apply([edit])


def _inside(text: SourceText, kernel: Kernel) -> str:
    """A body without its braces, two steps in."""
    inner = text.slice(kernel.body).strip()[1:-1].strip("\n")
    return textwrap.indent(textwrap.dedent(inner.rstrip()), "    ")


def _outside(text: SourceText, kernel: Kernel) -> list[str]:
    whole = text.text
    start = text.offset(kernel.span.line, kernel.span.column)
    end = text.offset(kernel.span.end_line, kernel.span.end_column)
    data = whole.encode()
    return (data[:start] + b"\n" + data[end:]).decode().splitlines()


def _keeps(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether one text has all lines of another, in their order, and what it has besides is added."""
    codes = difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()
    return all(kind in ("equal", "insert") for kind, *_ in codes)
