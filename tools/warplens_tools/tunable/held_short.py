# SPDX-License-Identifier: Apache-2.0
"""Rows of which an edit holds so many, asking of each whether the row has it, where the original goes up to the row's
end: `for (k = 0; k < 32; ++k) mine[k] = t + k * 256 < width ? row[t + k * 256] : 0` for `for (i = t; i < width; ...)`.

What is beyond is left out, and no row of this run may be as long. Asked function by function, as `short_loops.py` does:
fewer loops go up to a name, and one more goes up to a constant and asks within whether something is less than that
name. Within a loop of the run's own rounds it is done again and again; and what the grid follows other blocks do. What
is a rest (a loop that begins at a part of its end), counts another loop's rounds, or follows a thread's place in its
block, is bounded as it is; so is what the host lets be no more than a number, or the kernel's own arrays have room for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.tunable.array_ends import largest_that_fit
from warplens_tools.tunable.both import launches_of_both
from warplens_tools.tunable.conditions import declared_names
from warplens_tools.tunable.left_out import device_functions
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.short_loops import NUMBER
from warplens_tools.tunable.source import File

_NAME = re.compile(r"[A-Za-z_]\w*")
_ORDERS = frozenset({"<", "<=", ">", ">="})
#: What counts up to something by the text.
_COUNTED = re.compile(r"\(?(\w+)(?:<=?|!=)(.+?)\)?")


def why_held_short(before: File, after: File) -> str:
    """Up to what an edit does not go any more, but asks for it within loops of its own, in words; "" for nothing."""
    old, new = device_functions(before), device_functions(after)
    covered = _covered(before, after)
    for name, was in old.items():
        now = new.get(name)
        if now is None or before.tree.code_of(was.body) == after.tree.code_of(now.body):
            continue
        ends = [Counter(_ends(file, one)) for file, one in ((before, was), (after, now))]
        held = [Counter(_held(file, one)) for file, one in ((before, was), (after, now))]
        for end, many in ends[0].items():
            if ends[1][end] < many and held[1][end] > held[0][end] and end not in covered.get(name, ()):
                return f"the edit goes no further in {name} than a loop of its own has rounds, the kernel up to `{end}`"
    return ""


def _covered(before: File, after: File) -> dict[str, set[str]]:
    """By kernel, the parameters that the edit's blocks follow, and those that the program bounds."""
    found: dict[str, set[str]] = {}
    for kernel in before.model.kernels:
        room = largest_that_fit(before, kernel.qualified_name)
        found[kernel.name] = {p.name for index, p in enumerate(kernel.parameters) if index in room}
    for _, kernel, known, site in launches_of_both(before, after):
        host = "".join(before.tree.code_of(known.host).split()) if known.host is not None else ""
        grid = lengths_of(after, site.written[0], named=True) | lengths_of(after, site.written[1], named=True)
        for parameter, node in zip(kernel.parameters, site.arguments, strict=False):
            bounded = re.search(rf"\b{re.escape(after.tree.code_of(node))}>=?{NUMBER}", host) is not None
            follows = lengths_of(after, node, named=True) & grid
            if not parameter.pointer and (follows or bounded):
                found.setdefault(kernel.name, set()).add(parameter.name)
    return found


def _ends(file: File, function: Function) -> Iterator[str]:
    """What loops go up to by name, each loop's once."""
    bounded = _bounded(file, function)
    for loop in (n for n in walk(function.body) if n.type in LOOPS):
        counted, begins = _counted_to(file, loop), loop.child_by_field_name("initializer")
        begin = _NAME.findall(file.tree.code_of(begins)) if begins is not None else []
        if counted is None or not _NAME.fullmatch(counted[0]) or counted[0] in {*begin, *bounded}:
            continue
        if file.constants.value(*counted) is None:
            yield counted[0]


def _counted_to(file: File, loop: Node) -> tuple[str, int] | None:
    """What a loop's counter goes up to, and where that is asked; None for another condition."""
    condition = loop.child_by_field_name("condition")
    text = "".join(file.tree.code_of(condition).split()) if condition is not None else ""
    found = _COUNTED.fullmatch(text)
    return (found[2], condition.start_byte) if condition is not None and found is not None else None


def _bounded(file: File, function: Function) -> set[str]:
    """Variables that begin as something of a thread's place in its block, and counters of loops."""
    found = {"threadIdx"}
    for node in walk(function.body):
        found |= {file.tree.code_of(n) for n in _counters(node)}
        name = node.child_by_field_name("declarator") if node.type == "init_declarator" else None
        value = node.child_by_field_name("value") if name is not None else None
        if name is not None and value is not None and found & set(_NAME.findall(file.tree.code_of(value))):
            found |= {file.tree.code_of(name)}
    return found


def _counters(node: Node) -> Iterator[Node]:
    begins = node.child_by_field_name("initializer") if node.type == "for_statement" else None
    yield from declared_names(begins) if begins is not None and begins.type == "declaration" else ()


def _held(file: File, function: Function) -> Iterator[str]:
    """What is asked for within loops that go up to constants, once a loop."""
    same = _same(file, function)
    for loop in walk(function.body):
        if loop.type not in LOOPS or not _is_fixed(file, loop) or _goes_on(file, loop, function.body):
            continue
        asked = set[str]()
        for node in (n for part in loop.children_by_field_name("body") for n in walk(part)):
            operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
            if operator is not None and operator.type in _ORDERS:
                sides = (node.child_by_field_name(side) for side in ("left", "right"))
                asked |= {file.tree.code_of(s) for s in sides if s is not None and s.type == "identifier"}
            elif node.type == "call_expression":
                asked |= _lesser("".join(file.tree.code_of(node).split()))
        yield from {same.get(name, name) for name in asked}


def _lesser(text: str) -> set[str]:
    called, _, given = text.partition("(")
    return set(_NAME.findall(given)) if re.search(r"\bu?min\b", called.rsplit("::", 1)[-1]) else set()


def _same(file: File, function: Function) -> dict[str, str]:
    """Other names of one thing: `const int w = width`."""
    found = {}
    for node in walk(function.body):
        name = node.child_by_field_name("declarator") if node.type == "init_declarator" else None
        value = node.child_by_field_name("value") if name is not None else None
        if name is not None and value is not None and value.type == "identifier":
            found[file.tree.code_of(name)] = file.tree.code_of(value)
    return found


def _is_fixed(file: File, loop: Node) -> bool:
    """Whether a loop goes up to a constant."""
    counted = _counted_to(file, loop)
    if counted is None:
        return False
    names = (name for name in _NAME.findall(counted[0]) if not re.fullmatch(NUMBER, name))
    return all(file.constants.value(name, counted[1]) is not None for name in names)


def _goes_on(file: File, loop: Node, body: Node) -> bool:
    """Whether a loop around a loop has as many rounds as the run makes it, or may: a lambda is called anywhere."""
    outer = loop.parent
    while outer is not None and outer.id != body.id:
        if outer.type == "lambda_expression" or (outer.type in LOOPS and not _is_fixed(file, outer)):
            return True
        outer = outer.parent
    return False
