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
  if (d0 + kVector <= dim && dim % kVector == 0 && reinterpret_cast<size_t>(table) % 16 == 0) {
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
    #pragma unroll
    for (int o = 0; o < kVector; ++o) {
      int d = d0 + o;
      out[bag * dim + d] = sum[o];
    }
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

Rows that do not begin at a whole vector, and columns that do not fill one, are walked one by one. Left alone: loops
whose length differs from column to column, that are left early, or that store; and windows, whose columns slide.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.carried import Carried
from warplens_tools.rewrite.common.declared import declared_in, unqualified
from warplens_tools.rewrite.common.launches import Launch, Launches, rounded_up
from warplens_tools.rewrite.common.outputs import Axis, Outputs, head_of, launched_outputs
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    operator_of,
    refusing,
    renamed,
    shares_memory,
    squeezed,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import indented
from warplens_tools.rewrite.several_outputs import OutputsWriter
from warplens_tools.text import TextEdit

_WIDEST = 16
_VECTORS = {("float", 4): "float4", ("float", 2): "float2", ("int", 4): "int4", ("double", 2): "double2"}
_BY_BYTES = {16: "uint4", 8: "uint2", 4: "unsigned int"}
#: The row of a thread, as axes along y number it.
_ROW = ("blockIdx.y*blockDim.y+threadIdx.y", "threadIdx.y+blockIdx.y*blockDim.y")
_NAME = re.compile(r"[A-Za-z_]\w*")


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
    if not any(n.type == "for_statement" and not stores(view, n) for n in outputs.work):
        raise Refused("no loop works out an output")
    return _Writer(view, outputs, launches, is_strided=is_strided).result()


class _Writer(OutputsWriter):
    """The kernel with neighbouring columns a thread."""

    def __init__(self, view: View, outputs: Outputs, launches: Launches, *, is_strided: bool) -> None:
        self.vector, self.wide, self.is_strided = 0, dict[int, tuple[str, ...]](), is_strided
        super().__init__(view, outputs, launches, axis=next(a for a in outputs.axes if a.letter == "x"))
        self.limit = self.axis.limit

    def counted(self) -> str:
        #: Elements that a thread has side by side, each with what has to divide by the vector's length.
        self.wide = {e.id: checks for n in self.outputs.work for e, checks in self._columns(n)}
        if not self.wide:
            raise Refused("no loop reads columns side by side")
        size = max(type_bytes(self.view.concrete(self.view.element(e))) or 4 for e in self._found())
        self.vector = max(_WIDEST // size, 2)
        return self.style.constant("kVector", str(self.vector), f"columns of a thread, up to {_WIDEST} bytes")

    def _found(self) -> Iterator[Node]:
        for work in self.outputs.work:
            yield from (e for e in self.view.elements(work) if e.id in self.wide)

    def _columns(self, work: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
        """The elements of a loop that neighbouring threads read side by side."""
        view = self.view
        if work.type != "for_statement":
            return
        for element in view.elements(work):
            pointer = view.place(element)
            offset = pointer.traced if pointer is not None else None
            rests = self.axis.name in self.outputs.resting(view.names(element))
            if pointer is None or not rests:
                continue
            if element.type != "subscript_expression" or offset is None or pointer.space != "global":
                raise Refused("data say what of a column is read")
            index = field(element, "indices").named_children[0]
            checks = self._checks(index) if offset.coefficient("threadIdx.x") == 1 else None
            size = type_bytes(view.concrete(pointer.element_type))
            if (
                checks is None
                or size is None
                or size > 8
                or not view.is_plain(element)
                or self._is_guarded(element, work)
            ):
                raise Refused("columns are not read side by side in whole vectors")
            yield element, checks

    def _is_guarded(self, node: Node, work: Node) -> bool:
        """Whether a condition says that an element is read."""
        outer = node.parent
        while outer is not None and outer.id != work.id:
            if outer.type in ("if_statement", "conditional_expression", "while_statement", "do_statement"):
                return True
            outer = outer.parent
        return False

    def _checks(self, index: Node) -> tuple[str, ...] | None:
        """What the vector's length has to divide so that an index begins at a whole vector; None where nothing says."""
        found, own = set[str](), 0
        for term in _terms(unwrapped(index)):
            if squeezed(self.view.code(term)) == self.axis.name:
                own += 1
                continue
            factor = next((f for f in _factors(term) if self._is_kept(f)), None)
            if factor is None:
                return None
            found.add(self.view.code(factor))
        return tuple(sorted(found)) if own == 1 else None

    def _is_kept(self, node: Node) -> bool:
        """Whether an expression is a number or a name of which nothing changes in the kernel."""
        code, view = self.view.code(node), self.view
        value = view.value(node)
        if value is not None:
            return value % _WIDEST == 0 or _NAME.fullmatch(code) is not None
        return code in view.parameters and code not in {name for name, _ in assigned(view.body, view)}

    # what is written

    def result(self) -> RewriteResult:
        """All edits."""
        view, newline = self.view, self.view.text.newline
        alone = self._alone()
        inner = "\n".join(n for n in self.work() if n)
        lines = [
            self._top(),
            self._first(),
            f"if ({self._whole()}) {{",
            indented(inner),
            "} else {",
            indented(alone),
            "}",
        ]
        body = self.style.lines("\n".join(n for n in lines if n))
        text = f"{{{newline}{body}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        self._relaunch()
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title=f"Walk {self.vector} columns a thread")

    def _whole(self) -> str:
        """Whether all of a thread's columns are there, and lie in whole vectors."""
        tests = [f"{self.first} + {self.count} <= {self.limit}"]
        tests += [
            f"{name} % {self.count} == 0"
            for name in sorted({n for c in self.wide.values() for n in c})
            if not name.isdigit()
        ]
        bases = {self.view.code(self._base(e)): self._bytes(e) for e in self._found()}
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

    def _end(self, node: Node) -> str:
        text = self.style.code(renamed(self.view.written(node), self.instances))
        return self._each(self._with(self.view.names(node), text, Carried()))

    def _run(self, run: list[Node], carried: Carried) -> str:
        found = [e for n in run for e in self.view.elements(n) if e.id in self.wide]
        if not found:
            return super()._run(run, carried)
        loads, parts = list[str](), dict[str, str]()
        once, run = self._alike(run, found, carried)
        for element in found:
            written = self.view.written(element)
            if written in parts:
                continue
            kind = self.view.element(element)
            part = parts[written] = self.style.local(f"{self.view.array(element)}Part")
            wide = _VECTORS.get((kind, self.vector)) or _BY_BYTES.get(self._bytes(element))
            if wide is None or carried.skips or carried.tests:
                raise Refused("columns are not read side by side in whole vectors")
            place = renamed(written, {self.axis.name: self.first})
            loads.append(f"alignas({self._bytes(element)}) {kind} {part}[{self.count}];")
            loads.append(f"*reinterpret_cast<{wide}*>({part}) = *reinterpret_cast<const {wide}*>(&{place});")
        text = "\n".join(self.style.code(renamed(self._narrow(n, parts), self.instances)) for n in run)
        names = frozenset[str]().union(*(self.view.names(n) for n in run))
        return "\n".join([*once, *loads, self._each(self._with(names, text, carried))])

    def _alike(
        self, run: list[Node], found: Sequence[Node], carried: Carried
    ) -> tuple[list[str], list[Node]]:
        """The declarations that the run begins with and that are the same for all columns, and the rest of it.

        Raises:
            Refused: what a vector is loaded from is declared for each column.
        """
        once = list[str]()
        while run and run[0].type == "declaration":
            every = declared_in(self.view, run[0])
            names = frozenset[str]().union(*(self.view.names(d.value) for d in every if d.value is not None))
            if self._rests(names, carried):
                break
            once.append(self.style.code(self.view.written(run[0])))
            run = run[1:]
        own = {d.name for n in run if n.type == "declaration" for d in declared_in(self.view, n)}
        if any(self.view.names(e) & own for e in found):
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
            if self.is_strided:
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
        """A thread for each vector where threads strode over columns, however many of them there were."""
        columns, threads = launch.site.block_value[:2]
        if not columns or not threads or columns % self.vector:
            raise Refused("how many threads a block has is not known")
        across = host_text(self.view, self.launches, launch, self.limit)
        if down is None:
            self.launches.set(launch.grid, {0: rounded_up(across, f"({columns} * {self.count})")})
            return
        rows = host_text(self.view, self.launches, launch, down.limit)
        self._several_rows(launch, columns, threads)
        grid = {0: rounded_up(across, str(columns)), 1: rounded_up(rows, f"({threads} * {self.count})")}
        self.launches.set(launch.grid, grid)


def _terms(node: Node) -> Iterator[Node]:
    """What an index adds up."""
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == "+":
        yield from _terms(field(node, "left"))
        yield from _terms(field(node, "right"))
    else:
        yield node


def _factors(node: Node) -> Iterator[Node]:
    """What a term multiplies."""
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == "*":
        yield from _factors(field(node, "left"))
        yield from _factors(field(node, "right"))
    elif node.type == "cast_expression":
        yield from _factors(field(node, "value"))
    else:
        yield node


REWRITE = Rewrite(
    slug="columns-in-vectors",
    title="Let each thread walk several neighbouring columns in vectors",
    apply=refusing(_apply),
    answers=("scalar-access", "low-ilp", "element-gathers"),
    chance=0.4,
    gain=1.7,
    ranges={"kVector": ()},
)
