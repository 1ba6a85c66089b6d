# SPDX-License-Identifier: Apache-2.0
"""A block whose threads have a row each, as one whose threads stride over rows.

`int row = threadIdx.x; if (row >= n) return; …` becomes `for (int row = threadIdx.x; row < n; row += blockDim.x) …`.
"""

from __future__ import annotations

import functools
import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Apply, Refused, RewriteResult, Target
from warplens_tools.rewrite.common.declared import declared_in, unqualified
from warplens_tools.rewrite.common.kernel_reader import JOINED
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    View,
    field,
    operator_of,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText, TextEdit

_WARP, _THREADS = 32, 256


class _Rows(msgspec.Struct, frozen=True):
    """The statement that declares the row, the row's type and name, its limit, and the work on it."""

    declaration: Node
    type: str
    name: str
    limit: str
    work: tuple[Node, ...]


def striding(edit: Apply) -> Apply:
    """`edit`; where it refuses, on the kernel whose threads stride over rows instead of having one each."""

    @functools.wraps(edit)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        result = edit(text, model, kernel, target)
        if result.edits or target.lines or target.names:
            return result
        try:
            after = text.apply(_edits(View(text, model, kernel)))
        except Refused:
            return result
        again = parse(after, model.path)
        mine = again.same(kernel, model)
        found = edit(after, again, mine, target) if mine is not None and not mine.broken else result
        if not found.edits:
            return result
        return msgspec.structs.replace(found, edits=between(text, after.apply(list(found.edits))))

    return apply


def _edits(view: View) -> list[TextEdit]:
    rows = _rows(view)
    launches, style = Launches(view.text, view.model, view.kernel), Style(view)
    threads = launches.block_value(0)
    if any(launches.block_value(axis) not in (None, 1) for axis in (1, 2)):
        raise Refused("its blocks have more than one dimension")
    if threads is None or threads % _WARP or threads == _WARP:
        if "blockDim" in view.code(view.body):
            raise Refused("its blocks say how large they are")
        for launch in launches.read():
            launches.set_whole(launch.block, str(_THREADS))
    head = f"for ({rows.type} {rows.name} = threadIdx.x; {rows.name} < {rows.limit}; {rows.name} += blockDim.x) {{"
    work = "\n".join(style.code(view.written(n)) for n in rows.work)
    body = style.lines("\n".join([head, indented(work), "}"]))
    begin, end = view.start(rows.declaration), view.end(statements(view.body)[-1])
    return [TextEdit(view.text.span(begin, end), body.lstrip()), *launches.edits()]


def _rows(view: View) -> _Rows:
    every = statements(view.body)
    for at, node in enumerate(every):
        found = declared_in(view, node) if node.type == "declaration" else []
        form = view.forms.form(found[0].value) if len(found) == 1 and found[0].value is not None else None
        terms = [(tuple(s.name for s in symbols), factor) for symbols, factor in form.terms] if form else []
        if terms == [(("threadIdx.x",), 1)]:
            limit, work = _limited(view, every[at + 1 :], found[0].name)
            _check(view, work)
            return _Rows(node, unqualified(found[0].type), found[0].name, limit, tuple(work))
    raise Refused("no variable is the thread's number in its block")


def _limited(view: View, behind: list[Node], row: str) -> tuple[str, list[Node]]:
    """What a row's number stays below, and the work without the test of that."""
    for at, node in enumerate(behind):
        if node.type != "if_statement":
            continue
        condition, inside = unwrapped(field(node, "condition")), statements(field(node, "consequence"))
        if condition.type != "binary_expression" or node.child_by_field_name("alternative") is not None:
            break
        if view.code(field(condition, "left")) != row:
            break
        limit, leaves = (
            view.written(field(condition, "right")),
            [n.type for n in inside] == ["return_statement"],
        )
        if operator_of(condition) == ">=" and leaves:
            return limit, [*behind[:at], *behind[at + 1 :]]
        if operator_of(condition) == "<" and at == len(behind) - 1:
            return limit, [*behind[:at], *inside]
        break
    raise Refused("nothing says how many rows there are")


def _check(view: View, work: list[Node]) -> None:
    code = view.code(view.body)
    if JOINED.search(code) or "#" in code or len(re.findall(r"\bthreadIdx\b", code)) != 1:
        raise Refused("the threads of a block do more than a row each")
    ends = [n for n in walk(view.body) if n.type == "return_statement"]
    if any(n.type == "return_statement" for one in work for n in walk(one)) or len(ends) > 1:
        raise Refused("threads leave early")
