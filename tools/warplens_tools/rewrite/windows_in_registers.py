# SPDX-License-Identifier: Apache-2.0
"""windows-in-registers

Let each thread work out several outputs side by side, whose windows slide through registers.

Where an output is made of the elements around it, as in a filter over a signal or statistics over a rolling window,
each thread loads a whole window that its neighbours load as well. Side by side, outputs of one thread take each
element from the output beside it: an iteration loads one element for all of them, and a coefficient once. An odd
number of outputs keeps the lanes' accesses in different banks.

```cuda
__global__ void fir(const float* x, const float* h, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int last = min(taps, i + 1);
  float sum = 0.0f;
  for (int k = 0; k < last; k++) {
    sum += h[k] * x[i - k];
  }
  y[i] = sum;
}
void run(const float* x, const float* h, float* y, int n, int taps) {
  fir<<<(n + 255) / 256, 256>>>(x, h, y, n, taps);
}
```

```cuda
constexpr int kOutputs = 7;  // of a thread, side by side

__global__ void fir(const float* x, const float* h, float* y, int n, int taps) {
  const int i0 = (blockIdx.x * blockDim.x + threadIdx.x) * kOutputs;
  bool live[kOutputs];
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) live[o] = true;
  int last[kOutputs];
  float sum[kOutputs] = {};
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    const int i = i0 + o;
    if (i >= n) { live[o] = false; continue; }
    last[o] = min(taps, i + 1);
  }
  bool all = true;
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) all = all && live[o];
  int least = last[0];
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) least = last[o] < least ? last[o] : least;
  if (!all) least = 0;
  float xWindow[kOutputs];
  if (least > 0) {
    #pragma unroll
    for (int o = 1; o < kOutputs; ++o) xWindow[o - 1] = x[i0 + o];
  }
  #pragma unroll kOutputs
  for (int k = 0; k < least; ++k) {
    #pragma unroll
    for (int o = kOutputs - 1; o > 0; --o) xWindow[o] = xWindow[o - 1];
    xWindow[0] = x[i0 - k];
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) sum[o] += h[k] * xWindow[o];
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (!live[o]) continue;
    const int i = i0 + o;
    #pragma unroll 1
    for (int k = least > 0 ? least : 0; k < last[o]; ++k) {
      sum[o] += h[k] * x[i - k];
    }
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (!live[o]) continue;
    const int i = i0 + o;
    y[i] = sum[o];
  }
}
void run(const float* x, const float* h, float* y, int n, int taps) {
  fir<<<((n + 255) / 256 + kOutputs - 1) / kOutputs, 256>>>(x, h, y, n, taps);
}
```

Each output is added up in the order that it was. Where outputs of a thread end early or have windows of different
lengths, the rest of each is done by itself, and so are outputs whose windows are clipped or padded at the ends. Left
alone: windows that data clip, loops that are left early, that store, or whose counter goes by more than one.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.bounded_windows import bounds_of_ends
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    calls,
    field,
    refusing,
    require_apart,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.side_by_side import SideBySide
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.tested_windows import Tested, reread, untested
from warplens_tools.rewrite.common.texts import between
from warplens_tools.rewrite.common.thread_forms import axis_letter
from warplens_tools.text import TextEdit

#: Odd, so that 32 lanes that are as many elements apart access 32 banks; seven sums hide a multiply-add's latency.
_OUTPUTS = 7
_JUMPS = frozenset({"return_statement", "goto_statement", "labeled_statement", "lambda_expression"})


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    try:
        return _side_by_side(view, {})
    except Refused as why:
        refused = why
    for form in (_bounded, untested):
        try:
            plain, tested = form(view)
            result = _side_by_side(plain, tested)
        except Refused:
            continue
        after = plain.text.apply(list(result.edits))
        return msgspec.structs.replace(result, edits=between(view.text, after))
    raise refused


def _bounded(view: View) -> tuple[View, dict[int, Tested]]:
    return reread(view, bounds_of_ends(view)), {}


def _side_by_side(view: View, tested: dict[int, Tested]) -> RewriteResult:
    if any(name.startswith("atomic") for name, _ in calls(view.body, view)):
        raise Refused("its outputs are counted up in memory")
    launches = Launches(view.text, view.model, view.kernel)
    axis = _axis(view, launches)
    _check(view, axis)
    style = Style(view)
    count = style.constant("kOutputs", str(_OUTPUTS), "of a thread, side by side")
    writer = SideBySide(view, style, axis, count, tested)
    body = style.lines(_body(view, writer))
    newline = view.text.newline
    edit = TextEdit(
        view.text.span(view.start(view.body), view.end(view.body)),
        f"{{{newline}{body}{newline}{style.margin}}}",
    )
    for launch in launches.read():
        launches.set(launch.grid, {0: rounded_up(launch.grid.axis(0), count)})
    title = f"Work out {_OUTPUTS} outputs side by side, their windows in registers"
    return RewriteResult((style.constants(), edit, *launches.edits()), title=title)


def _axis(view: View, launches: Launches) -> Declared:
    """The variable that numbers outputs along x."""
    site = launches.read()[0].site
    for node in statements(view.body):
        for one in plainly_declared_in(view, node):
            form = view.forms.form(one.value) if one.value is not None else None
            if axis_letter(form, site) == "x" and not one.stars:
                return one
    raise Refused("no variable numbers its outputs along x")


def _check(view: View, axis: Declared) -> None:
    """That an output of a thread is one by itself, and that its loops end where they say."""
    code = view.code(view.body)
    if len(re.findall(r"\b(?:threadIdx|blockIdx)\s*\.\s*x\b", code)) != 2 or "gridDim" in code:
        raise Refused("the kernel uses the thread's place beside its number")
    changed = {name for name, _ in assigned(view.body, view)}
    if axis.name in changed or changed & view.parameters & _local_places(view):
        raise Refused("the output's number or a parameter changes")
    for node in walk(view.body):
        inside = next(
            (n for n in _around(view, node) if n.type in LOOPS or n.type == "switch_statement"), None
        )
        if node.type in _JUMPS and (inside is not None or node.type != "return_statement"):
            raise Refused("its loops are left early")
        if node.type == "break_statement" and (inside is None or inside.type != "switch_statement"):
            raise Refused("its loops are left early")


def _local_places(view: View) -> set[str]:
    """What is assigned itself, not an element of it."""
    return {name for name, place in assigned(view.body, view) if place.type == "identifier"}


def _around(view: View, node: Node) -> list[Node]:
    found, outer = list[Node](), node.parent
    while outer is not None and outer.id != view.body.id:
        found.append(outer)
        outer = outer.parent
    return found


def _body(view: View, writer: SideBySide) -> str:
    """The kernel's statements for several outputs."""
    nodes: list[Node | str] = [*statements(view.body)]
    last = nodes[-1]
    form = view.forms.form(writer.axis.value)
    added = f" + {form.constant}" if form is not None and form.constant else ""
    kind = unqualified(writer.axis.type)
    lines = [
        f"const {kind} {writer.first} = (blockIdx.x * blockDim.x + threadIdx.x) * {writer.count}{added};"
    ]
    if isinstance(last, Node) and last.type == "if_statement" and any(n.type in LOOPS for n in walk(last)):
        if last.child_by_field_name("alternative") is not None:
            raise Refused("a loop stands in one branch of two")
        ended = f"if (!({view.written(unwrapped(field(last, 'condition')))})) return;"
        nodes = [*nodes[:-1], ended, *statements(field(last, "consequence"))]
    lines += writer.beginning(nodes)
    lines.append(writer.block(nodes))
    if not writer.windows:
        raise Refused("no loop walks a window that slides from output to output")
    return "\n".join(line for line in lines if line)


REWRITE = Rewrite(
    slug="windows-in-registers",
    title="Work out several outputs side by side, their windows in registers",
    apply=refusing(_apply),
    answers=("low-ilp", "missing-cache-reuse", "elements-read-again"),
    useless_at="dram",
    chance=0.5,
    gain=2.2,
    ranges={"kOutputs": (3, 5, 7, 9, 15)},
)
