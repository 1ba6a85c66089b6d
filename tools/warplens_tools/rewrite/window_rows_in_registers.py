# SPDX-License-Identifier: Apache-2.0
"""window-rows-in-registers

Let a thread work out several outputs of a column, and fold each row of their windows once.

What compares patches of two images, as in block matching or in a mean over alike patches, sums a window of differences
for every candidate. The windows of eight outputs below each other have all but one row in common with the next: a
thread folds each row once, keeps what it came to in registers, and adds up the rows of each output from there. Seven
by seven elements for each of eight outputs are fourteen rows of seven.

```cuda
__global__ void match(const unsigned char* left, const unsigned char* right, unsigned char* best_shift, int width,
                      int height, int shifts) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int best = 1 << 30, found = 0;
  for (int s = 0; s < shifts; ++s) {
    int cost = 0;
    for (int j = 0; j < 7; ++j) {
      for (int i = 0; i < 7; ++i) {
        cost += abs(left[(y + j) * (width + 99) + x + i] - right[(y + j) * (width + 99) + x + i + s]);
      }
    }
    if (cost < best) {
      best = cost;
      found = s;
    }
  }
  best_shift[y * width + x] = found;
}
void run(const unsigned char* left, const unsigned char* right, unsigned char* best_shift, int width, int height,
         int shifts) {
  dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
  match<<<grid, block>>>(left, right, best_shift, width, height, shifts);
}
```

```cuda
constexpr int kOutputs = 8;  // of a thread

__global__ void match(const unsigned char* __restrict__ left, const unsigned char* __restrict__ right, unsigned char* __restrict__ best_shift, int width,
                      int height, int shifts) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y0 = (blockIdx.y * blockDim.y + threadIdx.y) * kOutputs;
  const bool inside = x < width &&
      (y0 + (kOutputs - 1)) < height;
  if (inside) {
    int best[kOutputs];
    int found[kOutputs];
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      best[o] = 1 << 30;
      found[o] = 0;
    }
    for (int s = 0; s < shifts; ++s) {
      int cost[kOutputs];
      #pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        cost[o] = 0;
      }
      int costRows[kOutputs + 6];
      #pragma unroll
      for (int r = 0; r < kOutputs + 6; ++r) {
        int y = y0 + r;
        const int j = 0;
        int costOfRow = 0;
        for (int i = 0; i < 7; ++i) {
          costOfRow += abs(left[(y + j) * (width + 99) + x + i] - right[(y + j) * (width + 99) + x + i + s]);
        }
        costRows[r] = costOfRow;
      }
      #pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        #pragma unroll
        for (int k = 0; k <= 6; ++k) {
          cost[o] += costRows[o + k];
        }
      }
      #pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        if (cost[o] < best[o]) {
          best[o] = cost[o];
          found[o] = s;
        }
      }
    }
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      int y = y0 + o;
      best_shift[y * width + x] = found[o];
    }
  } else {
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      int y = y0 + o;
      if (x >= width || y >= height) continue;
      int best = 1 << 30, found = 0;
      for (int s = 0; s < shifts; ++s) {
        int cost = 0;
        for (int j = 0; j < 7; ++j) {
          for (int i = 0; i < 7; ++i) {
            cost += abs(left[(y + j) * (width + 99) + x + i] - right[(y + j) * (width + 99) + x + i + s]);
          }
        }
        if (cost < best) {
          best = cost;
          found = s;
        }
      }
      best_shift[y * width + x] = found;
    }
  }
}
void run(const unsigned char* left, const unsigned char* right, unsigned char* best_shift, int width, int height,
         int shifts) {
  dim3 block(32, 8), grid((width + 31) / 32, ((height + 7) / 8 + kOutputs - 1) / kOutputs);
  match<<<grid, block>>>(left, right, best_shift, width, height, shifts);
}
```

Windows may be sums, or minima and maxima by a function, and there may be several. Left alone: windows whose elements are
weighted row by row, whose size only the run tells, and loops over candidates that are other ones for each output.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite import index_into_axes, inside_without_tests
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target, in_a_divided_plane
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.flat_pointers import with_outputs
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.reading import View, field, refusing, renamed, statements
from warplens_tools.rewrite.common.side_plan import Each, Inner, Plain, Plan, Planner, Window
from warplens_tools.rewrite.common.side_rows import Fold, column_of
from warplens_tools.rewrite.common.style import Style, indented, zero
from warplens_tools.rewrite.common.texts import between
from warplens_tools.rewrite.march_outputs import marched
from warplens_tools.text import SourceText, TextEdit

_TITLE = "Fold each row of several outputs' windows once, in registers"
#: A window of seven rows is folded from 14 instead of 56; the rows of nine and more stay in registers too.
_OUTPUTS = 8
_LOOPS = re.compile(r"\b(?:for|while)\b")


def _apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Of outputs along several axes, or of those that one number is divided into."""
    if len(_LOOPS.findall(text.slice(kernel.body))) < 2:
        return RewriteResult(refused="no loop walks the rows of a window")
    found = _FOLDED.apply(text, model, kernel, target)
    if found.edits or target.lines:
        return found
    after = Chain(index_into_axes.REWRITE, _FOLDED).result(_TITLE, text, model, kernel, target)
    return after if after.edits else found


def _folded(view: View, target: Target) -> RewriteResult:
    if target.lines:
        raise Refused("it takes the whole kernel")
    first = Rewrite("march-outputs", _TITLE, refusing(_march))
    after, flat, chained = with_outputs(view, _TITLE, Chain(first, inside_without_tests.REWRITE), target)
    writer = _Writer(after)
    caveats = [c for c in (flat, writer.caveat, chained) if c]
    return RewriteResult(between(view.text, writer.text()), _TITLE, caveat="; ".join(dict.fromkeys(caveats)))


def _march(view: View, target: Target) -> RewriteResult:
    del target
    return marched(view, outputs=_OUTPUTS, one_by_one=False)


class _Writer:
    """Writes the loop over a column's outputs inside the loops over candidates, and rows of windows by themselves."""

    def __init__(self, view: View) -> None:
        self.view, self.style = view, Style(view)
        planner = Planner(view, column_of(view))
        self.column, self.rows, self.plan = planner.column, planner.rows, planner.plan
        self._planner, self._states = planner, planner.states
        self._held = {f.name: self.style.local(f"{f.name}Rows") for f in self.rows.folds}
        self._part = {f.name: self.style.local(f"{f.name}OfRow") for f in self.rows.folds}
        self._row, self._next = self.style.local("r"), self.style.local("k")

    @property
    def caveat(self) -> str:
        """What may change: sums of integers and extremes do not."""
        sums = (f for f in self.rows.folds if not f.extreme)
        return "" if all(integer_type(self._type(f)) is not None for f in sums) else REORDERED

    def text(self) -> SourceText:
        """The file with the loop written anew."""
        view, loop = self.view, self.column.loop.node
        start = start_with_pragmas(view.tree.file, view.start(loop))
        margin = view.margin(loop)
        level = max((len(margin) - len(self.style.margin)) // max(len(self.style.step), 1), 1)
        code = self.style.lines("\n".join(self._block(self.plan)), level)
        edit = TextEdit(view.text.span(start, view.end(loop)), code.lstrip(" \t"))
        return view.text.apply([edit])

    def _block(self, plan: Plan) -> list[str]:
        lines = list[str]()
        for part in plan.parts:
            if isinstance(part, Plain):
                lines.append(self._code(part.node))
            elif isinstance(part, Inner):
                header = self._header(part.node)
                lines += [f"{header} {{", indented("\n".join(self._block(part.plan))), "}"]
            elif isinstance(part, Window):
                lines += self._window()
            else:
                lines += self._each(part)
        return lines

    def _header(self, loop: Node) -> str:
        view = self.view
        body = field(loop, "body")
        return view.text.text[view.start(loop) : view.start(body)].strip()

    def _each(self, part: Each) -> list[str]:
        """Statements for one output after the other, with what is kept of each in arrays."""
        states = [d for d in part.declared if d.name in self._states]
        lines = [f"{unqualified(d.type)} {d.name}[{self.column.count}];" for d in states]
        inner = [line for n in part.nodes for line in self._statement(n, part)]
        if not inner:
            return lines
        number = self.column.number
        if any(number.name in self.view.names(n) for n in part.nodes):
            inner.insert(
                0, f"{number.type} {number.name} = {self.column.first} + {self.column.loop.variable};"
            )
        return [*lines, *self._over_outputs(inner)]

    def _over_outputs(self, inner: list[str]) -> list[str]:
        o = self.column.loop.variable
        head = f"for (int {o} = 0; {o} < {self.column.count}; ++{o}) {{"
        return ["#pragma unroll", head, indented("\n".join(inner)), "}"]

    def _statement(self, node: Node, part: Each) -> Iterator[str]:
        names = {s: f"{s}[{self.column.loop.variable}]" for s in self._states}
        mine = [d for d in part.declared if d.statement.id == node.id]
        if not any(d.name in self._states for d in mine):
            yield renamed(self._code(node), names)
            return
        for one in mine:
            value = renamed(self.view.written(one.value), names) if one.value is not None else ""
            if one.name in self._states:
                if value:
                    yield f"{names[one.name]} = {value};"
            else:
                yield f"{one.type} {one.stars}{one.name}{f' = {value}' if value else ''};"

    def _code(self, node: Node) -> str:
        return self.style.code(self.view.written(node))

    def _type(self, fold: Fold) -> str:
        return unqualified(self._planner.declared[fold.name].type)

    def _window(self) -> list[str]:
        """The rows of all windows, and then each window from its rows."""
        count, reach, r = self.column.count, self.rows.reach, self._row
        number, loop = self.column.number, self.rows.loop
        lines = [f"{self._type(f)} {self._held[f.name]}[{count} + {reach}];" for f in self.rows.folds]
        inner = [f"{number.type} {number.name} = {self.column.first} + {r};"]
        inner += [self._again(d) for d in self._planner.again]
        inner.append(f"const int {loop.variable} = {self.rows.begin};")
        inner += [f"{self._type(f)} {self._part[f.name]} = {self._begin(f)};" for f in self.rows.folds]
        inner += [renamed(self._code(n), self._part) for n in statements(loop.body)]
        inner += [f"{self._held[f.name]}[{r}] = {self._part[f.name]};" for f in self.rows.folds]
        head = f"for (int {r} = 0; {r} < {count} + {reach}; ++{r}) {{"
        lines += ["#pragma unroll", head, indented("\n".join(inner)), "}"]
        return [*lines, *self._over_outputs(self._joined())]

    def _joined(self) -> list[str]:
        o, k = self.column.loop.variable, self._next
        joined = [f.joined(f"{f.name}[{o}]", f"{self._held[f.name]}[{o} + {k}]") for f in self.rows.folds]
        head = f"for (int {k} = 0; {k} <= {self.rows.reach}; ++{k}) {{"
        return ["#pragma unroll", head, indented("\n".join(joined)), "}"]

    def _begin(self, fold: Fold) -> str:
        """What a row begins at: nothing added yet, or where the extreme itself begins."""
        value = self._planner.declared[fold.name].value
        return self.view.written(value) if fold.extreme and value is not None else zero(self._type(fold))

    def _again(self, one: Declared) -> str:
        value = self.view.written(one.value) if one.value is not None else ""
        return f"{one.type} {one.stars}{one.name} = {value};"


_FOLDED = Rewrite("window-rows-in-registers", _TITLE, refusing(_folded))

REWRITE = Rewrite(
    slug="window-rows-in-registers",
    title=_TITLE,
    apply=_apply,
    answers=("low-ilp", "missing-cache-reuse", "elements-read-again"),
    useless_at="dram",
    likely=in_a_divided_plane,
    chance=0.6,
    gain=3.5,
    ranges={"kOutputs": (4, 8, 16)},
)
