# SPDX-License-Identifier: Apache-2.0
"""march-outputs

Let each thread work out consecutive outputs of a column, one after another.

Neighbouring outputs of a stencil or a filter read mostly the same elements. A thread that goes down a column of them
has the elements of the rows before still in registers, where the compiler sees that nothing changed them, computes
what the column shares once, and has the loads of several outputs under way at a time.

```cuda
__global__ void laplace(const float* in, float* out, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
  int at = y * nx + x;
  out[at] = in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx] - 4.0f * in[at];
}
void run(const float* in, float* out, int nx, int ny) {
  dim3 block(32, 8), grid((nx + 31) / 32, (ny + 7) / 8);
  laplace<<<grid, block>>>(in, out, nx, ny);
}
```

```cuda
constexpr int kOutputs = 4;  // of a thread

__global__ void laplace(const float* __restrict__ in, float* __restrict__ out, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y0 = (blockIdx.y * blockDim.y + threadIdx.y) * kOutputs;
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    int y = y0 + o;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) continue;
    int at = y * nx + x;
    out[at] = in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx] - 4.0f * in[at];
  }
}
void run(const float* in, float* out, int nx, int ny) {
  dim3 block(32, 8), grid((nx + 31) / 32, ((ny + 7) / 8 + kOutputs - 1) / kOutputs);
  laplace<<<grid, block>>>(in, out, nx, ny);
}
```

Left alone: kernels whose threads work together, that nothing limits along the last axis of the launch, or that
return from inside a loop.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, is_looped, walk
from warplens_tools.cuda.values.loop_headers import initialised
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, in_a_plane
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.declared import Declared, is_set, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    calls,
    operator_of,
    refusing,
    require_apart,
    statements,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.thread_forms import axis_letter
from warplens_tools.text import TextEdit

#: Two rows in flight hide more of each other's latency than one; four keep half of a 3-wide window in registers.
_OUTPUTS = 4
#: Fewer outputs along an axis would be no work for a card: a number below is the width of an edge.
_LEAST_EXTENT = 32
_COUNTED = frozenset({"for_statement", "while_statement", "do_statement"})
_AGAIN = LOOPS | {"switch_statement", "lambda_expression"}


def _march(view: View, target: Target) -> RewriteResult:
    del target
    return marched(view)


def marched(
    view: View,
    *,
    along: str = "",
    wanted: str = "kOutputs",
    outputs: int = _OUTPUTS,
    one_by_one: bool = True,
) -> RewriteResult:
    """The kernel with consecutive outputs a thread, along the last axis of the launch or along `along`; `wanted` is
    what the constant is called that says how many. Not `one_by_one`: what follows lets them go through loops together.

    Raises:
        Refused: an output of a thread is not one by itself, or nothing limits them.
    """
    require_apart(view)
    if any(name.startswith("atomic") for name, _ in calls(view.body, view)):
        raise Refused("its outputs are counted up in memory")
    launches = Launches(view.text, view.model, view.kernel)
    top = statements(view.body)
    axis, letter = _axis(view, top, launches, along)
    _check(view, axis, letter, one_by_one=one_by_one)
    return _written(view, launches, top, axis, letter, wanted, outputs)


def _axis(view: View, top: list[Node], launches: Launches, along: str) -> tuple[Declared, str]:
    """The variable that numbers outputs along an axis of the launch, and that axis."""
    site = launches.read()[0].site
    found: dict[str, Declared] = {}
    for node in top:
        for one in plainly_declared_in(view, node):
            letter = axis_letter(view.forms.form(one.value), site) if one.value is not None else ""
            if letter and letter not in found:
                found[letter] = one
    if (along or "x") not in found or (not along and len(found) < 2):
        raise Refused("its outputs lie along one axis")
    letter = along or max(found)
    if _is_needed_beside(view, found[letter]):
        raise Refused("the axis is declared with what others rest on")
    return found[letter], letter


def _is_needed_beside(view: View, one: Declared) -> bool:
    """Whether a variable is used by others that its statement declares."""
    return any(
        d.value is not None and d.name != one.name and one.name in view.names(d.value)
        for d in plainly_declared_in(view, one.statement)
    )


def _check(view: View, axis: Declared, letter: str, *, one_by_one: bool) -> None:
    """That an output of a thread is one by itself, and that something limits them."""
    code = view.code(view.body)
    if len(re.findall(rf"\b(?:threadIdx|blockIdx)\s*\.\s*{letter}\b", code)) != 2 or "gridDim" in code:
        raise Refused("the kernel uses the thread's place beside its number")
    if any(name == axis.name for name, _ in assigned(view.body, view)):
        raise Refused("the output's number changes")
    limited = any(
        n.type == "binary_expression"
        and operator_of(n) in ("<", "<=", ">", ">=")
        and axis.name in view.names(n.children[0]) | view.names(n.children[-1])
        and _is_end(view.value(n.children[-1]))
        for n in walk(view.body)
        if _in_condition(n)
    )
    if not limited:
        raise Refused("nothing limits its outputs along the last axis")
    if one_by_one and any(n.type in _COUNTED and not _is_short(view, n) for n in walk(view.body)):
        raise Refused("its loops are too long to do for several outputs one after another")
    for node in walk(view.body):
        if node.type in ("goto_statement", "labeled_statement"):
            raise Refused("the kernel jumps")
        if node.type == "return_statement" and is_looped(node, view.body, _AGAIN):
            raise Refused("it returns from inside a loop")


def _is_short(view: View, loop: Node) -> bool:
    """Whether a loop ends at a constant, or at what is one in each iteration of such loops around it."""
    condition = unwrapped(loop.child_by_field_name("condition") or loop)
    if condition.type != "binary_expression":
        return False
    end, counters = condition.children[-1], set[str]()
    if view.value(end) is not None:
        return True
    outer = loop.parent
    while outer is not None and outer.id != view.body.id:
        name = initialised(outer)[0] if outer.type == "for_statement" and _is_short(view, outer) else None
        if name is not None:
            counters.add(view.code(name))
        outer = outer.parent
    names = view.names(end)
    return bool(names) and names <= counters and not any(n.type == "call_expression" for n in walk(end))


def _is_end(value: int | None) -> bool:
    """Whether a number may be how many outputs there are, and not the width of an edge."""
    return value is None or value >= _LEAST_EXTENT


def _in_condition(node: Node) -> bool:
    child, outer = node, node.parent
    while outer is not None and outer.type != "compound_statement":
        if outer.type == "if_statement":
            condition = outer.child_by_field_name("condition")
            return condition is not None and condition.id == child.id
        child, outer = outer, outer.parent
    return False


def _written(
    view: View,
    launches: Launches,
    top: list[Node],
    axis: Declared,
    letter: str,
    wanted: str,
    outputs: int,
) -> RewriteResult:
    style = Style(view)
    count = style.constant(wanted, str(outputs), "of a thread")
    counter, first = style.local("o"), style.local(f"{axis.name}0")
    kind = unqualified(axis.type)
    form = view.forms.form(axis.value) if axis.value is not None else None
    added = f" + {form.constant}" if form is not None and form.constant else ""
    number = f"(blockIdx.{letter} * blockDim.{letter} + threadIdx.{letter}) * {count}{added}"
    above, inside = _split(view, top, axis)
    lines = [*above, f"const {kind} {first} = {number};", "#pragma unroll"]
    lines.append(f"for (int {counter} = 0; {counter} < {count}; ++{counter}) {{")
    lines.append(
        indented("\n".join([f"{kind} {axis.name} = {first} + {counter};", *map(style.code, inside)]))
    )
    newline = view.text.newline
    body = style.lines("\n".join([*map(style.code, lines[: len(above)]), *lines[len(above) :], "}"]))
    text = f"{{{newline}{body}{newline}{style.margin}}}"
    edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
    index = "xyz".index(letter)
    for launch in launches.read():
        launches.set(launch.grid, {index: rounded_up(launch.grid.axis(index), count)})
    edits = (style.constants(), edit, *launches.edits())
    return RewriteResult(edits, title=f"Work out {outputs} outputs of a column one after another")


def _split(view: View, top: list[Node], axis: Declared) -> tuple[list[str], list[str]]:
    """Declarations that rest on nothing of the axis, and all else, with `continue` for `return`."""
    above, inside, moving = list[str](), list[str](), {axis.name}
    for node in top:
        every = plainly_declared_in(view, node)
        if any(d.name == axis.name for d in every):
            rest = [d for d in every if d.name != axis.name]
            above += [_declaration(view, d) for d in rest]
            continue
        fixed = every and not any(
            d.value is None or is_set(view, [view.body], d) or view.names(d.value) & moving or not d.is_index
            for d in every
        )
        if fixed and not inside:
            above.append(view.written(node))
            continue
        moving |= {d.name for d in every}
        returns = [n for n in walk(node) if n.type == "return_statement"]
        inside.append(substituted(view, node, [(n, "continue;") for n in returns]))
    return above, inside


def _declaration(view: View, one: Declared) -> str:
    value = f" = {view.written(one.value)}" if one.value is not None else ""
    return f"{one.type} {one.stars}{one.name}{value};"


_TITLE = "Work out several outputs of a column one after another"
# what neighbours share stays in registers only where no store may change it
_CHAIN = Chain(Rewrite("march-outputs", _TITLE, refusing(_march)), alone=True)

REWRITE = _CHAIN.rewrite(
    __name__,
    _TITLE,
    answers=("low-ilp", "missing-cache-reuse"),
    likely=in_a_plane,
    chance=0.4,
    gain=1.5,
    ranges={"kOutputs": (2, 4, 8)},
)
