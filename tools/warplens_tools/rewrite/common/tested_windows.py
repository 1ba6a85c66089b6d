# SPDX-License-Identifier: Apache-2.0
"""Loops over windows that test each element for lying inside: the kernel without those tests, and what they ask.

`for (k = -R; k <= R; k++) { int p = i + k; if (p >= 0 && p < n) sum += x[p] * w[k + R]; }` reads `x[i + k]` in every
iteration where `i - R >= 0` and `i + R < n`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.inside import Tests
from warplens_tools.rewrite.common.reading import View, assigned, field, renamed, statements
from warplens_tools.rewrite.inside_without_tests import conditions, without
from warplens_tools.text import TextEdit

#: What an index may be made of to be written where it is used.
_SUM = re.compile(r"[\w\s()+*/-]+")
#: Indices made of indices are followed this far.
_DEEP = 4


class Tested(msgspec.Struct, frozen=True):
    """What a loop's tests ask, and its body with them."""

    holds: tuple[str, ...]
    body: tuple[str, ...]


def untested(view: View) -> tuple[View, dict[int, Tested]]:
    """The kernel with loops that test nothing and name no index, and by its number what each of them did.

    Raises:
        Refused: no loop tests what the thread's number decides, or names an index that could be written out.
    """
    edits, tested = list[TextEdit](), dict[int, Tested]()
    for number, loop in enumerate(n for n in walk(view.body) if n.type == "for_statement"):
        body = field(loop, "body")
        if any(n.type == "for_statement" for n in walk(body)):
            continue
        tests = [t for t in Tests(view, [loop]).of(body) if view.is_plain_enough(t.node)]
        if tests:
            begin, end = view.start(body), view.end(body)
            edits.append(TextEdit(view.text.span(begin, end), without(view, begin, end, tests)))
            written = tuple(view.written(n) for n in statements(body))
            tested[number] = Tested(tuple(conditions(tests)), written)
    plain = reread(view, edits) if edits else view
    spelt = _spelt_out(plain)
    if not edits and not spelt:
        raise Refused("no loop walks a window that slides from output to output")
    plain = reread(plain, spelt) if spelt else plain
    left = _unused(plain) if spelt else []
    return (reread(plain, left) if left else plain), tested


def reread(view: View, edits: list[TextEdit]) -> View:
    """The kernel after edits.

    Raises:
        Refused: it is none any more.
    """
    after = view.text.apply(edits)
    model = parse(after, view.model.path)
    kernel = model.same(view.kernel, view.model)
    if kernel is None or kernel.broken:
        raise Refused("a test is written in a way that is not understood")
    return View(after, model, kernel)


def _spelt_out(view: View) -> list[TextEdit]:
    """Indices of elements in loops by what they are made of."""
    changed = {name for name, place in assigned(view.body, view) if place.type == "identifier"}
    known: dict[str, Declared] = {}
    for one in (d for n in walk(view.body) for d in plainly_declared_in(view, n)):
        known[one.name] = one
    values = {name: one for name, one in known.items() if name not in changed and _is_sum(view, one)}
    edits = list[TextEdit]()
    for loop in (n for n in walk(view.body) if n.type == "for_statement"):
        if any(n.type == "for_statement" for n in walk(field(loop, "body"))):
            continue
        outermost: Node | None = None
        for index in _indices(view, field(loop, "body")):
            if outermost is not None and holds(outermost, index):
                continue
            outermost = index
            text = view.written(index)
            new = _written_out(view, text, values)
            if new != text and view.is_plain_enough(index):
                edits.append(TextEdit(view.span(index), new))
    return edits


def _unused(view: View) -> list[TextEdit]:
    """The indices of innermost loops that nothing names any more."""
    edits = list[TextEdit]()
    for loop in (n for n in walk(view.body) if n.type == "for_statement"):
        body = field(loop, "body")
        if body.type != "compound_statement" or any(n.type == "for_statement" for n in walk(body)):
            continue
        for node in statements(body):
            every = plainly_declared_in(view, node)
            names = {d.name for d in every}
            others = (n for n in walk(body) if n.type == "identifier" and not holds(node, n))
            if (
                every
                and all(_is_sum(view, d) for d in every)
                and not any(view.code(n) in names for n in others)
            ):
                edits.append(TextEdit(view.text.with_line(view.span(node)), ""))
    return edits


def _written_out(view: View, text: str, values: dict[str, Declared]) -> str:
    for _ in range(_DEEP):
        names = {
            name: f"({view.written(one.value)})" for name, one in values.items() if one.value is not None
        }
        new = renamed(text, names)
        if new == text:
            break
        text = new
    return text


def _is_sum(view: View, one: Declared) -> bool:
    """Whether a variable is a number made of others by sums and products, but for the thread's own."""
    kind = integer_type(unqualified(one.type))
    if one.value is None or one.stars or kind is None or not kind.signed:
        return False
    return _SUM.fullmatch(view.code(one.value)) is not None and view.is_plain_enough(one.value)


def _indices(view: View, body: Node) -> Iterator[Node]:
    for element in view.elements(body):
        if element.type == "subscript_expression":
            yield from field(element, "indices").named_children
