# SPDX-License-Identifier: Apache-2.0
"""Loops over rows and columns that walk consecutive elements, as one loop: `for (h …) for (w …) a[h * W + w]`.

Dealt out, the one loop has all its elements to give, the inner one alone a row of perhaps 28. That an index is one of
`h * W + w` is told by its values at random points.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Apply, Refused, RewriteResult, Target
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.evaluated import Evaluator
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    operator_of,
    squeezed,
    statements,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText, TextEdit

#: Columns, rows and planes: three loops are two joins.
_MOST = 3
#: A product with 0 that is added.
_NOTHING = r"(?<=[\[(])0(?: \* [\w.]+)* \+ |(?<== )0(?: \* [\w.]+)* \+ | \+ 0(?: \* [\w.]+)*(?=\s*[-)\]+;,])"
_INSIDE = frozenset({"binary_expression", "parenthesized_expression", "cast_expression"})


class _Counted(msgspec.Struct, frozen=True):
    """`for (int name = 0; name < bound; ++name)`."""

    loop: Node
    name: str
    type: str
    bound: Node


def collapsing(edit: Apply) -> Apply:
    """`edit`, on the kernel with such loops joined where it applies to that."""

    @functools.wraps(edit)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        joined = None if target.lines or target.names else collapsed(text, model, kernel)
        if joined is not None:
            again = parse(joined, model.path)
            mine = again.same(kernel, model)
            result = edit(joined, again, mine, target) if mine is not None and not mine.broken else None
            if result is not None and result.edits:
                after = joined.apply(list(result.edits))
                return msgspec.structs.replace(result, edits=between(text, after))
        return edit(text, model, kernel, target)

    return apply


def collapsed(text: SourceText, model: SourceModel, kernel: Kernel) -> SourceText | None:
    """The file with such loops of a kernel joined; None where there are none."""
    after, now, mine, found = text, model, kernel, False
    for _ in range(_MOST):
        try:
            edits = _joined(View(after, now, mine))
        except Refused:
            break
        if not edits:
            break
        after, found = after.apply(edits), True
        now = parse(after, model.path)
        again = now.same(kernel, model)
        if again is None or again.broken:
            return None
        mine = again
    return after if found else None


def _joined(view: View) -> list[TextEdit]:
    """The edits that join the innermost pairs of loops."""
    edits = list[TextEdit]()
    for outer, inner in _pairs(view):
        edits.append(_edit(view, outer, inner))
    return edits


def _pairs(view: View) -> Iterator[tuple[_Counted, _Counted]]:
    for node in walk(view.body):
        outer = _counted(view, node)
        inside = statements(field(outer.loop, "body")) if outer is not None else []
        inner = _counted(view, inside[0]) if len(inside) == 1 else None
        if (
            outer is None
            or inner is None
            or any(n.type == "for_statement" for n in walk(field(inner.loop, "body")))
        ):
            continue
        if _is_whole(view, outer, inner):
            yield outer, inner


def _counted(view: View, node: Node) -> _Counted | None:
    if node.type != "for_statement" or start_with_pragmas(view.file, view.start(node)) != view.start(node):
        return None
    initial, condition, update = (node.child_by_field_name(n) for n in ("initializer", "condition", "update"))
    if initial is None or condition is None or update is None:
        return None
    declared, test = plainly_declared_in(view, initial), unwrapped(condition)
    if len(declared) != 1 or view.value(declared[0].value) != 0 or operator_of(test) != "<":
        return None
    name, bound = declared[0].name, field(test, "right")
    if squeezed(view.code(update)) not in (f"{name}++", f"++{name}", f"{name}+=1"):
        return None
    known = integer_type(declared[0].type)
    if view.code(field(test, "left")) != name or known is None or known.bytes < 4:
        return None
    return _Counted(node, name, declared[0].type, bound)


def _is_whole(view: View, outer: _Counted, inner: _Counted) -> bool:
    """Whether every use of the two variables is one of `outer * bound + inner`."""
    body = field(inner.loop, "body")
    changed = {name for name, _ in assigned(body, view)}
    words = view.names(inner.bound) | view.names(outer.bound)
    if {outer.name, inner.name} & (changed | words) or words & changed:
        return False
    if not view.is_plain_enough(outer.loop) or "#" in view.written(outer.loop):
        return False
    uses = [n for n in walk(body) if n.type == "identifier" and view.code(n) in (outer.name, inner.name)]
    return bool(uses) and all(_is_one(view, outer, inner, use) for use in uses)


def _is_one(view: View, outer: _Counted, inner: _Counted, use: Node) -> bool:
    whole, above = use, use.parent
    while above is not None and above.type in _INSIDE and not _compares(above):
        whole, above = above, above.parent
    evaluator = Evaluator(view)
    bound, rows, columns = (
        evaluator.of(inner.bound),
        evaluator.of_name(outer.name),
        evaluator.of_name(inner.name),
    )
    apart = evaluator.of(whole)
    if bound is None or rows is None or columns is None or apart is None:
        return False
    evaluator.give(outer.name, tuple(0 for _ in rows))
    evaluator.give(inner.name, tuple(r * b + c for r, b, c in zip(rows, bound, columns, strict=True)))
    return evaluator.of(whole) == apart


def _compares(node: Node) -> bool:
    return operator_of(node) in ("<", "<=", ">", ">=", "==", "!=", "&&", "||")


def _edit(view: View, outer: _Counted, inner: _Counted) -> TextEdit:
    joined = f"{outer.name}{inner.name}" if len(outer.name + inner.name) < 5 else "element"
    name = Style(view).local(joined)
    body = field(inner.loop, "body")
    names = {outer.name: "0", inner.name: name}
    uses = [(n, names[view.code(n)]) for n in walk(body) if n.type == "identifier" and view.code(n) in names]
    text = re.sub(_NOTHING, "", substituted(view, body, uses))
    deep, flat = (view.margin(one.loop) for one in (inner, outer))
    text = text.replace("\n" + deep, "\n" + flat) if deep.startswith(flat) else text
    head = f"for ({inner.type} {name} = 0; {name} < {_product(view, outer, inner)}; ++{name}) "
    return TextEdit(view.span(outer.loop), head + text)


def _product(view: View, outer: _Counted, inner: _Counted) -> str:
    factors = (view.written(n) for n in (outer.bound, inner.bound))
    return " * ".join(f if re.fullmatch(r"[\w. *]+", f) else f"({f})" for f in factors)
