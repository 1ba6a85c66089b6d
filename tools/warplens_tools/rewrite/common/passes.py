# SPDX-License-Identifier: Apache-2.0
"""Strided loops in which the threads of a warp or a block walk the same row one after another."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form, Monomial
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    calls,
    field,
    operator_of,
    squeezed,
    statements,
    stores,
    unwrapped,
    without_comments,
)

NOT_STRIDED = "no row is walked in several passes by the threads of a warp or a block"
_TOGETHER = re.compile(r"__sync\w+|__shfl\w*|\bsync\s*\(|\basm\b")
_SEEN_BY_OTHERS = re.compile(r"__threadfence\w*|\basm\b|\bgoto\b|\bgrid\w*\s*\.\s*sync\s*\(")
_REPEATED = frozenset({"while_statement", "do_statement", "switch_statement", "lambda_expression"})
_PURE = frozenset({"min", "max"})


class Pass(msgspec.Struct, frozen=True):
    """One loop `for (type name = first; name < limit; name += step)`; a thread's first element is its own number."""

    loop: Node
    #: The statement of the group's block that it is or stands in.
    top: Node
    name: str
    type: str
    first: Node
    limit: Node
    step: Node
    #: The symbol that counts its iterations, in forms.
    counter: str
    stride: Form
    #: Elements at the row's begin that it leaves out.
    skipped: int
    #: One thread walks the row, element by element; the step is the header's own then.
    alone: bool = False

    @property
    def body(self) -> Node:
        """What is done for each element."""
        return field(self.loop, "body")


class Group(msgspec.Struct, frozen=True):
    """Passes over the same elements by the same threads, in order, and all statements from the first to the last."""

    passes: tuple[Pass, ...]
    span: tuple[Node, ...]
    #: Variables that a statement of the span sets.
    changed: frozenset[str]
    #: Arrays that one stores to; "" among them where it is not known which.
    stored: frozenset[str]


class Place(msgspec.Struct, frozen=True):
    """Which element of an array an iteration accesses: equal places are equal elements in every pass."""

    array: str
    growth: Form
    rest: frozenset[tuple[Monomial, int]]


def read_groups(view: View, lines: Sequence[int] = ()) -> tuple[Group, ...]:
    """Every row that is walked twice or more; `lines` limits them to those with a pass there.

    Raises:
        Refused: there is none, or none whose passes can be told to be over the same elements.
    """
    why, found = NOT_STRIDED, list[Group]()
    for block in walk(view.body):
        if block.type != "compound_statement" or _is_scope(block):
            continue
        for passes in _alike(view, block):
            if lines and not any(_is_on(view, p.loop, lines) for p in passes):
                continue
            try:
                found.append(_group(view, block, passes))
            except Refused as error:
                why = str(error)
    if not found:
        raise Refused(why)
    return tuple(found)


def place_of(view: View, one: Pass, element: Node) -> Place | None:
    """The place of a subscripted element of a pass; None where it is not one element an iteration, or not known."""
    pointer = view.place(element)
    if element.type != "subscript_expression" or pointer is None or pointer.traced is None:
        return None
    growth = pointer.traced.growth(one.counter)
    if growth is None or growth != one.stride:
        return None
    rest = {(s, f) for s, f in pointer.traced.terms if not any(x.mentions(one.counter) for x in s)}
    loaded = {x.operation for symbols, _ in rest for x in symbols if x.opaque}
    return None if loaded - {"loaded"} else Place(pointer.name, growth, frozenset(rest))


def is_unconditional(node: Node, body: Node) -> bool:
    """Whether an expression is computed in every iteration of a loop with that body."""
    child, outer = node, node.parent
    while child.id != body.id and outer is not None:
        kept = {
            "if_statement": "condition",
            "conditional_expression": "condition",
            "for_statement": "initializer",
        }
        if outer.type in kept:
            first = outer.child_by_field_name(kept[outer.type])
            if first is None or first.id != child.id:
                return False
        elif outer.type in _REPEATED or (
            operator_of(outer) in ("&&", "||") and field(outer, "left").id != child.id
        ):
            return False
        if outer.id == body.id:
            return True
        child, outer = outer, outer.parent
    return child.id == body.id


def _is_on(view: View, node: Node, lines: Sequence[int]) -> bool:
    span = view.span(node)
    return any(span.line <= line <= span.end_line for line in lines)


def _is_scope(node: Node) -> bool:
    """Whether a block is a statement by itself: its loops are read with those around it."""
    outer = node.parent
    return node.type == "compound_statement" and outer is not None and outer.type == "compound_statement"


def _alike(view: View, block: Node) -> Iterator[list[Pass]]:
    """The passes of a block with one header, whose names mean the same."""
    by_header: dict[tuple[object, ...], list[Pass]] = {}
    for top, node in _loops(block):
        one = _pass(view, top, node)
        if one is None or one.skipped:
            continue
        parts = (one.first, one.limit, one.step)
        bindings = [
            view.expanded.constants.binding(name, node.start_byte)
            for name in sorted(frozenset().union(*map(view.names, parts)))
        ]
        declared = [b.declaration if b is not None else None for b in bindings]
        by_header.setdefault((one.type, *(squeezed(view.code(n)) for n in parts), *declared), []).append(one)
    return (passes for passes in by_header.values() if len(passes) > 1)


def _loops(block: Node, top: Node | None = None) -> Iterator[tuple[Node, Node]]:
    """The loops of a block, each with the statement of the block that it is or stands in."""
    for node in block.named_children:
        if node.type == "for_statement":
            yield top or node, node
        elif _is_scope(node):
            yield from _loops(node, top or node)


def _alone(view: View, loop: Node) -> Pass | None:
    """The pass of a thread that walks a row element by element."""
    known, initial = view.forms.loop(loop), loop.child_by_field_name("initializer")
    update, condition = loop.child_by_field_name("update"), loop.child_by_field_name("condition")
    declared = declared_in(view, initial) if initial is not None and initial.type == "declaration" else []
    if len(declared) != 1 or known.step is None or known.step.value != 1 or known.comparison != "<":
        return None
    first, test = declared[0].value, unwrapped(condition) if condition is not None else loop
    start = view.value(first)
    if first is None or update is None or start not in (0, 1) or declared[0].stars or start is None:
        return None
    if view.code(field(test, "left")) != declared[0].name:
        return None
    counted = (known.counter, known.step, start)
    limit = field(test, "right")
    return Pass(loop, loop, declared[0].name, declared[0].type, first, limit, update, *counted, alone=True)


def _pass(view: View, top: Node, loop: Node) -> Pass | None:
    known, initial = view.forms.loop(loop), loop.child_by_field_name("initializer")
    update, condition = loop.child_by_field_name("update"), loop.child_by_field_name("condition")
    if initial is None or initial.type != "declaration" or update is None or condition is None:
        return None
    if known.comparison != "<" or known.step is None or operator_of(update) != "+=" or known.step.value == 1:
        return None
    declared, test = declared_in(view, initial), unwrapped(condition)
    first = declared[0].value
    if (
        len(declared) != 1
        or first is None
        or declared[0].stars
        or view.code(field(test, "left")) != declared[0].name
    ):
        return None
    start = view.forms.form(first)
    if start is None or not known.step.uniform or start.constant not in (0, 1):
        return None
    if not _numbers_threads(forms.subtract(start, forms.number(start.constant))):
        return None
    step, limit = field(update, "right"), field(test, "right")
    counted = (known.counter, known.step, start.constant)
    return Pass(loop, top, declared[0].name, declared[0].type, first, limit, step, *counted)


def _numbers_threads(form: Form | None) -> bool:
    """Whether a form is the number of a thread in its warp or block, from 0."""
    if form is None or len(form.terms) != 1:
        return False
    symbols, factor = form.terms[0]
    if len(symbols) != 1 or factor != 1:
        return False
    symbol = symbols[0]
    is_lane = symbol.operation in ("%", "&") and symbol.operands[0].coefficient("threadIdx.x") == 1
    return symbol.name == "threadIdx.x" or is_lane


def read_pairs(view: View, *, alone: bool = False) -> Iterator[tuple[Pass, Pass, Group]]:
    """Every two passes over the same elements, one right after the other in a block, and what is between them.

    The first may leave out the row's first element. `alone`: passes of a thread that walks a row by itself, instead of
    those of a warp or a block.
    """
    for block in walk(view.body):
        loops = [n for n in block.named_children if n.type == "for_statement"]
        read = [_alone(view, n) if alone else _pass(view, n, n) for n in loops]
        for first, second in itertools.pairwise(one for one in read if one is not None):
            ends = ((first.limit, second.limit), *(() if alone else ((first.step, second.step),)))
            same = all(squeezed(view.code(a)) == squeezed(view.code(b)) for a, b in ends)
            starts = [view.forms.form(p.first) for p in (first, second)]
            if not same or first.type != second.type or None in starts or second.skipped:
                continue
            if forms.subtract(starts[0] or forms.ZERO, forms.number(first.skipped)) == starts[1]:
                with contextlib.suppress(Refused):
                    yield first, second, _group(view, block, [first, second])


def _group(view: View, block: Node, passes: list[Pass]) -> Group:
    if "volatile" in " ".join([view.code(view.body), *(p.type for p in view.kernel.parameters)]):
        raise Refused("what is volatile may change between the passes")
    begin, end = passes[0].top.start_byte, passes[-1].top.end_byte
    span = tuple(n for n in block.named_children if begin <= n.start_byte and n.end_byte <= end)
    if _SEEN_BY_OTHERS.search(" ".join(view.code(n) for n in span)):
        raise Refused("between the passes other blocks may be shown what was written")
    updates = {field(p.loop, "update").id: p for p in passes}
    places = [place for n in span for _, place in assigned(n, view) if _owner(place).id not in updates]
    changed = frozenset(view.code(unwrapped(p)) for p in places if unwrapped(p).type == "identifier")
    stored = frozenset(
        view.array(e) for n in span for e in stores(view, n) if view.space(e) not in ("shared", "local")
    )
    for one in passes:
        _check(view, one, changed, stored)
    return Group(tuple(passes), span, changed, stored)


def _owner(place: Node) -> Node:
    return place.parent or place


def _check(view: View, one: Pass, changed: frozenset[str], stored: frozenset[str]) -> None:
    """That a pass can be split, and that its header means the same in all of them."""
    written, body = view.written(one.loop), view.code(one.body)
    if "#" in without_comments(written) or not view.is_plain_enough(one.loop):
        raise Refused("a macro or a directive writes a part of a pass")
    if start_with_pragmas(view.file, view.start(one.loop)) != view.start(one.loop):
        raise Refused("a pass has a pragma of its own")
    if any(n.type in JUMPS for n in walk(one.body)):
        raise Refused("a pass is left early")
    if _TOGETHER.search(body):
        raise Refused("threads wait for each other inside a pass")
    if any(name == one.name for name, _ in assigned(one.body, view)):
        raise Refused("a pass changes the element's number")
    for node in (one.first, one.limit, one.step):
        called = any(name not in _PURE for name, _ in calls(node, view))
        loaded = any(view.array(e) in stored for e in view.elements(node))
        if called or loaded or view.names(node) & changed:
            raise Refused("the passes are not known to be over the same elements")
    if not statements(one.body):
        raise Refused("a pass does nothing")
