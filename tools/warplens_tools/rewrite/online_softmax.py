# SPDX-License-Identifier: Apache-2.0
"""online-softmax

Find the maximum of a row and its sum of exponentials in one pass.

A softmax or a cross entropy first looks for the largest element, so that no exponential overflows, and then walks the
row again to add them up. The sum can be kept for the largest element so far: a larger one scales it. Threads that saw
other largest elements scale their sums once, when the maximum of all is known (Milakov and Gimelshein 2018, "Online
normalizer calculation for softmax").

```cuda
__global__ void log_sums(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float most = -INFINITY;
  for (int j = threadIdx.x; j < cols; j += 32) most = fmaxf(most, row[j]);
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += 32) sum += expf(row[j] - most);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) out[blockIdx.x] = most + logf(sum);
}
```

```cuda
__global__ void log_sums(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float most = -INFINITY;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += 32) {
    const float value = row[j];
    if (value > most) {
      sum = sum * expf(most - value) + 1.0f;
      most = value;
    } else {
      sum += value == most ? 1.0f : expf(value - most);
    }
  }
  const float own = most;  // of the thread's elements
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
  if (own != most) sum *= expf(own - most);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) out[blockIdx.x] = most + logf(sum);
}
```

A thread that walks a column by itself, as the channels of its pixel, has one pass less in the same way. Left alone:
passes that do more than find the maximum and add up, rows that differ between them, and a row that a single thread
walks: give it to a warp or a block first.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values import forms
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, declared_in
from warplens_tools.rewrite.common.insertion import insert_before
from warplens_tools.rewrite.common.passes import Group, Pass, place_of, read_pairs
from warplens_tools.rewrite.common.reading import (
    View,
    calls,
    field,
    operator_of,
    refusing,
    renamed,
    squeezed,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.reductions import FOLDING
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

CAVEAT = (
    "sums are added up in another order, and a row of infinities alone, or with a positive one, may give no NaN: "
    "results may differ in the last digits"
)
_EXPONENTIALS = frozenset({"exp", "expf", "__expf", "std::exp", "exp2f", "exp2"})
_PURE = frozenset({"__half2float", "__bfloat162float", "__ldg", "float", "static_cast<float>"})
_ONE = {"float": "1.0f", "double": "1.0"}
_ZERO = re.compile(r"0+(?:\.0*)?[fF]?|\.0+[fF]?")
_COMMENT = re.compile(r"//[^\r\n]*|/\*[^*\n]*\*/")
_CHANGES = frozenset({"assignment_expression", "update_expression"})


class _Pair(msgspec.Struct, frozen=True):
    """A pass that finds the maximum, and one that adds up exponentials less it."""

    first: Pass
    second: Pass
    group: Group
    most: Declared
    sum: Declared
    value: Node
    exponential: str


def _apply(view: View, target: Target) -> RewriteResult:
    style, edits, done = Style(view), list[TextEdit](), set[int]()
    why = "no two passes of a warp or a block find a maximum and add up exponentials less it"
    for first, second, group in (*read_pairs(view), *read_pairs(view, alone=True)):
        lines = range(view.span(first.loop).line, view.span(second.loop).end_line + 1)
        if first.loop.id in done or (target.lines and not set(lines) & set(target.lines)):
            continue
        try:
            pair = _pair(view, first, second, group)
        except Refused as error:
            why = str(error)
            continue
        if pair is not None:
            edits += _edits(view, style, pair)
            done |= {first.loop.id, second.loop.id}
    if not edits:
        raise Refused(why)
    return RewriteResult(tuple(edits), title="Find maximum and sum in one pass", caveat=CAVEAT)


# what the passes do


def _pair(view: View, first: Pass, second: Pass, group: Group) -> _Pair | None:
    maximum, added = _maximum(view, first), _added(view, second)
    if maximum is None or added is None or maximum[0] != added[3]:
        return None
    most, value = maximum
    total, exponential, other, _ = added
    if squeezed(view.code(value)) != squeezed(renamed(view.code(other), {second.name: first.name})):
        return None
    _check_value(view, value, (group.changed | {most, total}) - {first.name}, group)
    found = [_declaration(view, name, first) for name in (most, total)]
    kinds = {d.type for d in found}
    if len(kinds) != 1 or not kinds <= set(_ONE):
        raise Refused("maximum and sum are not of one floating-point type")
    if found[1].value is None or not _ZERO.fullmatch(view.code(found[1].value)):
        raise Refused("the sum does not begin at zero")
    if first.alone and _is_row(view, first, value):
        raise Refused("the row is a single thread's")
    pair = _Pair(first, second, group, found[0], found[1], value, exponential)
    _check_between(view, pair)
    if first.skipped:
        _check_skipped(view, pair)
    return pair


def _is_row(view: View, one: Pass, value: Node) -> bool:
    """Whether a thread walks neighbouring elements by itself, which a warp or a block should."""
    pointers = (view.place(e) for e in view.elements(value))
    growths = (p.traced.growth(one.counter) for p in pointers if p is not None and p.traced is not None)
    return any(growth is None or growth.value == 1 for growth in growths)


def _maximum(view: View, one: Pass) -> tuple[str, Node] | None:
    """The variable and the value of `m = fmaxf(m, v)`, `if (v > m) m = v`, `m = v > m ? v : m`."""
    inside = statements(one.body)
    if len(inside) != 1:
        return None
    node = inside[0]
    if node.type == "if_statement" and node.child_by_field_name("alternative") is None:
        chosen = statements(field(node, "consequence"))
        whole = _assignment(chosen[0]) if len(chosen) == 1 else None
        if whole is None or operator_of(whole) != "=":
            return None
        name, value = view.code(field(whole, "left")), field(whole, "right")
        return (name, value) if _is_greater(view, unwrapped(field(node, "condition")), value, name) else None
    whole = _assignment(node)
    if whole is None or operator_of(whole) != "=":
        return None
    name, value = view.code(field(whole, "left")), unwrapped(field(whole, "right"))
    if value.type == "call_expression" and FOLDING.get(view.code(field(value, "function"))) == "max":
        given = field(value, "arguments").named_children
        others = [n for n in given if view.code(n) != name]
        return (name, others[0]) if len(given) == 2 and len(others) == 1 else None
    if value.type == "conditional_expression":
        chosen = [field(value, "consequence"), field(value, "alternative")]
        test = unwrapped(field(value, "condition"))
        if view.code(chosen[1]) == name and _is_greater(view, test, chosen[0], name):
            return name, chosen[0]
    return None


def _assignment(statement: Node) -> Node | None:
    inner = statement.named_children[0] if statement.named_child_count == 1 else None
    is_plain = statement.type == "expression_statement" and inner is not None
    return inner if is_plain and inner is not None and inner.type == "assignment_expression" else None


def _is_greater(view: View, test: Node, value: Node, name: str) -> bool:
    """Whether a condition is `value > name`."""
    if test.type != "binary_expression" or operator_of(test) not in (">", "<", ">=", "<="):
        return False
    sides = [squeezed(view.code(field(test, side))) for side in ("left", "right")]
    wanted = [squeezed(view.code(value)), name]
    return sides == (wanted if operator_of(test) in (">", ">=") else wanted[::-1])


def _added(view: View, one: Pass) -> tuple[str, str, Node, str] | None:
    """The sum, the function, the value and the maximum of `s += expf(v - m)`."""
    inside = statements(one.body)
    whole = _assignment(inside[0]) if len(inside) == 1 else None
    call = unwrapped(field(whole, "right")) if whole is not None else None
    if whole is None or call is None or operator_of(whole) != "+=" or call.type != "call_expression":
        return None
    function, given = view.code(field(call, "function")), field(call, "arguments").named_children
    if function not in _EXPONENTIALS or len(given) != 1:
        return None
    less = unwrapped(given[0])
    if less.type != "binary_expression" or operator_of(less) != "-":
        return None
    return view.code(field(whole, "left")), function, field(less, "left"), view.code(field(less, "right"))


# that they may be one


def _check_value(view: View, value: Node, changed: frozenset[str], group: Group) -> None:
    if any(n.type in _CHANGES for n in walk(value)) or {n for n, _ in calls(value, view)} - _PURE:
        raise Refused("an element is computed by a function that is not known")
    if group.stored or any(view.space(e) != "global" for e in view.elements(value)):
        raise Refused("memory is written between the passes")
    if view.names(value) & changed or not any(True for _ in view.elements(value)):
        raise Refused("the passes are not known to be over the same elements")


def _declaration(view: View, name: str, first: Pass) -> Declared:
    """The declaration of a variable in the block of the passes."""
    block = first.loop.parent
    found = list[Declared]()
    for node in block.named_children if block is not None else ():
        if node.type == "declaration" and name in view.names(node):
            found += [d for d in declared_in(view, node) if d.name == name]
    if len(found) != 1 or found[0].stars:
        raise Refused("maximum and sum are not variables of the block of their passes")
    return found[0]


def _check_between(view: View, pair: _Pair) -> None:
    """That nothing from the sum's declaration on uses it but the second pass, and that what is between goes through."""
    low, high = pair.first.loop.end_byte, pair.second.loop.start_byte
    moved = pair.sum.statement.start_byte > low
    if moved and len(declared_in(view, pair.sum.statement)) != 1:
        raise Refused("the sum is declared with other variables")
    for node in (
        n for n in walk(view.body) if n.start_byte < high and n.end_byte > pair.sum.statement.end_byte
    ):
        if node.type == "identifier" and view.code(node) == pair.sum.name:
            raise Refused("the sum is used before its pass")
    for node in (n for s in pair.group.span for n in walk(s) if low <= n.start_byte < high):
        if node.type in ("return_statement", "goto_statement", "labeled_statement"):
            raise Refused("the kernel may be left between the passes")


def _check_skipped(view: View, pair: _Pair) -> None:
    """That the maximum begins at the element that its pass leaves out."""
    begin, node = pair.most.value, next(iter(view.elements(pair.value)), None)
    place = place_of(view, pair.first, node) if node is not None else None
    start, element = (
        view.forms.form(pair.first.first),
        next(iter(view.elements(begin)), None) if begin else None,
    )
    known = view.place(element) if element is not None else None
    changed = pair.most.statement.end_byte
    between = (n for n in walk(view.body) if changed <= n.start_byte < pair.first.loop.start_byte)
    if (
        place is None
        or start is None
        or known is None
        or known.traced is None
        or begin is None
        or node is None
    ):
        raise Refused("the first pass leaves out an element")
    offset = forms.subtract(forms.Form(tuple(place.rest)), start)
    same = squeezed(view.code(begin)).replace(
        squeezed(view.code(element)) if element is not None else "", squeezed(view.code(node))
    ) == squeezed(view.code(pair.value))
    order = frozenset(known.traced.terms)
    if not same or known.name != place.array or offset is None or frozenset(offset.terms) != order:
        raise Refused("the first pass leaves out an element")
    joined = any(
        n.type == "call_expression" and n.start_byte >= pair.first.loop.end_byte
        for s in pair.group.span
        for n in walk(s)
        if n.end_byte <= pair.second.loop.start_byte
    )
    if not joined or any(n.type in _CHANGES and pair.most.name in view.names(n) for n in between):
        raise Refused("the first pass leaves out an element")


# the code


def _edits(view: View, style: Style, pair: _Pair) -> list[TextEdit]:
    first, most, total, function = pair.first, pair.most.name, pair.sum.name, pair.exponential
    kind, one = pair.most.type, _ONE[pair.most.type]
    value, own = style.local("value"), style.local("own")
    step = view.written(first.step) if first.alone else f"{first.name} += {view.written(first.step)}"
    body = [
        *_COMMENT.findall(view.written(first.loop)),
        f"for ({first.type} {first.name} = {view.written(pair.second.first)}; "
        f"{first.name} < {view.written(first.limit)}; {step}) {{",
        f"  const {kind} {value} = {view.written(pair.value)};",
        f"  if ({value} > {most}) {{",
        indented(f"{total} = {total} * {function}({most} - {value}) + {one};\n{most} = {value};", 2),
        "  } else {",
        f"    {total} += {value} == {most} ? {one} : {function}({value} - {most});",
        "  }",
        "}",
        *(() if first.alone else (f"const {kind} {own} = {most};  // of the thread's elements",)),
    ]
    found = [_in_place(view, style, first.loop, "\n".join(body))]
    comments = _COMMENT.findall(view.written(pair.second.loop))
    scaled = f"if ({own} != {most}) {total} *= {function}({own} - {most});"
    if first.alone:
        found.append(_removed(view, pair.second.loop))
    else:
        found.append(_in_place(view, style, pair.second.loop, "\n".join([*comments, scaled])))
    if pair.sum.statement.start_byte > first.loop.end_byte:
        declaration = view.written(pair.sum.statement)
        above = insert_before(view.tree, first.loop, declaration)
        if above is None:
            raise Refused("the sum's declaration cannot be moved")
        found += [above, _removed(view, pair.sum.statement)]
    return found


def _in_place(view: View, style: Style, loop: Node, code: str) -> TextEdit:
    margin = view.margin(loop)
    lines = []
    for one in code.split("\n"):
        bare = one.lstrip(" ")
        lines.append(f"{margin}{style.step * ((len(one) - len(bare)) // 2)}{bare}")
    return TextEdit(view.span(loop), view.text.newline.join(lines).lstrip())


def _removed(view: View, statement: Node) -> TextEdit:
    """The edit that takes a statement out, with its line where it has that alone."""
    begin, end, text = view.start(statement), view.end(statement), view.text.text
    line, after = text.rfind("\n", 0, begin) + 1, text.find("\n", end) + 1
    alone = after and not (text[line:begin] + text[end:after]).strip()
    return TextEdit(view.text.span(line, after) if alone else view.text.span(begin, end), "")


REWRITE = Rewrite(
    slug="online-softmax",
    title="Find maximum and sum of exponentials in one pass",
    apply=refusing(_apply),
    answers=("missing-cache-reuse",),
    useless_at="sm",
    chance=0.5,
    gain=1.25,
    spares=True,
)
