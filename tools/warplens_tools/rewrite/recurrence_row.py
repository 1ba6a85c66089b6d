# SPDX-License-Identifier: Apache-2.0
"""recurrence-row

Let a warp carry a recurrence along its row.

Where each thread smooths a row of its own, `e = a * x[t] + b * e`, the lanes of a warp are a row apart at every step,
and each step waits for the one before. What two steps after each other make of a variable is again a factor and a
term: lanes that have an element each join theirs in five rounds, as in a sum, and load and store 32 neighbours.

```cuda
__global__ void smooth(const float* price, float* out, int series, int steps, float alpha) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= series) return;
  float e = price[s * steps];
  out[s * steps] = e;
  for (int t = 1; t < steps; t++) {
    e = alpha * price[s * steps + t] + (1.0f - alpha) * e;
    out[s * steps + t] = e;
  }
}
void run(const float* price, float* out, int series, int steps) {
  smooth<<<(series + 127) / 128, 128>>>(price, out, series, steps, 0.1f);
}
```

```cuda
constexpr int kWarpSize = 32;

__global__ void smooth(const float* price, float* out, int series, int steps, float alpha) {
  const int lane = threadIdx.x % kWarpSize;
  int s = blockIdx.x * (blockDim.x / kWarpSize) + threadIdx.x / kWarpSize;
  if (s >= series) return;
  float e = price[s * steps];
  if (lane == 0) out[s * steps] = e;
  for (int first = 1; first < steps; first += kWarpSize) {
    const int t = first + lane;
    float factor = 1.0f, term = 0.0f;
    if (t < steps) {
      factor = (1.0f - alpha);
      term = alpha * price[s * steps + t];
    }
    for (int offset = 1; offset < kWarpSize; offset *= 2) {
      const float factorBefore = __shfl_up_sync(0xffffffff, factor, offset);
      const float termBefore = __shfl_up_sync(0xffffffff, term, offset);
      if (lane >= offset) {
        term += factor * termBefore;
        factor *= factorBefore;
      }
    }
    const float eHere = factor * e + term;
    if (t < steps) {
      out[s * steps + t] = eHere;
    }
    e = __shfl_sync(0xffffffff, eHere, kWarpSize - 1);
  }
}
void run(const float* price, float* out, int series, int steps) {
  smooth<<<(series + 127) / 128 * kWarpSize, 128>>>(price, out, series, steps, 0.1f);
}
```

Loops that go down are taken as well. Left alone: steps under a condition, several variables that are carried, and
integers; columns that are neighbours are [recurrence-in-parts](recurrence-in-parts.md)'s.
"""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, along_one_axis
from warplens_tools.rewrite.common.affine import written
from warplens_tools.rewrite.common.column_blocks import walks_columns
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.reading import field, renamed, statements
from warplens_tools.rewrite.common.recurrences import (
    ONE,
    Recurrence,
    check_beside,
    read_recurrence,
    stores_before,
    stores_behind,
)
from warplens_tools.rewrite.common.warp_rows import WarpRows, number_by_warps

_ALL = "0xffffffff"


@opening
def apply(found: Opened) -> RewriteResult:
    """Let 32 lanes take 32 steps."""
    one = read_recurrence(found, downward=True)
    numbering = Numbering(found.reader, "x", found.launches.block_value(0))
    numbering.check_whole()
    if integer_type(one.type) is not None or one.stepped:
        raise Refused("an index moves on beside what the loop carries, or that is an integer")
    if found.launches.block_value(1) not in (None, 1):
        raise Refused("its blocks have more than one dimension")
    if walks_columns(found.reader, one.loop.body):
        raise Refused("neighbouring threads walk columns that are neighbours")
    check_beside(found, one)
    before, behind = stores_before(found, one), stores_behind(found, one)
    rows = number_by_warps(found, numbering, whole=True)
    indent = found.text.newline + found.edits.indent(one.loop.node)
    start, end = found.edits.offsets(one.loop.node)
    found.edits.cut(start, end)
    found.edits.insert_at(start, "\n".join(_lines(found, one, rows)).replace("\n", indent))
    for statement in (*before, *behind):
        found.edits.guard([statement], f"{rows.lane} == 0")
    if rows.definition:
        span = found.reader.tree.text_span(*(found.reader.expanded.function.start,) * 2)
        at = found.text.offset(span.line, span.column)
        found.edits.insert_at(at, f"{rows.definition}{found.text.newline * 2}")
    return RewriteResult(found.all_edits(), title="Carry each row's recurrence by a warp", caveat=REORDERED)


def _lines(found: Opened, one: Recurrence, rows: WarpRows) -> list[str]:
    """The loop, in the place of the old one."""
    tree, loop, kind, fresh = found.reader.tree, one.loop, one.type, found.edits.fresh_here
    first, factor, term, offset = (fresh(n) for n in ("first", "factor", "term", "offset"))
    old_factor, old_term, here = fresh(f"{factor}Before"), fresh(f"{term}Before"), fresh(f"{one.name}Here")
    index = " ".join(tree.code_of(field(field(loop.node, "initializer"), "type")).split())
    begin = tree.text_of(loop.first) if loop.first is not None else "0"
    condition, unit = tree.text_of(field(loop.node, "condition")), found.edits.unit
    sign, name = "-" if loop.downward else "+", loop.variable
    empty = ONE[kind].replace("1", "0", 1)
    body = statements(loop.body)
    at = next(i for i, n in enumerate(body) if n.start_byte <= one.taken.start_byte < n.end_byte)
    was, stored = fresh(f"{one.name}Before"), list[str]()
    names = {one.name for n in body[:at] if one.name in _names(found, n)}
    for place, node in enumerate(body):
        if place != at:
            stored += renamed(tree.text_of(node), {one.name: was if place < at else here}).split("\n")
    taken = [line for n in one.declared for line in tree.text_of(n).split("\n")]
    taken.append(f"{factor} = {written(one.step.factor, ONE[kind])};")
    taken.append(f"{term} = {written(one.step.term, ONE[kind]) or empty};")
    before = [
        f"{unit}{kind} {was} = __shfl_up_sync({_ALL}, {here}, 1);",
        f"{unit}if ({rows.lane} == 0) {was} = {one.name};",
    ]
    return [
        f"for ({index} {first} = {begin}; {renamed(condition, {name: first})}; {first} {sign}= {rows.width}) {{",
        f"{unit}const {index} {name} = {first} {sign} {rows.lane};",
        f"{unit}{kind} {factor} = {ONE[kind]}, {term} = {empty};",
        f"{unit}if ({condition}) {{",
        *_indented(unit * 2, taken),
        f"{unit}}}",
        f"{unit}for (int {offset} = 1; {offset} < {rows.width}; {offset} *= 2) {{",
        f"{unit * 2}const {kind} {old_factor} = __shfl_up_sync({_ALL}, {factor}, {offset});",
        f"{unit * 2}const {kind} {old_term} = __shfl_up_sync({_ALL}, {term}, {offset});",
        f"{unit * 2}if ({rows.lane} >= {offset}) {{",
        f"{unit * 3}{term} += {factor} * {old_term};",
        f"{unit * 3}{factor} *= {old_factor};",
        f"{unit * 2}}}",
        f"{unit}}}",
        f"{unit}const {kind} {here} = {factor} * {one.name} + {term};",
        *(before if names else ()),
        *([f"{unit}if ({condition}) {{", *_indented(unit * 2, stored), f"{unit}}}"] if stored else ()),
        f"{unit}{one.name} = __shfl_sync({_ALL}, {here}, {rows.width} - 1);",
        "}",
    ]


def _indented(margin: str, lines: Sequence[str]) -> list[str]:
    return [margin + line.strip() for line in lines]


def _names(found: Opened, node: Node) -> set[str]:
    return {found.reader.tree.code_of(n) for n in walk(node) if n.type == "identifier"}


REWRITE = Rewrite(
    slug="recurrence-row",
    title="Carry each row's recurrence by a warp",
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "grid-too-small", "low-ilp"),
    likely=along_one_axis,
    chance=0.5,
    gain=5.0,
)
