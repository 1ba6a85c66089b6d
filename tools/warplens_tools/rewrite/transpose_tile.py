# SPDX-License-Identifier: Apache-2.0
"""transpose-tile

Turn data in shared memory, so that both its reads and its writes are coalesced.

Where neighbouring threads read neighbours of a row and write neighbours of a column, one of the two takes a sector
of 32 bytes for each element of 4. A block can read a square tile along its rows, keep it in shared memory, and write
it along its columns. One more element a row of the tile keeps the columns in different banks.

```cuda
__global__ void transpose(float* out, const float* in, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    out[x * height + y] = in[y * width + x];
  }
}
void run(float* out, const float* in, int width, int height) {
  dim3 block(16, 16), grid((width + 15) / 16, (height + 15) / 16);
  transpose<<<grid, block>>>(out, in, width, height);
}
```

```cuda
constexpr int kTile = 32;  // rows and columns of a tile
constexpr int kTileRows = 8;  // of them at a time

__global__ void transpose(float* out, const float* in, int width, int height) {
  __shared__ float tile[kTile][kTile + 1];
  const int x0 = blockIdx.x * kTile;
  const int y0 = blockIdx.y * kTile;
  for (int r = threadIdx.y; r < kTile; r += kTileRows) {
    int x = x0 + threadIdx.x;
    int y = y0 + r;
    if (x < width && y < height) tile[r][threadIdx.x] = in[y * width + x];
  }
  __syncthreads();
  for (int r = threadIdx.y; r < kTile; r += kTileRows) {
    int y = y0 + threadIdx.x;
    int x = x0 + r;
    if (x < width && y < height) out[x * height + y] = tile[threadIdx.x][r];
  }
}
void run(float* out, const float* in, int width, int height) {
  dim3 block(kTile, kTileRows), grid((width + kTile - 1) / kTile, (height + kTile - 1) / kTile);
  transpose<<<grid, block>>>(out, in, width, height);
}
```

It takes one store for each thread, of any value that is worked out from what is read along the other axis.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import THREAD, Axis, Outputs, launched_outputs
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    calls,
    field,
    operator_of,
    refusing,
    require_apart,
    stores,
)
from warplens_tools.rewrite.common.sizes import host_text, limit_of
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.thread_forms import places_thread
from warplens_tools.text import TextEdit

#: A tile is as wide as a warp; each thread moves four of its elements, which keeps four loads on the way.
_TILE, _ROWS = 32, 8


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    launches, outputs = launched_outputs(view)
    if len(outputs.axes) != 2 or outputs.early or any(not a.letter for a in outputs.axes):
        raise Refused("its threads are not numbered along two axes")
    store, value = _store(view, outputs)
    writer = _Writer(view, outputs, launches, store, value)
    return writer.result()


def _store(view: View, outputs: Outputs) -> tuple[Node, Node]:
    """The place and the value of the one store."""
    last = outputs.work[-1]
    inner = last.named_children[0] if last.type == "expression_statement" else last
    if inner.type != "assignment_expression" or operator_of(inner) != "=":
        raise Refused("the work does not end with one store")
    every = [s for n in outputs.work for s in stores(view, n)]
    left = field(inner, "left")
    if len(every) != 1 or every[0].id != left.id or any(n.type != "declaration" for n in outputs.work[:-1]):
        raise Refused("the work is more than one store")
    if any(name.startswith(("atomic", "__shfl")) for name, _ in calls(inner, view)):
        raise Refused("the value rests on other threads")
    return left, field(inner, "right")


class _Writer:
    def __init__(self, view: View, outputs: Outputs, launches: Launches, store: Node, value: Node) -> None:
        self.view, self.outputs, self.launches, self.store, self.value = view, outputs, launches, store, value
        self.reading, self.writing = self._lanes()
        place = view.place(store)
        self.type = place.element_type if place is not None else ""
        if not self.type or (type_bytes(view.concrete(self.type)) or 16) > 8:
            raise Refused("the type of what is stored is not known, or wide already")
        self.limits = {a.name: a.limit or limit_of(view, launches, a.letter) for a in outputs.axes}
        style = self.style = Style(view)
        self.tile = style.constant("kTile", str(_TILE), "rows and columns of a tile")
        self.rows = style.constant("kTileRows", str(_ROWS), "of them at a time")
        self.shared, self.counter = style.local("tile"), style.local("r")
        self.first = {a.name: style.local(f"{a.name}0") for a in outputs.axes}

    def _lanes(self) -> tuple[Axis, Axis]:
        """The axis along which what is read lies side by side, and that of what is stored."""
        first, second = self.outputs.axes
        stored = [a for a in (first, second) if self._unit(self.store, a)]
        inside = [self.value, *(n for w in self.outputs.work[:-1] for n in [w])]
        inside += [d.value for d in self.outputs.declared if d.value is not None]
        loads = [e for n in inside for e in self.view.elements(n) if self.view.space(e) == "global"]
        read = [a for e in loads for a in (first, second) if self._unit(e, a)]
        if len(stored) != 1 or not read or stored[0] in read:
            raise Refused("nothing is turned: what is read and what is stored lie along one axis")
        return read[0], stored[0]

    def _unit(self, node: Node, axis: Axis) -> bool:
        place = self.view.place(node)
        return (
            place is not None
            and place.traced is not None
            and place.traced.coefficient(f"threadIdx.{axis.letter}") == 1
        )

    def result(self) -> RewriteResult:
        """All edits."""
        view, newline = self.view, self.view.text.newline
        uniform = [self._declaration(d) for d in self.outputs.declared if not self.outputs.rests[d.name]]
        code = " ".join(view.code(n) for n in self.outputs.work)
        if THREAD in self.outputs.resting(self._used()) or places_thread(code, "xy"):
            raise Refused("the work rests on the thread's place in its block")
        lines = [f"__shared__ {self.type} {self.shared}[{self.tile}][{self.tile} + 1];", *uniform]
        lines += [f"if (!({c})) return;" for c in self.outputs.uniform]
        for axis in self.outputs.axes:
            offset = f" + {axis.offset}" if axis.offset else ""
            lines.append(f"const int {self.first[axis.name]} = blockIdx.{axis.letter} * {self.tile}{offset};")
        row = f"{self.shared}[{self.counter}][threadIdx.x]"
        column = f"{self.shared}[threadIdx.x][{self.counter}]"
        work = [self.style.code(view.written(n)) for n in self.outputs.work[:-1]]
        read = "\n".join([*work, f"{row} = {view.written(self.value)};"])
        lines.append(self._pass(self.reading, read, self._names([*self.outputs.work[:-1], self.value])))
        lines.append("__syncthreads();")
        store = f"{view.written(self.store)} = {column};"
        lines.append(self._pass(self.writing, store, self._names([self.store])))
        body = self.style.lines("\n".join(lines))
        text = f"{{{newline}{body}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        self._relaunch()
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title="Turn the data in a tile of shared memory")

    def _used(self) -> frozenset[str]:
        return self._names(list(self.outputs.work))

    def _names(self, nodes: list[Node]) -> frozenset[str]:
        return frozenset(self.view.code(n) for node in nodes for n in walk(node) if n.type == "identifier")

    def _declaration(self, one: Declared) -> str:
        value = f" = {self.view.written(one.value)}" if one.value is not None else ""
        return f"{one.type} {one.stars}{one.name}{value};"

    def _pass(self, lanes: Axis, inner: str, names: frozenset[str]) -> str:
        """The tile, lanes along one axis and rows along the other."""
        other = next(a for a in self.outputs.axes if a.name != lanes.name)
        head = f"for (int {self.counter} = threadIdx.y; {self.counter} < {self.tile}; {self.counter} += {self.rows}) {{"
        lines = [f"{lanes.type} {lanes.name} = {self.first[lanes.name]} + threadIdx.x;"]
        lines.append(f"{other.type} {other.name} = {self.first[other.name]} + {self.counter};")
        tests = [f"{a.name} < {self.limits[a.name]}" for a in self.outputs.axes] + list(self.outputs.others)
        needed = set(names) | {w for t in self.outputs.others for w in WORD.findall(t)}
        kept: list[str] = []
        for one in reversed(self.outputs.declared):
            if one.name in needed and self.outputs.rests[one.name]:
                kept.append(self._declaration(one))
                needed |= self.view.names(one.value) if one.value is not None else frozenset()
        test = f"if ({' && '.join(tests)})"
        if kept or "\n" in inner:
            lines += [f"{test} {{", *map(indented, kept[::-1]), indented(inner), "}"]
        else:
            lines.append(f"{test} {inner}")
        return "\n".join([head, indented("\n".join(lines)), "}"])

    def _relaunch(self) -> None:
        for launch in self.launches.read():
            grid = {}
            for axis in self.outputs.axes:
                limit = host_text(self.view, self.launches, launch, self.limits[axis.name])
                before = f" - {axis.offset}" if axis.offset else ""
                grid["xyz".index(axis.letter)] = f"({limit}{before} + {self.tile} - 1) / {self.tile}"
            self.launches.set(launch.grid, grid)
            self.launches.set(launch.block, {0: self.tile, 1: self.rows})


REWRITE = Rewrite(
    slug="transpose-tile",
    title="Turn the data in a tile of shared memory",
    apply=refusing(_apply),
    answers=("uncoalesced-global-write", "uncoalesced-global-read"),
    chance=0.6,
    gain=3.0,
    ranges={"kTile": (16, 32, 64), "kTileRows": (4, 8, 16, 32)},
)
