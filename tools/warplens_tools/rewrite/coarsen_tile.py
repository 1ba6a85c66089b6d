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

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Declared, axis_letter, declared_in
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    refusing,
    renamed,
    statements,
    substituted,
)
from warplens_tools.rewrite.common.refusal import Refused
from warplens_tools.rewrite.common.sizes import limit_of
from warplens_tools.rewrite.common.style import Style, indented
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
        self.site = launches.read()[0].site
        self.style = Style(view)
        every = [d for n in statements(view.body) if n.type == "declaration" for d in _plain(view, n)]
        rows = [d for d in every if d.value is not None and self._letter(d.value) == "y"]
        if len(rows) != 1 or rows[0].value is None:
            raise Refused("no variable is the row of the thread's output")
        self.row, self.declared = rows[0], every
        self.rows = self.style.constant("kRowsPerThread", str(_ROWS))
        self.counter = self.style.local("r")
        self.height = self._height()
        self.derived = self._derived()
        self.tiles = self._tiles()
        self.states = self._states()
        self._check()
        self.limit = self._limit()

    def _letter(self, value: Node) -> str:
        return axis_letter(self.view.forms.form(value), self.site)

    def _height(self) -> str:
        """Threads of a block along y, as the row's own expression says it."""
        code = self.view.written(self.row.value) if self.row.value is not None else ""
        found = re.search(r"(?:blockIdx\.y|\b\w+)\s*\*\s*(blockDim\.y|[A-Za-z_]\w*|\d+)", code)
        found = found or re.search(r"(blockDim\.y)\s*\*", code) or re.search(r"\b([A-Z_]\w*|\d+)\s*\*", code)
        extent = self.site.block_value[1]
        if found is None:
            raise Refused("how many rows a block has is not known")
        known = self.view.expanded.constants.value(found[1], self.view.body.start_byte)
        if found[1] != "blockDim.y" and (known is None or known != extent):
            raise Refused("how many rows a block has is not known")
        return found[1]

    def _derived(self) -> dict[str, Declared]:
        """Integers that are worked out from the row before the work, to be worked out again for each."""
        names = {self.row.name}
        found: dict[str, Declared] = {}
        for one in self.declared:
            if one.value is not None and self.view.names(one.value) & names and one.name != self.row.name:
                names.add(one.name)
                found[one.name] = one
        return found

    def _tiles(self) -> dict[str, int]:
        """Shared arrays that hold what rests on the row: which of their indices is the thread's row."""
        view, found = self.view, dict[str, int]()
        known = {self.row.name, *self.derived}
        for node in walk(view.body):
            if node.type != "assignment_expression":
                continue
            name, place = next(iter(assigned(node, view)))
            shared = next((a for a in view.kernel.arrays if a.name == name and a.space == "shared"), None)
            if shared is None:
                continue
            guards = view.names(field(node, "right")) | _guards(view, node)
            if not guards & known:
                continue
            indices = _indices(place)
            mine = [i for i, index in enumerate(indices) if self._is_thread_row(index)]
            if len(mine) != 1 or len(indices) != len(shared.extents) or shared.dynamic:
                raise Refused(f"{name} is not indexed by the thread's row")
            found[name] = mine[0]
        if not found:
            raise Refused("no shared tile holds what rests on the row")
        return found

    def _is_thread_row(self, index: Node) -> bool:
        form = self.view.forms.form(index)
        return form is not None and [(tuple(s.name for s in t), f) for t, f in form.terms] == [
            (("threadIdx.y",), 1)
        ]

    def _states(self) -> set[str]:
        """Variables of the body that are set from the tiles."""
        found: set[str] = set()
        for node in walk(self.view.body):
            if node.type in ("assignment_expression", "update_expression"):
                name, place = next(iter(assigned(node, self.view)))
                if place.type == "identifier" and self._is_own(node):
                    found.add(name)
        declared = {d.name for d in self.declared}
        if found - declared or not found or found & set(self.derived) or self.row.name in found:
            raise Refused("no result of its own is summed up by each thread")
        return found

    def _is_own(self, node: Node) -> bool:
        """Whether a statement is done once for each row."""
        return bool(self.view.names(node) & {self.row.name, *self.derived, *self.tiles})

    def _check(self) -> None:
        view, code = self.view, self.view.code(self.view.body)
        aliases = {
            d.name for d in self.declared if d.value is not None and view.code(d.value) == "blockIdx.y"
        }
        uses = len(re.findall(r"\bblockIdx\s*\.\s*y\b", code))
        uses += sum(len(re.findall(rf"\b{a}\b", code)) - 2 for a in aliases)
        if uses != 1 or "return" in code.split() or re.search(r"\breturn\b", code):
            raise Refused("the block's row is used for more than the thread's row, or threads return early")

    def _limit(self) -> str:
        """Where the rows end, for accesses that no condition keeps from there; "" where none is needed."""
        view, grid = self.view, self.site.grid_value[1]
        row = re.escape(self.row.name)
        bounded = re.compile(rf"\b{row}\s*<|>\s*{row}\b|\b{row}\s*>=")
        open_ones = [
            e
            for e in view.elements(view.body)
            if view.space(e) == "global"
            and view.names(e) & {self.row.name, *self.derived}
            and not bounded.search(_around(view, e))
        ]
        if not open_ones or (grid is not None and grid % _ROWS == 0):
            return ""
        return limit_of(view, self.launches, "y")

    def result(self) -> RewriteResult:
        """All edits."""
        view, newline = self.view, self.view.text.newline
        body = self.style.lines(self._block(statements(view.body)))
        text = f"{{{newline}{body}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        for launch in self.launches.read():
            extent = launch.grid.axis(1)
            self.launches.set(launch.grid, {1: f"({extent} + {self.rows} - 1) / {self.rows}"})
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
        return bool(self.view.names(node) & {self.row.name, *self.derived, *self.tiles, *self.states})

    def _statement(self, node: Node) -> str:
        view = self.view
        if node.type == "declaration":
            return self._declaration(node)
        if node.type == "for_statement":
            body = field(node, "body")
            if self._is_own(node) or view.names(node) & self.states:
                begin = view.start(node)
                head = " ".join(view.text.text[begin : view.start(body)].split())
                if view.names(node) & {self.row.name} and not view.names(body) & {self.row.name}:
                    raise Refused("a loop is not as long for all rows")
                return f"{head} {{\n{indented(self._block(statements(body)))}\n}}"
        elif self._is_own(node):
            raise Refused("the threads of a block wait for each other under a condition on the row")
        return self.style.code(view.written(node))

    def _declaration(self, node: Node) -> str:
        view = self.view
        names = [a.name for a in view.kernel.arrays if a.space == "shared" and view.span(node) == a.span]
        if names:
            return self._shared(node)
        every = _plain(view, node)
        if not any(d.name in {self.row.name, *self.derived, *self.states} for d in every):
            return self.style.code(view.written(node))
        lines = []
        for one in every:
            value = f" = {view.written(one.value)}" if one.value is not None else ""
            if one.name == self.row.name:
                value = re.sub(r"\bblockIdx\s*\.\s*y\b", f"blockIdx.y * {self.rows}", value)
                aliases = [
                    d.name
                    for d in self.declared
                    if d.value is not None and view.code(d.value) == "blockIdx.y"
                ]
                for alias in aliases:
                    value = renamed(value, {alias: f"{alias} * {self.rows}"})
            elif one.name in self.derived and one.name not in self.states:
                continue
            elif one.name in self.states:
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
        if one.value is not None and self._is_own(one.value):
            raise Refused("a result begins with what rests on the row")
        start = f"for (int {self.counter} = 0; {self.counter} < {self.rows}; ++{self.counter}) "
        return f"{written} {one.name}[{self.rows}];\n{start}{one.name}[{self.counter}]{value};"

    def _shared(self, node: Node) -> str:
        """The declaration of shared tiles, those of rows as much higher."""
        view, begin = self.view, self.view.start(node)
        text, at, parts = view.written(node), 0, list[str]()
        for array in view.kernel.arrays:
            if view.span(node) != array.span or array.name not in self.tiles:
                continue
            span = array.extent_spans[self.tiles[array.name]]
            high = view.text.offset(span.end_line, span.end_column) - begin
            low = view.text.offset(span.line, span.column) - begin
            extent = text[low:high] if re.fullmatch(r"\w+", text[low:high]) else f"({text[low:high]})"
            parts += [text[at:low], f"{extent} * {self.rows}"]
            at = high
        return self.style.code("".join([*parts, text[at:]]))

    def _each(self, run: list[Node]) -> str:
        """Statements for every row of the thread."""
        offset = f"{self.counter} * {self.height}"
        names = {s: f"{s}[{self.counter}]" for s in self.states}
        names[self.row.name] = f"({self.row.name} + {offset})"
        lines = []
        needed = frozenset().union(*(self.view.names(n) for n in run))
        for one in self.derived.values():
            if one.name in needed or any(
                one.name in self.view.names(d.value) for d in self.derived.values() if d.value
            ):
                value = self.view.written(one.value) if one.value is not None else ""
                lines.append(
                    f"{one.type} {one.stars}{one.name} = {renamed(value, {self.row.name: names[self.row.name]})};"
                )
        for node in run:
            found = [(i, f"{self.view.written(i)} + {offset}") for i in self._row_indices(node)]
            lines.append(self.style.code(renamed(substituted(self.view, node, found), names)))
        inner = "\n".join(lines)
        if self.limit and any(self.view.space(e) == "global" for n in run for e in self.view.elements(n)):
            test = f"if ({self.row.name} + {offset} < {self.limit})"
            inner = f"{test} {{\n{indented(inner)}\n}}" if "\n" in inner else f"{test} {inner}"
        head = (
            f"#pragma unroll\nfor (int {self.counter} = 0; {self.counter} < {self.rows}; ++{self.counter}) {{"
        )
        return "\n".join([head, indented(inner), "}"])

    def _row_indices(self, node: Node) -> list[Node]:
        """The indices, in uses of the rows' tiles, that are the thread's row."""
        found = []
        for element in self.view.elements(node):
            name = self.view.array(element)
            if name not in self.tiles:
                continue
            index = _indices(element)[self.tiles[name]]
            if not self._is_thread_row(index):
                raise Refused(f"{name} is read at another row than the thread's")
            found.append(index)
        return found


def _plain(view: View, node: Node) -> list[Declared]:
    try:
        return declared_in(view, node)
    except Refused:
        return []


def _indices(place: Node) -> list[Node]:
    """The indices of `tile[i][j]`, outermost first."""
    found: list[Node] = []
    current: Node | None = place
    while current is not None and current.type == "subscript_expression":
        found += field(current, "indices").named_children[:1]
        current = current.child_by_field_name("argument")
    return found[::-1]


def _around(view: View, node: Node) -> str:
    """The code of the statement around an access, and of the conditions around that."""
    parts: list[str] = []
    outer: Node | None = node
    while outer is not None and outer.start_byte >= view.body.start_byte:
        if outer.type in ("expression_statement", "declaration"):
            parts.append(view.code(outer))
        if outer.type == "if_statement":
            parts.append(view.code(field(outer, "condition")))
        outer = outer.parent
    return " ".join(parts)


def _guards(view: View, node: Node) -> frozenset[str]:
    """Names in the conditions around a statement."""
    found: frozenset[str] = frozenset()
    outer = node.parent
    while outer is not None and outer.start_byte >= view.body.start_byte:
        if outer.type == "if_statement":
            found |= view.names(field(outer, "condition"))
        outer = outer.parent
    return found


REWRITE = Rewrite(
    slug="coarsen-tile",
    title="Compute several rows of a tile a thread",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "low-ilp", "barrier-heavy"),
    useless_at="dram",
)
