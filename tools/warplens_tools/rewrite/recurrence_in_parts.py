# SPDX-License-Identifier: Apache-2.0
"""recurrence-in-parts

Give the linear recurrence of a column to several threads of a block.

A smoothed mean, a gated state, a filter with feedback, a discounted return: each step makes `a * h + b` of the one
before, so a thread walks all steps alone, and there are as many threads as columns. But steps one after another are
one step, `a2 * (a1 * h + b1) + b2`. Of a block's threads that have one column each takes a stretch of it: it first
makes one step of that, the stretches' steps meet in shared memory, and it then walks its stretch again from what the
ones before it came to.

```cuda
__global__ void smooth(const float* x, float* y, float keep, int steps, int channels) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float h = 0.0f;
  for (int t = 0; t < steps; ++t) {
    h = keep * h + (1.0f - keep) * x[t * channels + c];
    y[t * channels + c] = h;
  }
}
void run(const float* x, float* y, int steps, int channels) {
  smooth<<<(channels + 127) / 128, 128>>>(x, y, 0.9f, steps, channels);
}
```

```cuda
constexpr int kColumns = 32;

constexpr int kParts = 16;

__global__ void smooth(const float* x, float* y, float keep, int steps, int channels) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float h = 0.0f;
  __shared__ float factors[kParts][kColumns], terms[kParts][kColumns];
  const int each = (steps + kParts - 1) / kParts;
  const int from = static_cast<int>(threadIdx.y) * each;
  const int end = from + each < steps ? from + each : steps;
  float factor = 1.0f, term = 0;
  for (int t = from; t < end; ++t) {
    const float by = keep;
    factor *= by;
    term = by * term + (1.0f - keep) * x[t * channels + c];
  }
  factors[threadIdx.y][threadIdx.x] = factor;
  terms[threadIdx.y][threadIdx.x] = term;
  __syncthreads();
  for (int part = 0; part < threadIdx.y; ++part) {
    h = factors[part][threadIdx.x] * h + terms[part][threadIdx.x];
  }
  for (int t = from; t < end; ++t) {
    h = keep * h + (1.0f - keep) * x[t * channels + c];
    y[t * channels + c] = h;
  }
}
void run(const float* x, float* y, int steps, int channels) {
  smooth<<<(channels + kColumns - 1) / kColumns, dim3(kColumns, kParts)>>>(x, y, 0.9f, steps, channels);
}
```

Indices that go on by the same in each step begin where the stretch does. What the kernel stores behind its loop is
stored by the last of a column's threads. Left alone: steps under a condition, several variables that are carried,
integers that may overflow, and loops that do not walk down columns that are neighbours; sums alone are
[scan-columns](scan-columns.md)'s.
"""

from __future__ import annotations

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.affine import written
from warplens_tools.rewrite.common.column_blocks import RANGES, ColumnBlocks
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import ColumnGroup
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


@opening
def _apply(found: Opened) -> RewriteResult:
    blocks = ColumnBlocks(found)
    one = read_recurrence(found)
    blocks.check_neighbours([one.loop.body])
    check_beside(found, one)
    columns, parts, definitions = blocks.relaunch()
    lines = _lines(found, one, columns, parts)
    indent = found.text.newline + found.edits.indent(one.loop.node)
    found.edits.replace(one.loop.node, "\n".join(lines).replace("\n", indent))
    if stores_before(found, one):
        raise Refused("it stores before its loop")
    for statement in stores_behind(found, one):
        found.edits.guard([statement], f"threadIdx.y == {parts} - 1")
    GroupEdits(found.edits, ColumnGroup(found.style, parts, columns)).define_helpers(*definitions)
    caveat = REORDERED if integer_type(one.type) is None else ""
    title = "Share each column's recurrence among several threads of a block"
    return RewriteResult(found.all_edits(), title=title, caveat=caveat)


def _lines(found: Opened, one: Recurrence, columns: str, parts: str) -> list[str]:
    """The loop, in the place of the old one."""
    tree, loop, kind, fresh = found.reader.tree, one.loop, one.type, found.edits.fresh_here
    factors, terms, factor, term = (fresh(n) for n in ("factors", "terms", "factor", "term"))
    each, start, end, part, by = (fresh(n) for n in ("each", "from", "end", "part", "by"))
    index = " ".join(tree.code_of(field(field(loop.node, "initializer"), "type")).split())
    begin = tree.text_of(loop.first) if loop.first is not None else "0"
    limit = tree.text_of(loop.bounds[0])
    limit = f"{limit} + 1" if "<=" in tree.text_of(field(loop.node, "condition")) else limit
    count = limit if begin == "0" else f"{limit} - ({begin})"
    first = f"static_cast<{index}>(threadIdx.y) * {each}"
    head = f"for ({index} {loop.variable} = {start}; {loop.variable} < {end}; ++{loop.variable}) {{"
    unit = found.edits.unit
    own = {name: fresh(f"{name}2") for name, _, _ in one.stepped}
    gone = start if begin == "0" else f"{start} - ({begin})"
    moves = [f"{name} += {_far(gone, step)};" for name, step, _ in one.stepped]
    copies = [f"auto {own[name]} = {name};" for name, _, _ in one.stepped]
    added = written(one.step.term, ONE[kind])
    taken = [tree.text_of(n) for n in one.declared]
    taken.append(f"const {kind} {by} = {written(one.step.factor, ONE[kind])};")
    taken.append(f"{factor} *= {by};")
    taken.append(f"{term} = {by} * {term}{f' + {added}' if added else ''};".replace("+ -", "- "))
    taken += [tree.text_of(n) for _, _, n in one.stepped]
    body = [tree.text_of(n) for n in statements(loop.body)]
    lines = [
        f"__shared__ {kind} {factors}[{parts}][{columns}], {terms}[{parts}][{columns}];",
        f"const {index} {each} = ({count} + {parts} - 1) / {parts};",
        f"const {index} {start} = {first if begin == '0' else f'{begin} + {first}'};",
        f"const {index} {end} = {start} + {each} < {limit} ? {start} + {each} : {limit};",
        *moves,
        *copies,
        f"{kind} {factor} = {ONE[kind]}, {term} = 0;",
        head,
        *(unit + renamed(line, own) for line in taken),
        "}",
        f"{factors}[threadIdx.y][threadIdx.x] = {factor};",
        f"{terms}[threadIdx.y][threadIdx.x] = {term};",
        "__syncthreads();",
        f"for (int {part} = 0; {part} < threadIdx.y; ++{part}) {{",
        f"{unit}{one.name} = {factors}[{part}][threadIdx.x] * {one.name} + {terms}[{part}][threadIdx.x];",
        "}",
        head,
        *(unit + line for line in body),
        "}",
    ]
    return [line for whole in lines for line in whole.split("\n")]


def _far(steps: str, by: str) -> str:
    """How far an index has moved in so many steps."""
    return steps if by == "1" else f"static_cast<size_t>({steps}) * {by}"


REWRITE = Rewrite(
    slug="recurrence-in-parts",
    title="Share each column's recurrence among several threads of a block",
    apply=_apply,
    answers=("grid-too-small", "low-ilp"),
    chance=0.55,
    gain=5.0,
    ranges=RANGES,
)
