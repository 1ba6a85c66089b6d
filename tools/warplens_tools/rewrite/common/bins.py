# SPDX-License-Identifier: Apache-2.0
"""How many bins a histogram has, by what its indices are made of, and whether a block counts into one twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import integer_type, vector_element
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import declared_in, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    field,
    operator_of,
    statements,
    unwrapped,
)

_SAYS_BINS = re.compile(r"(?:k|n|num|number_?of|n_)?_?(?:bins?|buckets?|hist\w*size|histogram\w*|levels|colou?rs|"
                        r"clusters|classes|alphabet\w*|symbols)_?(?:count|num|size|s)?", re.IGNORECASE)  # fmt: skip


def bins_of(view: View, indices: list[Node], array: str) -> tuple[str, int | None]:
    """The number of bins, as the kernel would write it, and its value where that is constant.

    Raises:
        Refused: nothing says it.
    """
    bounds = list(dict.fromkeys(_bound(view, index, 0) for index in indices))
    if all(bound.isdigit() for bound in bounds):
        return _with_value(view, str(max(map(int, bounds))))
    if len(bounds) == 1 and bounds[0]:
        return _with_value(view, bounds[0])
    rows = [_row(view, index) for index in indices]
    names = [p.name for p in view.kernel.parameters if not p.pointer] + [c.name for c in view.model.constants]
    said = [n for n in names if _SAYS_BINS.fullmatch(n.strip("_"))] or list(_unused(view))
    widths, labels = {width for width, _ in rows}, {_bound(view, label, 0) for _, label in rows}
    said = list(labels) if labels != {""} else said
    if len(said) == 1 and len(widths) == 1 and (width := widths.pop()) != said[0]:
        return _with_value(view, f"{said[0]} * {width}" if width else said[0])
    raise Refused(f"how many bins {array} has is not known")


def each_its_own(view: View, base: Node) -> bool:
    """Whether threads of a block go to neighbouring places by their number, once each: `row * width + threadIdx.x`."""
    call, loops = base.parent, 0
    while call is not None and call.type != "call_expression":
        call = call.parent
    given = field(call, "arguments").named_children if call is not None else []
    pointer = view.pointers.pointer(given[0]) if given else None
    form, at = (pointer.traced if pointer is not None else None), call
    while at is not None and at.id != view.body.id:
        loops += at.type in LOOPS
        at = at.parent
    own = (
        [symbols for symbols, _ in form.terms if any(s.mentions("threadIdx.x") for s in symbols)]
        if form
        else []
    )
    strides = form is not None and any("blockDim.x" in (s.name for s in symbols) for symbols, _ in form.terms)
    plain = len(own) == 1 and [s.name for s in own[0]] == ["threadIdx.x"]
    return plain and (loops == 0 or (loops == 1 and strides))


def _row(view: View, index: Node) -> tuple[str, Node]:
    """Of `label * dims + d` with `d` below `dims`: `dims` and `label`; "" and the index itself of any other."""
    node = unwrapped(index)
    if node.type != "binary_expression" or operator_of(node) != "+":
        return "", index
    for row, place in (("left", "right"), ("right", "left")):
        whole, inner = unwrapped(field(node, row)), field(node, place)
        if whole.type != "binary_expression" or operator_of(whole) != "*":
            continue
        for width, label in (("right", "left"), ("left", "right")):
            name = view.written(field(whole, width))
            if WORD.fullmatch(name) and _bound(view, inner, 0) == name:
                return name, field(whole, label)
    return "", index


def _unused(view: View) -> Iterator[str]:
    """Whole numbers that the kernel takes and does not use: one alone says how many there are of something, unless the
    blocks are as many.
    """
    used = set(WORD.findall(view.code(view.body)))
    launches = Launches(view.text, view.model, view.kernel)
    for one in view.kernel.parameters:
        if one.pointer or integer_type(unqualified(one.type)) is None or one.name in used:
            continue
        by_grid = False
        for launch in launches.read():
            grid = [*launch.grid.written, *(launches.meaning(e, launch) for e in launch.grid.written)]
            given = set(WORD.findall(launches.argument(launch, one.name)))
            by_grid = by_grid or bool(given & set(WORD.findall(" ".join(grid))))
        if not by_grid:
            yield one.name


def _with_value(view: View, bound: str) -> tuple[str, int | None]:
    value = view.expanded.constants.value(bound, view.body.start_byte)
    if value is None and set(re.findall(r"[A-Za-z_]\w*", bound)) - view.parameters:
        raise Refused("how many bins there are is worked out in the kernel")
    return bound, value


def _bound(view: View, node: Node, depth: int) -> str:
    """An expression that the index stays below; "" where nothing is known."""
    node = unwrapped(node)
    if depth > 6:
        return ""
    if node.type == "identifier":
        return _bound_of_name(view, node, depth)
    if node.type == "binary_expression":
        return _bound_of_sum(view, node, depth)
    if node.type == "field_expression":
        return _of_type(_member_type(view, node))
    if node.type == "cast_expression":
        return _bound(view, field(node, "value"), depth + 1) or _of_type(view.code(field(node, "type")))
    if node.type == "call_expression":
        return _bound_of_call(view, node, depth)
    return _of_type(view.element(node)) if node.type in ("subscript_expression", "pointer_expression") else ""


def _bound_of_sum(view: View, node: Node, depth: int) -> str:
    """`i % bins`, `i & 255`, `i >> 4`, `i / 16`, `256 + i`, `3 * i + 1`."""
    left, right, kind = field(node, "left"), field(node, "right"), operator_of(node)
    if kind == "%":
        return view.written(right)
    value = _number(view, right)
    if kind == "&" and value is not None:
        return str(value + 1)
    if kind in ("+", "*") and value is None:
        left, value = right, _number(view, left)
    inner = _bound(view, left, depth + 1)
    if value is None or value < 0 or not inner.isdigit():
        return ""
    below = int(inner)
    found = {
        ">>": ((below - 1) >> value) + 1,
        "/": (below - 1) // value + 1 if value else 0,
        "+": below + value,
        "-": below - value,
        "*": (below - 1) * value + 1,
    }.get(kind, 0)
    return str(found) if found else ""


def _number(view: View, node: Node) -> int | None:
    """The value of a constant, a letter among them."""
    written = view.written(node)
    return ord(written[1]) if re.fullmatch(r"'[ -~]'", written) else view.value(node)


def _member_type(view: View, node: Node) -> str:
    """The type of `p.x` of a vector; "" where it is none."""
    inner = unwrapped(field(node, "argument"))
    written = view.element(inner)
    if inner.type == "identifier":
        declared = [
            one.type
            for statement in walk(view.body)
            for one in plainly_declared_in(view, statement)
            if one.name == view.code(inner)
        ]
        written = declared[0] if len(declared) == 1 else ""
    words = [word for word in written.split() if word != "const"]
    vector = vector_element(words[0]) if len(words) == 1 else None
    return vector[0] if vector is not None else ""


def _bound_of_call(view: View, node: Node, depth: int) -> str:
    """`min(i, bins - 1)`, `__ldg(&data[i])`."""
    name, given = (
        view.code(field(node, "function")).removeprefix("std::"),
        field(node, "arguments").named_children,
    )
    if name in ("min", "max") and len(given) == 2:
        for argument in map(unwrapped, given):
            minus = argument.type == "binary_expression" and operator_of(argument) == "-"
            if name == "min" and minus and view.value(field(argument, "right")) == 1:
                return view.written(field(argument, "left"))
            value = view.value(argument)
            if name == "min" and value is not None:
                return str(value + 1)
        return next(filter(None, (_bound(view, a, depth + 1) for a in given)), "") if name == "max" else ""
    if name == "__ldg" and given:
        pointer = view.pointers.pointer(given[0])
        return _of_type(pointer.element_type) if pointer is not None else ""
    return ""


def _bound_of_name(view: View, node: Node, depth: int) -> str:
    name = view.code(node)
    for condition in walk(view.body):
        kind = operator_of(condition) if condition.type == "binary_expression" else ""
        if kind not in ("<", ">=", "<=") or view.code(unwrapped(field(condition, "left"))) != name:
            continue
        right = field(condition, "right")
        most = _number(view, right)
        if kind == "<=" and most is not None:
            return str(most + 1)
        if kind == "<" or (kind == ">=" and most != 0 and _leaves(condition)):
            return view.written(right) if most is None else str(most)
    for statement in walk(view.body):
        if statement.type != "declaration" or not re.search(rf"\b{re.escape(name)}\b", view.code(statement)):
            continue
        for one in declared_in(view, statement):
            if one.name == name and one.value is not None:
                return _bound(view, one.value, depth + 1) or _of_type(one.type)
    return ""


def _leaves(condition: Node) -> bool:
    """Whether a condition stands before a way out: `if (bin >= bins) return;`"""
    outer = condition.parent
    while outer is not None and outer.type not in ("if_statement", "compound_statement"):
        outer = outer.parent
    then = outer.child_by_field_name("consequence") if outer is not None else None
    inside = statements(then) if then is not None else []
    return len(inside) == 1 and inside[0].type in ("return_statement", "continue_statement")


def _of_type(written: str) -> str:
    known = integer_type(written)
    is_byte = known is not None and not known.signed and known.bytes == 1
    return "256" if is_byte else ""
