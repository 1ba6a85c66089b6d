# SPDX-License-Identifier: Apache-2.0
"""coarsen-tile

In a product that is tiled already, let each thread compute several rows of the tile.

A thread with one output reads two operands from shared memory for each multiply-add, and that takes longer than the
arithmetic. With four rows it reads five operands for four: the column's operand stays in a register. The tile of
what rests on the row grows as high, the others stay.

```cuda
#define TILE 16
__global__ void matmul(const float* A, const float* B, float* C, int N) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < N; t += TILE) {
    As[threadIdx.y][threadIdx.x] = A[row * N + t + threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * N + col];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    }
    __syncthreads();
  }
  C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int n) {
  dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
  matmul<<<grid, block>>>(A, B, C, n);
}
```

```cuda
#define TILE 16

#define ROWS_PER_THREAD 4

__global__ void matmul(const float* A, const float* B, float* C, int N) {
  __shared__ float As[TILE * ROWS_PER_THREAD][TILE];
  __shared__ float Bs[TILE][TILE];
  int row = blockIdx.y * ROWS_PER_THREAD * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float sum[ROWS_PER_THREAD] = {};
  for (int t = 0; t < N; t += TILE) {
    #pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      if (row + r * TILE < N) As[threadIdx.y + r * TILE][threadIdx.x] = A[(row + r * TILE) * N + t + threadIdx.x];
    }
    Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * N + col];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      #pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) {
        sum[r] += As[threadIdx.y + r * TILE][k] * Bs[k][threadIdx.x];
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    if (row + r * TILE < N) C[(row + r * TILE) * N + col] = sum[r];
  }
}
void run(const float* A, const float* B, float* C, int n) {
  dim3 block(TILE, TILE), grid(n / TILE, (n / TILE + ROWS_PER_THREAD - 1) / ROWS_PER_THREAD);
  matmul<<<grid, block>>>(A, B, C, n);
}
```

Where the block is as high as no constant of the kernel says, `blockDim.y` is taken. Left alone: a kernel that returns
early by its row or uses `blockIdx.y` for more than that.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.reading import (
    View,
    field,
    refusing,
    renamed,
    statements,
    substituted,
)
from warplens_tools.rewrite.common.row_tiles import RowTiles, plain_declarations
from warplens_tools.rewrite.common.style import Style, guarded, indented
from warplens_tools.text import TextEdit

#: Four rows: five reads for four multiply-adds, and four times the rows' tile still fits beside another block.
_ROWS = 4


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if "__syncthreads" not in view.code(view.body) or re.search(r"__shfl|atomic", view.code(view.body)):
        raise Refused("the kernel shares no tiles")
    return _Writer(view, Launches(view.text, view.model, view.kernel)).result()


class _Writer:
    def __init__(self, view: View, launches: Launches) -> None:
        self.view, self.launches = view, launches
        self.style = Style(view)
        self.tiled = RowTiles(view, launches)
        self.rows = self.style.constant("kRowsPerThread", str(_ROWS))
        self.counter = self.style.local("r")
        self.limit = self.tiled.limit(_ROWS)

    def result(self) -> RewriteResult:
        """All edits."""
        view, newline = self.view, self.view.text.newline
        body = self.style.lines(self._block(statements(view.body)))
        text = f"{{{newline}{body}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        for launch in self.launches.read():
            self.launches.set(launch.grid, {1: rounded_up(launch.grid.axis(1), self.rows)})
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title=f"Compute {_ROWS} rows a thread")

    def _block(self, nodes: list[Node]) -> str:
        lines: list[str] = []
        run: list[Node] = []
        for node in nodes:
            plain = self._is_plain_run(node)
            if not plain and run:
                lines.append(self._each(run))
                run = []
            if plain:
                run.append(node)
            else:
                lines.append(self._statement(node))
        return "\n".join(n for n in [*lines, self._each(run) if run else ""] if n)

    def _is_plain_run(self, node: Node) -> bool:
        """Whether a statement is done for each row as a whole."""
        if node.type in ("declaration", "for_statement", "while_statement"):
            return False
        if "__syncthreads" in self.view.code(node):
            return False
        return self.tiled.is_own(node) or bool(self.view.names(node) & self.tiled.states)

    def _statement(self, node: Node) -> str:
        view = self.view
        if node.type == "declaration":
            return self._declaration(node)
        if node.type == "for_statement":
            body = field(node, "body")
            if self.tiled.is_own(node) or view.names(node) & self.tiled.states:
                begin = view.start(node)
                head = " ".join(view.text.text[begin : view.start(body)].split())
                if view.names(node) & {self.tiled.row.name} and not view.names(body) & {self.tiled.row.name}:
                    raise Refused("a loop is not as long for all rows")
                return f"{head} {{\n{indented(self._block(statements(body)))}\n}}"
        elif self.tiled.is_own(node):
            raise Refused("the threads of a block wait for each other under a condition on the row")
        return self.style.code(view.written(node))

    def _declaration(self, node: Node) -> str:
        view = self.view
        names = [a.name for a in view.kernel.arrays if a.space == "shared" and view.span(node) == a.span]
        if names:
            return self._shared(node)
        every = plain_declarations(view, node)
        if not any(d.name in {self.tiled.row.name, *self.tiled.derived, *self.tiled.states} for d in every):
            return self.style.code(view.written(node))
        lines = []
        for one in every:
            value = f" = {view.written(one.value)}" if one.value is not None else ""
            if one.name == self.tiled.row.name:
                value = re.sub(r"\bblockIdx\s*\.\s*y\b", f"blockIdx.y * {self.rows}", value)
                for alias in self.tiled.block_rows():
                    value = renamed(value, {alias: f"{alias} * {self.rows}"})
            elif one.name in self.tiled.derived and one.name not in self.tiled.states:
                continue
            elif one.name in self.tiled.states:
                lines.append(self._state(one, value))
                continue
            lines.append(f"{one.type} {one.stars}{one.name}{value};")
        return "\n".join(lines)

    def _state(self, one: Declared, value: str) -> str:
        written = " ".join(w for w in one.type.split() if w != "const")
        if re.fullmatch(r" = 0*\.?0*[fFuUlL]?", value):
            return f"{written} {one.name}[{self.rows}] = {{}};"
        if not value:
            return f"{written} {one.name}[{self.rows}];"
        if one.value is not None and self.tiled.is_own(one.value):
            raise Refused("a result begins with what rests on the row")
        start = f"for (int {self.counter} = 0; {self.counter} < {self.rows}; ++{self.counter}) "
        return f"{written} {one.name}[{self.rows}];\n{start}{one.name}[{self.counter}]{value};"

    def _shared(self, node: Node) -> str:
        """The declaration of shared tiles, those of rows as much higher."""
        view, begin = self.view, self.view.start(node)
        text, at, parts = view.written(node), 0, list[str]()
        for array in view.kernel.arrays:
            if view.span(node) != array.span or array.name not in self.tiled.tiles:
                continue
            span = array.extent_spans[self.tiled.tiles[array.name]]
            high = view.text.offset(span.end_line, span.end_column) - begin
            low = view.text.offset(span.line, span.column) - begin
            extent = text[low:high] if re.fullmatch(r"\w+", text[low:high]) else f"({text[low:high]})"
            parts += [text[at:low], f"{extent} * {self.rows}"]
            at = high
        return self.style.code("".join([*parts, text[at:]]))

    def _each(self, run: list[Node]) -> str:
        """Statements for every row of the thread."""
        offset = f"{self.counter} * {self.tiled.height}"
        names = {s: f"{s}[{self.counter}]" for s in self.tiled.states}
        row = self.tiled.row.name
        names[row] = f"({row} + {offset})"
        lines = []
        needed = frozenset().union(*(self.view.names(n) for n in run))
        for one in self.tiled.derived.values():
            if one.name in needed or any(
                one.name in self.view.names(d.value) for d in self.tiled.derived.values() if d.value
            ):
                value = self.view.written(one.value) if one.value is not None else ""
                lines.append(f"{one.type} {one.stars}{one.name} = {renamed(value, {row: names[row]})};")
        for node in run:
            found = [(i, f"{self.view.written(i)} + {offset}") for i in self.tiled.row_indices(node)]
            lines.append(self.style.code(renamed(substituted(self.view, node, found), names)))
        inner = "\n".join(lines)
        if self.limit and any(self.view.space(e) == "global" for n in run for e in self.view.elements(n)):
            inner = guarded(f"{row} + {offset} < {self.limit}", lines)
        head = (
            f"#pragma unroll\nfor (int {self.counter} = 0; {self.counter} < {self.rows}; ++{self.counter}) {{"
        )
        return "\n".join([head, indented(inner), "}"])


REWRITE = Rewrite(
    slug="coarsen-tile",
    title="Compute several rows of a tile a thread",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "low-ilp", "barrier-heavy"),
    useless_at="dram",
    chance=0.5,
    gain=1.5,
)
