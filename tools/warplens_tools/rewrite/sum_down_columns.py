# SPDX-License-Identifier: Apache-2.0
"""sum-down-columns

Let each thread go down several rows of its column before an atomic goes to memory.

Sums of columns, one atomic for each element, send as many atomics to one address as there are rows. A thread that goes
down its column keeps the sum in a register, as neighbours along `x` load side by side as before, and sends one.

```cuda
__global__ void bias_gradient(const float* dy, const float* gate, float* dx, float* dbias, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float share = gate[col];
  float grad = dy[row * cols + col] * share;
  dx[row * cols + col] = grad;
  atomicAdd(&dbias[col], grad);
}
void run(const float* dy, const float* gate, float* dx, float* dbias, int rows, int cols) {
  bias_gradient<<<dim3((cols + 31) / 32, (rows + 7) / 8), dim3(32, 8)>>>(dy, gate, dx, dbias, rows, cols);
}
```

```cuda
constexpr int kItemsPerThread = 32;  // rows

__global__ void bias_gradient(const float* dy, const float* gate, float* dx, float* dbias, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float share = gate[col];
  float partial = 0.0f;
  for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += blockDim.y * gridDim.y) {
    float grad = dy[row * cols + col] * share;
    dx[row * cols + col] = grad;
    partial += grad;
  }
  atomicAdd(&dbias[col], partial);
}
void run(const float* dy, const float* gate, float* dx, float* dbias, int rows, int cols) {
  bias_gradient<<<dim3((cols + 31) / 32, ((rows + 7) / 8 + kItemsPerThread - 1) / kItemsPerThread), dim3(32, 8)>>>(dy, gate, dx, dbias, rows, cols);
}
```

It takes what [reduce-before-atomic](reduce-before-atomic.md) takes of atomics, on places that the column says and the
row does not; several of them too.
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.atomics import Atomic
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.guarded_head import guarded_head
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis
from warplens_tools.rewrite.common.reading import View, has_barrier, refusing
from warplens_tools.rewrite.common.strided import Replacement, Strided
from warplens_tools.rewrite.common.style import indented
from warplens_tools.rewrite.reduce_before_atomic import atomics_of
from warplens_tools.text import TextEdit

#: Rows of a thread: a thirty-second of the atomics, and still blocks enough for a card on thousands of rows.
_ROWS, _LONG_ROWS = 32, 8


def _apply(view: View, target: Target) -> RewriteResult:
    if has_barrier(view):
        raise Refused("the threads of a block work together already")
    atomics = atomics_of(view, target)
    writer = _Writer(view, Launches(view.text, view.model, view.kernel))
    for atomic in atomics:
        writer.check_columns_own(atomic)
    is_long = any(n.type in LOOPS for w in writer.outputs.work for n in walk(w))
    rows = _LONG_ROWS if is_long else _ROWS
    edit = writer.body(atomics)
    writer.relaunch(writer.style.constant("kItemsPerThread", str(rows), "rows"))
    is_exact = not any(a.type in ("float", "double") for a in atomics)
    return writer.result(edit, "Sum down columns before the atomic", "" if is_exact else REORDERED)


class _Writer(Strided):
    """The kernel with threads that stride over rows."""

    def __init__(self, view: View, launches: Launches) -> None:
        super().__init__(view, launches)
        if self.axis is None or self.axis.letter != "y" or len(self.outputs.axes) == 1:
            raise Refused("its outputs do not lie in rows and columns")
        self.row: Axis = self.axis
        self.others = [a for a in self.outputs.axes if a.name != self.row.name]
        if any(a.name in self._changed for a in self.outputs.axes):
            raise Refused("the output's number changes")

    def check_columns_own(self, atomic: Atomic) -> None:
        """Raises `Refused` where a place is not the same for all rows of a column."""
        view, names = self.view, self.view.names(atomic.target)
        known = view.parameters | {c.name for c in view.model.constants} | {a.name for a in self.others}
        known |= {d.name for d in self.outputs.declared if self._is_top(d)}
        on = self.outputs.resting(names)
        if names - known or names & self._changed or not on or not on <= {a.name for a in self.others}:
            raise Refused("the atomics of a column's rows do not all go to one place")
        if "[" in view.code(atomic.target).partition("[")[2]:
            raise Refused("data say where an atomic goes")
        inside = {n.id for s in atomic.statements for n in walk(s)}
        if any(view.array(e) in names and e.id not in inside for e in view.elements(view.body)):
            raise Refused("it reads or writes what it sums otherwise, too")

    def _last(self, atomic: Atomic, name: str) -> str:
        """The one atomic of a thread; none where no condition let it have a value, for its place may be nobody's."""
        own = {n.id for n in self.outputs.work}
        is_certain = not self.outputs.others and any(s.id in own for s in atomic.statements)
        test = "" if is_certain else f"if ({name} != {atomic.neutral()}) "
        return f"{test}{atomic.name}({self.view.written(atomic.target)}, {name});"

    def body(self, atomics: list[Atomic]) -> TextEdit:
        """The edit of the kernel's body."""
        view, row = self.view, self.row
        names = [self.style.local("partial") for _ in atomics]
        replaced = list[Replacement]()
        for atomic, name in zip(atomics, names, strict=True):
            for statement, value in zip(atomic.statements, atomic.values, strict=True):
                replaced.append((statement, atomic.joined(name, view.written(value))))
        absent = [f"{a.name} >= {a.limit}" for a in self.others if a.limit]
        absent += [f"!({c})" for c in self.outputs.uniform]
        top = [d for d in self.outputs.declared if self._is_top(d)]
        inner = "\n".join(self.style.code(self._text(n, replaced)) for n in self.outputs.work)
        if self.outputs.others:
            inner = f"if ({' && '.join(self.outputs.others)}) {{\n{indented(inner)}\n}}"
        below = [self._declaration(d) for d in self.outputs.declared if not self._is_top(d)]
        first = f"{unqualified(row.type)} {row.name} = {row.value}"
        lines = [
            *guarded_head(view, self.others, top, absent),
            *(f"{a.type} {n} = {a.neutral()};" for a, n in zip(atomics, names, strict=True)),
            f"for ({first}; {row.name} < {row.limit}; {row.name} += blockDim.y * gridDim.y) {{",
            indented("\n".join([*below, inner])),
            "}",
            *(self._last(a, n) for a, n in zip(atomics, names, strict=True)),
        ]
        newline = view.text.newline
        text = f"{{{newline}{self.style.lines(chr(10).join(lines))}{newline}{self.style.margin}}}"
        return TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)


REWRITE = Rewrite(
    slug="sum-down-columns",
    title="Sum down columns before the atomic",
    apply=refusing(_apply),
    answers=("global-atomic-contention",),
    chance=0.7,
    gain=8.0,
    ranges={"kItemsPerThread": (4, 8, 16, 32, 64, 128)},
)
