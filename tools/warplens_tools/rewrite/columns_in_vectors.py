# SPDX-License-Identifier: Apache-2.0
"""columns-in-vectors

Let each thread walk several neighbouring columns, loaded in vectors of 8 or 16 bytes.

Where neighbouring threads have neighbouring columns, features or channels, and each walks rows that it adds up, a warp
loads one line an instruction, and has one load under way for each sum. With four columns a thread it loads four times
as much with one instruction, works out once which row it is, and has four sums under way.

```cuda
__global__ void bags(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  int d = blockIdx.x * blockDim.x + threadIdx.x;
  int bag = blockIdx.y * blockDim.y + threadIdx.y;
  if (d >= dim || bag >= count) return;
  float sum = 0.0f;
  for (int p = ends[bag]; p < ends[bag + 1]; ++p) sum += table[ids[p] * dim + d];
  out[bag * dim + d] = sum;
}
void run(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  bags<<<dim3((dim + 31) / 32, (count + 7) / 8), dim3(32, 8)>>>(table, ids, ends, out, count, dim);
}
```

```cuda
constexpr int kVector = 4;  // columns of a thread, up to 16 bytes

__global__ void bags(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  int bag = blockIdx.y * blockDim.y + threadIdx.y;
  if (bag >= count) return;
  const int d0 = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (d0 + kVector <= dim && dim % kVector == 0 && reinterpret_cast<size_t>(out) % 16 == 0 && reinterpret_cast<size_t>(table) % 16 == 0) {
    float sum[kVector] = {};
    for (int p = ends[bag]; p < ends[bag + 1]; ++p) {
      alignas(16) float tablePart[kVector];
      *reinterpret_cast<float4*>(tablePart) = *reinterpret_cast<const float4*>(&table[ids[p] * dim + d0]);
      #pragma unroll
      for (int o = 0; o < kVector; ++o) {
        int d = d0 + o;
        sum[o] += tablePart[o];
      }
    }
    alignas(16) float outPart[kVector];
    #pragma unroll
    for (int o = 0; o < kVector; ++o) {
      int d = d0 + o;
      outPart[o] = sum[o];
    }
    *reinterpret_cast<float4*>(&out[bag * dim + d0]) = *reinterpret_cast<const float4*>(outPart);
  } else {
    for (int d = d0; d < dim && d < d0 + kVector; ++d) {
      float sum = 0.0f;
      for (int p = ends[bag]; p < ends[bag + 1]; ++p) sum += table[ids[p] * dim + d];
      out[bag * dim + d] = sum;
    }
  }
}
void run(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  bags<<<dim3((dim + 31) / 32, ((count + 7) / 8 + kVector - 1) / kVector), dim3(32 / kVector, 8 * kVector)>>>(table, ids, ends, out, count, dim);
}
```

Rows that do not begin at a whole vector, and columns that do not fill one, are walked one by one. A loop may store its
column as it walks, as a softmax over channels does. Left alone: loops whose length differs from column to column, or
that are left early; and windows, whose columns slide.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.carried import Carried
from warplens_tools.rewrite.common.column_places import WIDEST, ColumnReader, vector_type
from warplens_tools.rewrite.common.declared import declared_in, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.launches import Launch, Launches, rounded_up
from warplens_tools.rewrite.common.outputs import Axis, Outputs, head_of, launched_outputs
from warplens_tools.rewrite.common.outputs_writer import OutputsWriter
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    field,
    refusing,
    renamed,
    shares_memory,
    squeezed,
    statements,
    stores,
)
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import indented
from warplens_tools.text import TextEdit

#: Columns and rows of a block whose size only the run says.
_BLOCK = (32, 8)
#: The row of a thread, as axes along y number it.
_ROW = ("blockIdx.y*blockDim.y+threadIdx.y", "threadIdx.y+blockIdx.y*blockDim.y")


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if shares_memory(view):
        raise Refused("the threads of a block work together already")
    launches, outputs = launched_outputs(view)
    axis = next((a for a in outputs.axes if a.letter == "x"), None)
    is_strided = axis is None
    if is_strided:
        launches, outputs = launched_outputs(view, strided=True)
        axis = next((a for a in outputs.axes if a.letter == "x"), None)
    if axis is None or not axis.limit or not axis.value or axis.offset or outputs.early or outputs.others:
        raise Refused("no column of its own is walked by each thread")
    if not any(n.type == "for_statement" for n in outputs.work):
        raise Refused("no loop works out an output")
    return ColumnsWriter(view, outputs, launches, is_strided=is_strided).result()


class ColumnsWriter(OutputsWriter):
    """The kernel with neighbouring columns a thread."""

    def __init__(self, view: View, outputs: Outputs, launches: Launches, *, is_strided: bool) -> None:
        self.vector, self.wide, self.is_strided = 0, dict[int, tuple[str, ...]](), is_strided
        super().__init__(view, outputs, launches, axis=next(a for a in outputs.axes if a.letter == "x"))
        self.limit = self.axis.limit

    def counted(self) -> str:
        """The constant that says how many, once it is known which elements lie side by side."""
        reader = ColumnReader(self.view, self.outputs, self.axis)
        #: Elements that a thread has side by side, each with what has to divide by the vector's length.
        self.wide = {e.id: checks for n in self.outputs.work for e, checks in reader.columns(n)}
        if not self.wide:
            raise Refused("no loop reads columns side by side")
        size = max(type_bytes(self.view.concrete(self.view.element(e))) or 4 for e in self._found())
        self.vector = max(WIDEST // size, 2)
        every = (s for n in self.outputs.work for s in _assigning(n))
        self.stored = {n.id: found for n in every for found in reader.stored(n, self.vector)}
        if not any(n.type == "for_statement" and self._is_joint(n) for n in self.outputs.work):
            raise Refused("no loop works out an output")
        return self.style.constant("kVector", str(self.vector), f"columns of a thread, up to {WIDEST} bytes")

    def _found(self) -> Iterator[Node]:
        for work in self.outputs.work:
            yield from (e for e in self.view.elements(work) if e.id in self.wide)

    # what is written

    def result(self) -> RewriteResult:
        """All edits."""
        view, newline = self.view, self.view.text.newline
        lines = [self._top(), self._first(), self.in_vectors()]
        body = self.style.lines("\n".join(n for n in lines if n))
        text = f"{{{newline}{body}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        self._relaunch()
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title=f"Walk {self.vector} columns a thread")

    def in_vectors(self) -> str:
        """The columns of a thread from its first one, side by side where all are there, else one by one."""
        alone = self._alone()
        inner = "\n".join(n for n in self.work() if n)
        return "\n".join([f"if ({self._whole()}) {{", indented(inner), "} else {", indented(alone), "}"])

    def _whole(self) -> str:
        """Whether all of a thread's columns are there, and lie in whole vectors."""
        tests = [f"{self.first} + {self.count} <= {self.limit}"]
        stored = list(self.stored.values())
        names = {n for checks in (*self.wide.values(), *(c for _, c, _ in stored)) for n in checks}
        tests += [f"{name} % {self.count} == 0" for name in sorted(names) if not name.isdigit()]
        elements = [*self._found(), *(e for e, _, _ in stored)]
        bases = {self.view.code(self._base(e)): self._bytes(e) for e in elements}
        if set(bases) & {d.name for d in self.states}:
            raise Refused("each column has a pointer of its own")
        own = {
            d.name
            for work in self.outputs.work
            for n in walk(work)
            if n.type == "declaration"
            for d in plainly_declared_in(self.view, n)
        }
        if any(self.view.names(self._base(e)) & own for e in elements):
            raise Refused("a loop counts the rows that its vectors lie in")
        tests += [f"reinterpret_cast<size_t>({base}) % {size} == 0" for base, size in sorted(bases.items())]
        return " && ".join(tests)

    def _base(self, element: Node) -> Node:
        return field(element, "argument")

    def _bytes(self, element: Node) -> int:
        return self.vector * (type_bytes(self.view.concrete(self.view.element(element))) or 4)

    def _alone(self) -> str:
        """The columns one by one."""
        name, own = self.axis.name, {a.name for a in self.outputs.axes}
        kept = [
            d
            for d in self.outputs.declared
            if d.name not in own and (name in self.outputs.rests[d.name] or d in self.states)
        ]
        lines = head_of(self.view, [], kept)
        lines += [self.style.code(self.view.written(n)) for n in self.outputs.work]
        ends = f"{name} < {self.limit} && {name} < {self.first} + {self.count}"
        head = f"for ({unqualified(self.axis.type)} {name} = {self.first}; {ends}; ++{name}) {{"
        return "\n".join([head, indented("\n".join(lines)), "}"])

    def _first(self) -> str:
        kind = unqualified(self.axis.type)
        return f"const {kind} {self.first} = {self.count} * ({self.axis.value});"

    def _index(self) -> str:
        return f"{self.first} + {self.counter}"

    def _with(self, names: frozenset[str], inner: str, carried: Carried, *, clamped: bool = True) -> str:
        del clamped
        return super()._with(names, inner, carried, clamped=False)

    def _is_joint(self, loop: Node) -> bool:
        """Also a loop that stores columns alone."""
        columns = {element.id for element, _, _ in self.stored.values()}
        return all(element.id in columns for element in stores(self.view, loop))

    def _end(self, node: Node) -> str:
        if node.id in self.stored:
            return self._end_in_vectors(node)
        text = self.style.code(renamed(self.view.written(node), self.instances))
        return self._each(self._with(self.view.names(node), text, Carried()))

    def _end_in_vectors(self, node: Node) -> str:
        """The columns' results one after another, and one store for all of them."""
        element, _, wide = self.stored[node.id]
        kind, written = self.view.element(element), self.view.written(element)
        part = self.style.local(f"{self.view.array(element)}Part")
        value = self.view.written(field(node.named_children[0], "right"))
        text = f"{part}[{self.counter}] = {self.style.code(renamed(value, self.instances))};"
        place = renamed(written, {self.axis.name: self.first})
        return "\n".join(
            [
                f"alignas({self._bytes(element)}) {kind} {part}[{self.count}];",
                self._each(self._with(self.view.names(node), text, Carried())),
                f"*reinterpret_cast<{wide}*>(&{place}) = *reinterpret_cast<const {wide}*>({part});",
            ]
        )

    def _run(self, run: list[Node], carried: Carried) -> str:
        targets = {e.id for n in run if n.id in self.stored for e in self.stored[n.id][:1]}
        found = [e for n in run for e in self.view.elements(n) if e.id in self.wide and e.id not in targets]
        if not found and not targets:
            return super()._run(run, carried)
        loads, ends, parts = list[str](), list[str](), dict[str, str]()
        once, run = self._alike(run, found, carried)
        stored = [self.stored[n.id][0] for n in run if n.id in self.stored]
        self._check_read(found, stored)
        for element in (*found, *stored):
            written = self.view.written(element)
            wide = vector_type(self.view.element(element), self._bytes(element) // self.vector, self.vector)
            if wide is None or carried.skips or carried.tests:
                raise Refused("columns are not read side by side in whole vectors")
            place = renamed(written, {self.axis.name: self.first})
            is_new = written not in parts
            part = parts.setdefault(written, "") or self.style.local(f"{self.view.array(element)}Part")
            parts[written] = part
            if is_new:
                kind = self.view.element(element)
                loads.append(f"alignas({self._bytes(element)}) {kind} {part}[{self.count}];")
            if element.id in targets:
                ends.append(
                    f"*reinterpret_cast<{wide}*>(&{place}) = *reinterpret_cast<const {wide}*>({part});"
                )
            elif is_new:
                loads.append(
                    f"*reinterpret_cast<{wide}*>({part}) = *reinterpret_cast<const {wide}*>(&{place});"
                )
        text = "\n".join(self.style.code(renamed(self._narrow(n, parts), self.instances)) for n in run)
        names = frozenset[str]().union(*(self.view.names(n) for n in run))
        return "\n".join([*once, *loads, self._each(self._with(names, text, carried)), *ends])

    def _check_read(self, found: Sequence[Node], stored: Sequence[Node]) -> None:
        """Raises `Refused` where a step may read what it has just stored by another name."""
        written = {self.view.array(e): self.view.written(e) for e in stored}
        if len(written) < len(stored):
            raise Refused("a step stores several elements of an array")
        if any(
            written.get(self.view.array(e), text) != text for e in found for text in [self.view.written(e)]
        ):
            raise Refused("a step reads other elements of what it stores")

    def _alike(
        self, run: list[Node], found: Sequence[Node], carried: Carried
    ) -> tuple[list[str], list[Node]]:
        """The declarations and the conditions to go on that the run begins with and that are the same for all columns,
        and the rest of it.

        Raises:
            Refused: what a vector is loaded from is declared for each column, or read for some of them.
        """
        once = list[str]()
        while run and (run[0].type == "declaration" or _skips(run[0])):
            every = declared_in(self.view, run[0]) if run[0].type == "declaration" else []
            names = frozenset[str]().union(*(self.view.names(d.value) for d in every if d.value is not None))
            if self._rests(names if every else self.view.names(run[0]), carried):
                break
            once.append(self.style.code(self.view.written(run[0])))
            run = run[1:]
        own = {d.name for n in run if n.type == "declaration" for d in declared_in(self.view, n)}
        if any(self.view.names(e) & own for e in found) or any(n.type in JUMPS for s in run for n in walk(s)):
            raise Refused("columns are not read side by side in whole vectors")
        return once, run

    def _narrow(self, node: Node, parts: dict[str, str]) -> str:
        """A statement with the vectors' elements in place of the columns'."""
        text = self.view.written(node)
        for written, part in parts.items():
            text = text.replace(written, f"{part}[{self.counter}]")
        return text

    def _relaunch(self) -> None:
        down = next(
            (a for a in self.outputs.axes if a.letter == "y" and a.limit and squeezed(a.value) in _ROW), None
        )
        for launch in self.launches.read():
            columns, threads = launch.site.block_value[:2]
            said = launch.grid.axis(0) + launch.grid.axis(1)
            if self.is_strided or (down is not None and not (columns and threads)):
                self._grid_by_limits(launch, down)
            # a grid that is said by the block's own extents would change with them
            elif down and columns and threads and columns % self.vector == 0 and "." not in said:
                self._several_rows(launch, columns, threads)
                self.launches.set(launch.grid, {1: rounded_up(launch.grid.axis(1), self.count)})
            else:
                self.launches.set(launch.grid, {0: rounded_up(launch.grid.axis(0), self.count)})

    def _several_rows(self, launch: Launch, columns: int, threads: int) -> None:
        self.launches.set(launch.block, {0: f"{columns} / {self.count}", 1: f"{threads} * {self.count}"})

    def _grid_by_limits(self, launch: Launch, down: Axis | None) -> None:
        """A thread for each vector where threads strode over columns, or nothing says how many a block has."""
        columns, threads = launch.site.block_value[:2]
        if not columns or not threads:
            columns, threads = _BLOCK
        if columns % self.vector:
            raise Refused("a block has no whole vectors of columns")
        across = host_text(self.view, self.launches, launch, self.limit)
        if down is None:
            self.launches.set(launch.block, {0: str(columns)})
            self.launches.set(launch.grid, {0: rounded_up(across, f"({columns} * {self.count})")})
            return
        rows = host_text(self.view, self.launches, launch, down.limit)
        self._several_rows(launch, columns, threads)
        grid = {0: rounded_up(across, str(columns)), 1: rounded_up(rows, f"({threads} * {self.count})")}
        self.launches.set(launch.grid, grid)


def _assigning(work: Node) -> Iterator[Node]:
    """A statement of the work, or those of a loop, and of loops in it, that no condition leaves out."""
    if work.type == "for_statement":
        for inner in statements(field(work, "body")):
            yield from _assigning(inner)
    else:
        yield work


def _skips(node: Node) -> bool:
    """Whether a statement is `if (outside) continue;`."""
    then = node.child_by_field_name("consequence")
    inside = statements(then) if then is not None and node.child_by_field_name("alternative") is None else []
    return len(inside) == 1 and inside[0].type == "continue_statement"


REWRITE = Rewrite(
    slug="columns-in-vectors",
    title="Let each thread walk several neighbouring columns in vectors",
    apply=refusing(_apply),
    answers=("scalar-access", "low-ilp", "element-gathers"),
    chance=0.4,
    gain=1.7,
    ranges={"kVector": ()},
)
