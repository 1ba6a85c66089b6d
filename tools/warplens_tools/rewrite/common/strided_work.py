# SPDX-License-Identifier: Apache-2.0
"""Loops that stride over data by the number of their threads, read as work on neighbouring indices."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.reading import View, field, operator_of, statements, unwrapped
from warplens_tools.rewrite.common.vectors import Array, Work, read_arrays

#: A bound that one may add to as it is written.
_SUM = re.compile(r"[\w\s.*+()-]+")
#: What tells a block, or a row of its threads, from the next; `blockDim.x` alone is where all of them begin.
_NUMBERED = re.compile(r"\bblockIdx\b|\bthreadIdx\.[yz]")


def strided_arrays(view: View, loop: Node, *, wide: bool = False) -> tuple[Work, tuple[Array, ...]]:
    """The loop's work, and the arrays that it walks. `wide` as in `read_arrays`.

    Raises:
        Refused: it is no such loop, or it walks none that could go in vectors.
    """
    work = strided_work(view, loop)
    own = (e for e in view.elements(loop) if view.space(e) == "local")
    if any(work.name in view.names(element) for element in own):
        raise Refused("a thread keeps elements of the loop in an array of its own, by their number")
    return work, read_arrays(view, work, wide=wide)


def strided_work(view: View, loop: Node) -> Work:
    """The loop's work.

    Raises:
        Refused: it does not deal neighbouring elements out to neighbouring threads.
    """
    known, initial = view.forms.loop(loop), loop.child_by_field_name("initializer")
    if (
        initial is None
        or initial.type != "declaration"
        or known.comparison not in ("<", "<=")
        or known.origin is None
    ):
        raise Refused("no loop strides over data by the number of its threads")
    step, update = known.step, loop.child_by_field_name("update")
    if step is None or step.value == 1 or update is None or operator_of(update) != "+=":
        raise Refused("no loop strides over data by the number of its threads")
    declared = declared_in(view, initial)
    if len(declared) != 1 or declared[0].value is None:
        raise Refused("the loop is not over one variable")
    base, first = _start(view, declared[0].value)
    bound = field(unwrapped(field(loop, "condition")), "right")
    begun = view.forms.traced(base) if base is not None else None
    return Work(
        name=declared[0].name,
        type=declared[0].type,
        limit=_end(view, bound, known.comparison),
        statements=tuple(statements(field(loop, "body"))),
        base=view.written(base) if base is not None else "",
        first=view.written(first),
        step=view.written(field(update, "right")),
        counter=known.counter,
        stride=step,
        begun=begun.constant if begun is not None else 0,
    )


def _end(view: View, bound: Node, comparison: str) -> str:
    """The first value that the loop does not reach: `t + 1` of `j <= t`.

    Raises:
        Refused: what would have to be added to is no sum.
    """
    written = view.written(bound)
    if comparison == "<":
        return written
    if not _SUM.fullmatch(written):
        raise Refused("the loop's last value is not written as a sum")
    return f"{written} + 1"


def _start(view: View, node: Node) -> tuple[Node | None, Node]:
    """What all threads begin at, None for 0, and the number of the thread from there.

    Raises:
        Refused: the loop begins at neither.
    """
    node = unwrapped(node)
    if _numbers_threads(view, node):
        return None, node
    if node.type == "binary_expression" and operator_of(node) == "+":
        left, right = field(node, "left"), field(node, "right")
        for base, first in ((left, right), (right, left)):
            form = view.forms.traced(base)
            if form is not None and form.uniform and _numbers_threads(view, first):
                return base, first
    raise Refused("the loop does not begin at the thread's own number")


def _numbers_threads(view: View, node: Node) -> bool:
    """Whether an expression counts threads from 0: of a warp, a block or the grid."""
    form = view.forms.form(node)
    if (
        form is None
        or form.constant
        or any(s.kind in ("parameter", "loop", "grid size") for s in form.symbols)
    ):
        return False
    terms = {tuple(s.name for s in symbols): (symbols, factor) for symbols, factor in form.terms}
    rest = {names: pair for names, pair in terms.items() if not _NUMBERED.search(" ".join(names))}
    if len(rest) != 1:
        return False
    symbols, factor = next(iter(rest.values()))
    if len(symbols) != 1 or factor != 1:
        return False
    symbol = symbols[0]
    is_lane = symbol.operation in ("%", "&") and symbol.operands[0].coefficient("threadIdx.x") == 1
    return symbol.name == "threadIdx.x" or (is_lane and len(terms) == 1)
