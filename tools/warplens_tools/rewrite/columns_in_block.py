# SPDX-License-Identifier: Apache-2.0
"""columns-in-block

Give a block 32 neighbouring columns instead of one.

A block that walks down one column reads one element of every line that it loads, and its threads wait for as many
lines as they have elements. Of a block with two axes the threads along `x` have neighbouring columns, those along `y`
what a block's threads had before: a warp loads 32 neighbours at once. What the block keeps in shared memory it keeps
for each of its columns.

```cuda
__global__ void column_sum(const float* in, float* out, int rows, int cols) {
  __shared__ float sums[256];
  int col = blockIdx.x, t = threadIdx.x;
  float sum = 0.0f;
  for (int i = t; i < rows; i += blockDim.x) sum += in[i * cols + col];
  sums[t] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (t < s) sums[t] += sums[t + s];
    __syncthreads();
  }
  if (t == 0) out[col] = sums[0];
}
void run(const float* in, float* out, int rows, int cols) {
  column_sum<<<cols, 256>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kColumns = 32;
constexpr int kParts = 32;

__global__ void column_sum(const float* in, float* out, int rows, int cols) {
  if (blockIdx.x * kColumns + threadIdx.x >= cols) return;
  __shared__ float sums[kParts][kColumns];
  int col = blockIdx.x * kColumns + threadIdx.x, t = threadIdx.y;
  float sum = 0.0f;
  for (int i = t; i < rows; i += blockDim.y) sum += in[i * cols + col];
  sums[t][threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.y / 2; s > 0; s /= 2) {
    if (t < s) sums[t][threadIdx.x] += sums[t + s][threadIdx.x];
    __syncthreads();
  }
  if (t == 0) out[col] = sums[0][threadIdx.x];
}
void run(const float* in, float* out, int rows, int cols) {
  column_sum<<<(cols + kColumns - 1) / kColumns, dim3(kColumns, kParts)>>>(in, out, rows, cols);
}
```

Threads beyond the last column leave before the others meet: a barrier waits for those that are still there. Left alone:
kernels whose lanes exchange values, whose blocks have two axes already, whose text says the block's size as a number,
or whose functions number threads themselves, and shared memory whose size the launch says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.reading import View, calls, refusing, squeezed, statements
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.uniform import numbering_functions
from warplens_tools.text import TextEdit

#: A warp's worth of neighbours, and a block of 1024 threads.
_COLUMNS, _PARTS = 32, 32
#: Shared memory that a block has without asking for more.
_SHARED = 48 * 1024
_ALONE = re.compile(
    r"__shfl|__ballot|__any|__all|__reduce|__activemask|__match|warpSize|cooperative_groups|\basm\b|__syncwarp"
    r"|\b(?:threadIdx|blockDim|blockIdx)\s*\.\s*z|\b(?:threadIdx|blockDim)\s*\.\s*y|\bgridDim\s*\.\s*x"
)


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    return _Writer(view).result()


class _Writer:
    def __init__(self, view: View) -> None:
        self.view, self.launches = view, Launches(view.text, view.model, view.kernel)
        self.code = view.code(view.body)
        self.style, self.edits = Style(view), list[TextEdit]()
        self.block = self.launches.block_value(0)
        self.shared = [a for a in view.kernel.arrays if a.space == "shared"]
        self._check()
        self._check_columns()
        self.columns = self.style.constant("kColumns", str(_COLUMNS))
        self.parts = self.style.constant("kParts", str(_PARTS))
        self.column = f"blockIdx.x * {self.columns} + threadIdx.x"

    def _check(self) -> None:
        self.launches.read()
        if _ALONE.search(self.code):
            raise Refused("its blocks have two axes, or its lanes exchange values")
        if any(self.launches.block_value(axis) not in (None, 1) for axis in (1, 2)):
            raise Refused("its blocks have two axes already")
        if self.block is None or self.block < _PARTS:
            raise Refused("its block is not constant, or small")
        if "__syncthreads" not in self.code or not self.shared:
            raise Refused("the threads of a block share nothing")
        if any(not a.extents or not all(a.extents) for a in self.shared) or "extern" in self.code:
            raise Refused("its launches say how much memory a block shares")
        own = numbering_functions(self.view.file)
        if any(name.split("<")[0].rsplit("::", 1)[-1] in own for name, _ in calls(self.view.body, self.view)):
            raise Refused("a function that it calls numbers threads itself")

    def _check_columns(self) -> None:
        """Raises `Refused` where blocks do not walk down neighbouring columns."""
        down = along = 0
        for access in accesses(self.view.file, self.view.kernel):
            form = access.traced
            if form is None or access.space != "global" or not access.loops:
                continue
            by_thread = any(s.mentions("threadIdx.x") for s in form.symbols)
            beside = form.coefficient("threadIdx.x") in (1, -1)
            down += by_thread and not beside and form.coefficient("blockIdx.x") == 1
            along += by_thread and beside and any(s.mentions("blockIdx.x") for s in form.symbols)
        if not down or along:
            raise Refused("its blocks do not walk down columns that are neighbours")

    # writing

    def result(self) -> RewriteResult:
        """All edits."""
        declared = list(self._declare())
        self._number(declared)
        self._share()
        self._guard()
        for launch in self.launches.read():
            self.launches.set(launch.grid, {0: rounded_up(launch.grid.axis(0), self.columns)})
            self.launches.set_whole(launch.block, f"dim3({self.columns}, {self.parts})")
        edits = (self.style.constants(), *self.edits, *self.launches.edits())
        return RewriteResult(edits, title="Give a block 32 neighbouring columns", caveat=REORDERED)

    def _put(self, node: Node, new: str) -> None:
        if not self.view.is_plain_enough(node):
            raise Refused("a macro writes what would have to change")
        self.edits.append(TextEdit(self.view.span(node), new))

    def _behind(self, node: Node, new: str) -> None:
        if not self.view.is_plain_enough(node):
            raise Refused("a macro writes what would have to change")
        at = self.view.end(node)
        self.edits.append(TextEdit(self.view.text.span(at, at), new))

    def _declare(self) -> Iterator[Node]:
        """Give shared arrays an element for each column; the nodes of their extents."""
        names, total = {a.name for a in self.shared}, 0
        for node in walk(self.view.body):
            if node.type != "declaration" or "__shared__" not in self.view.code(node):
                continue
            for declarator in node.children_by_field_name("declarator"):
                sizes, inner = list[Node](), declarator
                while inner.type == "array_declarator":
                    size, below = inner.child_by_field_name("size"), inner.child_by_field_name("declarator")
                    if size is None or below is None:
                        raise Refused("its launches say how much memory a block shares")
                    sizes.append(size)
                    inner = below
                name = self.view.code(inner)
                if inner.type != "identifier" or name not in names | self._scalars(node):
                    raise Refused("its shared memory is declared in a way that is not understood")
                total += self._extent(name, node, sizes)
                self._behind(declarator, f"[{self.columns}]")
                yield from sizes
        if total * _COLUMNS > _SHARED:
            raise Refused("a block would share too much memory")

    def _scalars(self, node: Node) -> set[str]:
        return {
            self.view.code(n) for n in node.children_by_field_name("declarator") if n.type == "identifier"
        }

    def _extent(self, name: str, declaration: Node, sizes: list[Node]) -> int:
        """Bytes for a column; the extent that is the block's becomes the number of parts."""
        kind = declaration.child_by_field_name("type")
        found = type_bytes(self.view.concrete(self.view.code(kind))) if kind is not None else None
        if found is None:
            raise Refused(f"the type of {name} is not known")
        for size in sizes:
            known = self.view.value(size)
            if known is None:
                raise Refused("its shared memory is declared in a way that is not understood")
            if known == self.block:
                self._put(size, self.parts)
            found *= _PARTS if known == self.block else known
        self._sized = {*getattr(self, "_sized", set()), name}
        return found

    def _number(self, sizes: list[Node]) -> None:
        """Write the numbers of threads and blocks anew."""
        within = {n.id for size in sizes for n in walk(size)}
        for node in walk(self.view.body):
            if node.type in ("number_literal", "identifier") and node.id not in within:
                is_size = self.view.value(node) == self.block
                if is_size and not (node.parent is not None and node.parent.type == "field_expression"):
                    raise Refused("its text says the block's size as a number")
            if node.type != "field_expression":
                continue
            written = squeezed(self.view.code(node))
            if written == "threadIdx.x":
                self._put(node, "threadIdx.y")
            elif written == "blockDim.x":
                self._put(node, "blockDim.y")
            elif written == "blockIdx.x":
                whole = node.parent is not None and node.parent.type == "init_declarator"
                self._put(node, self.column if whole else f"({self.column})")

    def _share(self) -> None:
        """Index what is shared by the thread's column, too."""
        extents = {a.name: len(a.extents) for a in self.shared}
        for node in walk(self.view.body):
            name = self.view.code(node) if node.type == "identifier" else ""
            if name not in self._sized or _is_declared(node):
                continue
            at, deep = node, 0
            while at.parent is not None and at.parent.type == "subscript_expression":
                if at.parent.children[0].id != at.id:
                    break
                at, deep = at.parent, deep + 1
            if deep != extents.get(name, 0):
                raise Refused("its shared memory is passed on")
            self._behind(at, "[threadIdx.x]")

    def _guard(self) -> None:
        """Threads beyond the last column leave first."""
        limits = {self._limit(i) for i in range(len(self.launches.read()))}
        if len(limits) != 1:
            raise Refused("nothing says how many columns there are")
        first = statements(self.view.body)[0]
        margin = re.match(r"[ \t]*", self.view.text.line_text(self.view.span(first).line))
        between = self.view.text.newline + (margin[0] if margin is not None else "")
        at = self.view.start(first)
        text = f"if ({self.column} >= {limits.pop()}) return;{between}"
        self.edits.append(TextEdit(self.view.text.span(at, at), text))

    def _limit(self, index: int) -> str:
        """The parameter that has the number of blocks."""
        launch = self.launches.read()[index]
        extent = launch.grid.axis(0).strip()
        for parameter in self.view.kernel.parameters:
            if self.launches.argument(launch, parameter.name).strip() == extent and not parameter.pointer:
                if re.search(rf"\b{parameter.name}\s*(?:[-+*/]?=(?!=)|\+\+|--)", self.code):
                    raise Refused("nothing says how many columns there are")
                return parameter.name
        if re.fullmatch(r"\d+|[A-Z]\w*", extent) and (extent.isdigit() or self._is_constant(extent)):
            return extent
        raise Refused("nothing says how many columns there are")

    def _is_constant(self, name: str) -> bool:
        known = any(c.name == name for c in self.view.model.constants)
        return known or self.view.file.macros.get(name) is not None


def _is_declared(node: Node) -> bool:
    """Whether an identifier is where shared memory gets its name."""
    parent: Node | None = node.parent
    while parent is not None and parent.type == "array_declarator":
        parent = parent.parent
    return parent is not None and parent.type == "declaration"


REWRITE = Rewrite(
    slug="columns-in-block",
    title="Give a block 32 neighbouring columns",
    apply=refusing(_apply),
    answers=("uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.6,
    gain=4.0,
    ranges={"kColumns": (8, 16, 32), "kParts": (8, 16, 32)},
)
