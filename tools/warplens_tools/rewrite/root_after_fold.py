# SPDX-License-Identifier: Apache-2.0
"""root-after-fold

Take the root of the least or largest square once, behind the loop that looks for it.

A root grows with what is under it: the least of many distances is the root of the least of their squares, to the last
bit. A root is a special function with a dozen instructions around it, in double two dozen.

```cuda
__device__ float apart(float2 p, float2 q) {
  float dx = p.x - q.x, dy = p.y - q.y;
  return sqrtf(dx * dx + dy * dy);
}

__global__ void nearest(const float2* points, const float2* line, float* distance, int n, int vertices) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float least = INFINITY;
  for (int v = 0; v < vertices; ++v) {
    least = fminf(least, apart(points[i], line[v]));
  }
  distance[i] = least;
}
```

```cuda
__device__ float apartSquared(float2 p, float2 q) {
  float dx = p.x - q.x, dy = p.y - q.y;
  return dx * dx + dy * dy;
}

__global__ void nearest(const float2* points, const float2* line, float* distance, int n, int vertices) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float leastSquared = INFINITY;
  for (int v = 0; v < vertices; ++v) {
    leastSquared = fminf(leastSquared, apartSquared(points[i], line[v]));
  }
  float least = sqrtf(leastSquared);
  distance[i] = least;
}
```

The least begins as `INFINITY`, the largest as 0. What is under the root has to be a sum of squares, which is below zero
for no numbers: there the fold would have passed the root over. Left alone: a fold that is asked for inside its loop,
as a search that keeps the place of the least does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.facts.own_names import is_own
from warplens_tools.cuda.syntax.functions import Function, functions_of
from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.reading import View, field, operator_of, refusing, squeezed, unwrapped
from warplens_tools.rewrite.common.statements import KernelEdits
from warplens_tools.text import TextEdit

_FOLDS = re.compile(r"(?:std::)?(f?min|f?max)f?")
_ROOTS = re.compile(r"(?:std::|::)?sqrtf?|__fsqrt_rn")
_FLOAT_ROOTS = frozenset({"sqrtf", "__fsqrt_rn"})
_BEGINS = {"min": re.compile(r"INFINITY|HUGE_VALF?"), "max": re.compile(r"-?0*\.?0*[fF]?")}
_Read = Callable[[Node], str]


class _Fold(NamedTuple):
    """`least = fminf(least, sqrtf(square));` in a loop, or with a call of a function that returns such a root."""

    declared: Declared
    #: The outermost loop around it, behind the declaration.
    loop: Node
    #: The names of the variable in the loop: what is set, and what is folded.
    names: tuple[Node, ...]
    #: The root, or the call.
    value: Node
    #: What is under the root; None where a function takes it.
    under: Node | None
    function: Function | None


def _apply(view: View, target: Target) -> RewriteResult:
    edits = KernelEdits(view.text, view.expanded)
    others, functions = list[TextEdit](), dict[str, str]()
    folds = list(_folds(view, target))
    if not folds:
        raise Refused("no loop finds the least or largest root of a sum of squares")
    for fold in folds:
        name = edits.fresh_here(_squared(fold.declared.name))
        kind = fold.declared.type
        edits.replace(fold.declared.statement, f"{kind} {name} = {view.written(_value(fold))};")
        for one in fold.names:
            edits.replace(one, name)
        if fold.under is not None:
            edits.replace(fold.value, view.written(fold.under))
        elif fold.function is not None:
            old = view.code(field(fold.value, "function"))
            if old not in functions:
                functions[old] = edits.fresh(_squared(old))
                others += _without_root(view, fold.function, old, functions[old], _uses(folds, view, old))
            edits.replace(field(fold.value, "function"), functions[old])
        root = "sqrtf" if kind == "float" else "sqrt"
        edits.after(fold.loop, f"{kind} {fold.declared.name} = {root}({name});")
    return RewriteResult((*others, *edits.edits()), title="Take the root behind the loop")


def _value(fold: _Fold) -> Node:
    if fold.declared.value is None:
        raise Refused("nothing says what the fold begins as")
    return fold.declared.value


def _folds(view: View, target: Target) -> Iterator[_Fold]:
    for node in walk(view.body):
        is_wanted = not target.lines or view.span(node).line in target.lines
        if node.type == "assignment_expression" and is_wanted and (found := _read(view, node)) is not None:
            yield found


def _read(view: View, node: Node) -> _Fold | None:
    """The fold that an assignment is; None where it is none, or more than it rests on the variable in the loop."""
    to, call = field(node, "left"), unwrapped(field(node, "right"))
    if to.type != "identifier" or operator_of(node) != "=" or call.type != "call_expression":
        return None
    name, fold = view.code(to), _FOLDS.fullmatch(view.code(field(call, "function")))
    given = field(call, "arguments").named_children
    if fold is None or len(given) != 2 or is_own(view.expanded, fold[0].rsplit(":", 1)[-1], call):
        return None
    mine = [g for g in given if view.code(g) == name]
    value = next((unwrapped(g) for g in given if view.code(g) != name), None)
    declared = _declaration(view, name, fold[1].removeprefix("f"))
    if len(mine) != 1 or value is None or declared is None or not view.is_plain_enough(node):
        return None
    loop = _loop(node, declared)
    if loop is None or not _is_alone(view, name, declared, loop):
        return None
    under, function = _root(view, value, declared.type)
    if under is None and function is None:
        return None
    return _Fold(declared, loop, (to, mine[0]), value, under, function)


def _declaration(view: View, name: str, fold: str) -> Declared | None:
    """The one declaration of the variable, alone in its statement, where it begins as such a fold may."""
    found = [d for n in walk(view.body) for d in plainly_declared_in(view, n) if d.name == name]
    if len(found) != 1 or found[0].type not in ("float", "double") or found[0].value is None:
        return None
    one = found[0]
    is_begun = _BEGINS[fold].fullmatch(view.code(one.value)) is not None if one.value is not None else False
    alone = len(one.statement.children_by_field_name("declarator")) == 1
    return one if is_begun and alone and view.is_plain_enough(one.statement) else None


def _loop(node: Node, declared: Declared) -> Node | None:
    """The outermost loop around a node that stands beside a declaration, behind it."""
    block, at = declared.statement.parent, node
    while at.parent is not None and block is not None and at.parent.id != block.id:
        at = at.parent
    is_behind = at.parent is not None and at.start_byte > declared.statement.start_byte
    return at if at.type in LOOPS and is_behind else None


def _is_alone(view: View, name: str, declared: Declared, loop: Node) -> bool:
    """Whether nothing asks for the variable before the loop's end but the fold itself, which names it twice."""
    places = [n.start_byte for n in walk(view.body) if n.type == "identifier" and view.code(n) == name]
    until = [p for p in places if declared.statement.end_byte <= p < loop.end_byte]
    left = any(n.type in ("goto_statement", "lambda_expression") for n in walk(view.body))
    return len(until) == 2 and all(p >= loop.start_byte for p in until) and not left


def _root(view: View, value: Node, kind: str) -> tuple[Node | None, Function | None]:
    """What is under the root that an expression is, or the function of the file that returns one."""
    if value.type != "call_expression":
        return None, None
    under = _under(value, view.code)
    if under is not None:
        own = is_own(view.expanded, view.code(field(value, "function")).rsplit(":", 1)[-1], value)
        is_typed = TypeReader(view.forms, view.pointers).type(under) == kind
        narrower = kind == "double" and view.code(field(value, "function")) in _FLOAT_ROOTS
        is_found = is_typed and not own and not narrower and _is_squares(under, view.code)
        return (under, None) if is_found else (None, None)
    name, file = view.code(field(value, "function")), view.file
    known = [f for f in functions_of(file) if file.code_of(f.name_node) == name]
    if len(known) != 1 or not known[0].is_device or known[0].is_kernel or known[0].macro is not None:
        return None, None
    written = known[0].node.child_by_field_name("type")
    returned = _returned(view, known[0])
    if returned is None or written is None or file.code_of(written) != kind:
        return None, None
    # a float's root of a double is rounded once more than the root of a float
    root = file.code_of(field(returned[0], "function"))
    is_own_type = (root in _FLOAT_ROOTS) == (kind == "float")
    return (None, known[0]) if is_own_type and not is_own(view.expanded, root, value) else (None, None)


def _returned(view: View, function: Function) -> tuple[Node, Node] | None:
    """The root that a function returns in the end, and what is under it; None where it returns anything else."""
    code = view.file.code_of
    returns = [n for n in walk(function.body) if n.type == "return_statement"]
    value = unwrapped(returns[0].named_children[0]) if returns and returns[0].named_children else None
    if len(returns) != 1 or value is None:
        return None
    under = _under(value, code)
    return (value, under) if under is not None and _is_squares(under, code) else None


def _under(value: Node, code: _Read) -> Node | None:
    if value.type != "call_expression" or not _ROOTS.fullmatch(code(field(value, "function"))):
        return None
    given = field(value, "arguments").named_children
    return given[0] if len(given) == 1 else None


def _is_squares(node: Node, code: _Read) -> bool:
    """Whether an expression is a sum of squares of variables and of positive numbers."""
    node = unwrapped(node)
    if node.type == "number_literal":
        return True
    if node.type != "binary_expression":
        return False
    left, right = field(node, "left"), field(node, "right")
    if operator_of(node) == "+":
        return _is_squares(left, code) and _is_squares(right, code)
    alike = squeezed(code(unwrapped(left))) == squeezed(code(unwrapped(right)))
    steady = not any(n.type in ("call_expression", "update_expression") for n in walk(node))
    return operator_of(node) == "*" and alike and steady


def _uses(folds: list[_Fold], view: View, name: str) -> int:
    return sum(f.function is not None and view.code(field(f.value, "function")) == name for f in folds)


def _squared(name: str) -> str:
    return f"{name}_squared" if "_" in name else f"{name}Squared"


def _without_root(view: View, function: Function, old: str, new: str, uses: int) -> list[TextEdit]:
    """The function without its root, under a name of its own: in its place, or above it where others call it."""
    file, text, returned = view.file, view.text, _returned(view, function)
    if returned is None:
        raise Refused("the function returns something else")
    root, under = returned
    named = [n for n in walk(function.node) if n.type == "identifier" and file.code_of(n) == old]
    if len(named) != 1:
        raise Refused("the function calls itself")
    edits = [TextEdit(file.span(named[0]), new), TextEdit(file.span(root), file.text_of(under))]
    if len(re.findall(rf"\b{re.escape(old)}\b", text.text)) == uses + 1:
        return edits
    if function.start > view.text.offset(view.kernel.span.line, view.kernel.span.column):
        raise Refused("the function that takes the root is defined behind the kernel")
    begin = function.node
    while begin.parent is not None and begin.parent.type == "template_declaration":
        begin = begin.parent
    span = file.span(begin)
    after = text.apply(edits)
    low = text.offset(span.line, span.column)
    grown = len(after.text) - len(text.text)
    high = text.offset(span.end_line, span.end_column) + grown
    copied = after.text[low:high] + 2 * text.newline
    return [TextEdit(text.span(low, low), copied)]


REWRITE = Rewrite(
    slug="root-after-fold",
    title="Take the root behind the loop that looks for the least",
    apply=refusing(_apply),
    answers=("sfu-bound", "library-functions"),
    useless_at="dram",
    chance=0.6,
    gain=1.3,
    spares=True,
)
