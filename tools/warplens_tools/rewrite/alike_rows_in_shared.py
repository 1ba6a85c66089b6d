# SPDX-License-Identifier: Apache-2.0
"""alike-rows-in-shared

Bring the rows that all threads walk alike into shared memory, some at a time.

A thread that has a query of its own and walks all keys reads the same keys as its neighbours, one number in each load,
which a warp waits for as for any other. A block brings some rows together, side by side, into shared memory; from there
the compiler loads up to four numbers at once, and the arithmetic is fed.

```cuda
#define DIM 4
__global__ void attend(const float* Q, const float* K, const float* V, float* out, int n) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= n) return;
  float sum = 0.0f, acc[DIM] = {};
  for (int k = 0; k < n; k++) {
    float dot = 0.0f;
    for (int d = 0; d < DIM; d++) dot += Q[q * DIM + d] * K[k * DIM + d];
    float p = expf(dot);
    sum += p;
    for (int d = 0; d < DIM; d++) acc[d] += p * V[k * DIM + d];
  }
  for (int d = 0; d < DIM; d++) out[q * DIM + d] = acc[d] / sum;
}
void run(const float* Q, const float* K, const float* V, float* out, int n) {
  attend<<<(n + 127) / 128, 128>>>(Q, K, V, out, n);
}
```

```cuda
#define DIM 4

#define ROWS_HELD 64  // values of k at a time

__global__ void attend(const float* Q, const float* K, const float* V, float* out, int n) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  const bool active = q < n;
  float sum = 0.0f, acc[DIM] = {};
  __shared__ __align__(16) float heldK[ROWS_HELD][DIM];
  __shared__ __align__(16) float heldV[ROWS_HELD][DIM];
  for (int k0 = 0; k0 < n; k0 += ROWS_HELD) {
    const int rows = n - k0 < ROWS_HELD ? n - k0 : ROWS_HELD;
    for (int t = threadIdx.x; t < rows * DIM; t += blockDim.x) heldK[t / DIM][t % DIM] = K[k0 * DIM + t];
    for (int t = threadIdx.x; t < rows * DIM; t += blockDim.x) heldV[t / DIM][t % DIM] = V[k0 * DIM + t];
    __syncthreads();
    for (int k = k0; active && k < k0 + rows; k++) {
      float dot = 0.0f;
      for (int d = 0; d < DIM; d++) dot += Q[q * DIM + d] * heldK[k - k0][d];
      float p = expf(dot);
      sum += p;
      for (int d = 0; d < DIM; d++) acc[d] += p * heldV[k - k0][d];
    }
    __syncthreads();
  }
  if (active) {
    for (int d = 0; d < DIM; d++) out[q * DIM + d] = acc[d] / sum;
  }
}
void run(const float* Q, const float* K, const float* V, float* out, int n) {
  attend<<<(n + 127) / 128, 128>>>(Q, K, V, out, n);
}
```

Left alone: rows whose length the run tells, loops that some threads leave early or that are short, and what the kernel
writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, of_alike_rows
from warplens_tools.rewrite.common.alike_rows import AlikeLoop, Rows, alike_loop
from warplens_tools.rewrite.common.declared import declared_in, unqualified
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.output_limits import negation
from warplens_tools.rewrite.common.outputs import read_outputs
from warplens_tools.rewrite.common.reading import (
    View,
    field,
    operator_of,
    refusing,
    require_apart,
    statements,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.strided import block_threads, thread_number
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

#: Half of a block's static shared memory, so that two blocks of any kind fit beside each other.
_MOST_BYTES = 24 * 1024
_READS = frozenset({"subscript_expression", "pointer_expression", "call_expression", "field_expression"})


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    writer = _Writer(view)
    edits = tuple(writer.edits())
    if not writer.tiled:
        raise Refused("no rows of a constant length are walked alike by all threads")
    return RewriteResult((writer.style.constants(), *edits), title="Bring rows into shared memory")


class _Writer:
    """The edits of one kernel."""

    def __init__(self, view: View) -> None:
        self.view, self.style = view, Style(view)
        launches = Launches(view.text, view.model, view.kernel)
        sites = launches.read()
        self.outputs = read_outputs(view, sites[0].site)
        if self.outputs.early:
            raise Refused("some outputs are done early")
        self.thread = thread_number(view, launches)
        self.active, self.count, self.tiled = "", "", False
        self.held: dict[tuple[str, str, str], str] = {}

    def edits(self) -> Iterator[TextEdit]:
        """All of them, in text order."""
        if not any(self._loop(n) for n in self.outputs.work):
            return
        yield from self._scope(statements(self.view.body))

    def _loop(self, node: Node) -> AlikeLoop | None:
        return alike_loop(self.view, self.outputs, node)

    def _scope(self, nodes: list[Node]) -> Iterator[TextEdit]:
        """The edits of statements that stand one after another."""
        work = {n.id for n in self.outputs.work}
        for at, node in enumerate(nodes):
            if node.type == "if_statement" and node.id not in work:
                yield from self._guard(node, last=at == len(nodes) - 1)
            elif (found := self._loop(node)) is not None:
                yield TextEdit(self.view.span(node), self._tiled(found))
            elif node.type == "declaration":
                yield from self._declaration(node)
            else:
                yield from self._rest(node)

    def _guard(self, node: Node, *, last: bool) -> Iterator[TextEdit]:
        """`if (q >= n) return;` and `if (q < n) {` as what says whether the thread has an output."""
        condition, then = unwrapped(field(node, "condition")), field(node, "consequence")
        inside = statements(then)
        returns = len(inside) == 1 and inside[0].type == "return_statement"
        before, self.active = self.active, self.style.local("active")
        written = self._negated(condition) if returns else self.view.written(condition)
        also = f"{before} && " if before else ""
        written = f"({written})" if also and "||" in written else written
        line = f"const bool {self.active} = {also}{written};"
        if returns:
            yield TextEdit(self.view.span(node), line)
            return
        if not last or then.type != "compound_statement":
            raise Refused("what some threads do is not understood")
        begin = self.view.start(node)
        yield TextEdit(self.view.text.span(begin, self.view.start(then)), f"{line} ")
        yield from self._scope(inside)

    def _negated(self, condition: Node) -> str:
        if condition.type == "binary_expression" and operator_of(condition) == "||":
            left, right = (unwrapped(field(condition, s)) for s in ("left", "right"))
            return f"{self._negated(left)} && {self._negated(right)}"
        return negation(self.view, condition)

    def _declaration(self, node: Node) -> Iterator[TextEdit]:
        """What is read for an output, only where there is one."""
        values = [d.child_by_field_name("value") for d in node.children_by_field_name("declarator")]
        if not self.active or not any(v is not None and _reads(self.view, v) for v in values):
            return
        every = declared_in(self.view, node)
        if any("&" in one.type or "auto" in one.type.split() for one in every):
            raise Refused("a reference is declared for an output alone")
        lines = []
        for one in every:
            plain = one.type if one.stars else unqualified(one.type)
            stars = one.stars.replace("const", "").strip()
            lines.append(f"{plain}{stars} {one.name}{{}};")
            if one.value is not None:
                lines.append(f"if ({self.active}) {one.name} = {self.view.written(one.value)};")
        yield TextEdit(self.view.span(node), self._joined(lines, node))

    def _rest(self, node: Node) -> Iterator[TextEdit]:
        """Any other statement, for threads that have an output."""
        if not self.active or not any(n.type in _READS or n.type in LOOPS for n in walk(node)):
            return
        view = self.view
        begin = view.start(node)
        start = start_with_pragmas(view.file, begin)
        text = view.text.text[start : view.end(node)]
        inner = indented(self.style.code(text, self.view.margin(node)))
        code = self._joined([f"if ({self.active}) {{", *inner.split("\n"), "}"], node)
        yield TextEdit(view.text.span(start, view.end(node)), code)

    def _tiled(self, found: AlikeLoop) -> str:
        """The loop over tiles of rows, with the user's inside."""
        view, style, loop = self.view, self.style, found.loop
        self.tiled = True
        if not self.count:
            self.count = style.constant(
                "kRowsHeld", str(_count(found)), f"values of {loop.variable} at a time"
            )
        first, rows, t = style.local(f"{loop.variable}0"), style.local("rows"), style.local("t")
        lines, bring, replaced = list[str](), list[str](), list[tuple[Node, str]]()
        for one in found.rows:
            name = self._name(one)
            if name not in self.held.values():
                lines.append(f"__shared__ __align__(16) {one.type} {name}[{self.count}]{_extent(one)};")
                self.held[one.pointer, one.base, one.written] = name
            bring.append(self._bring(one, name, first, rows, t))
            for element, place in one.elements:
                inside = f"[{place}]" if one.length > 1 else ""
                replaced.append((element, f"{name}[{loop.variable} - {first}]{inside}"))
        bound, kind = view.written(found.bound), found.type
        bare = bound if bound.replace(".", "").replace("_", "").isalnum() else f"({bound})"
        begin = view.written(loop.first) if loop.first is not None else "0"
        lines.append(f"for ({kind} {first} = {begin}; {first} < {bound}; {first} += {self.count}) {{")
        left = f"{bare} - {first}"
        inner = [
            f"const int {rows} = {left} < {self.count} ? {left} : {self.count};",
            *bring,
            "__syncthreads();",
        ]
        also = f"{self.active} && " if self.active else ""
        step = view.written(loop.update)
        variable = loop.variable
        head = f"for ({kind} {variable} = {first}; {also}{variable} < {first} + {rows}; {step}) "
        body = style.code(substituted(view, loop.body, replaced), view.margin(loop.node))
        inner += [*(head + body).split("\n"), "__syncthreads();"]
        return self._joined([*lines, *indented("\n".join(inner)).split("\n"), "}"], loop.node)

    def _name(self, one: Rows) -> str:
        known = self.held.get((one.pointer, one.base, one.written))
        return known or self.style.local(f"held{one.pointer[:1].upper()}{one.pointer[1:]}")

    def _bring(self, one: Rows, name: str, first: str, rows: str, t: str) -> str:
        """The loop that brings some rows of an array."""
        written = one.written if one.written.replace("_", "").isalnum() else f"({one.written})"
        count, begin = (f"{rows} * {written}", f"{first} * {written}") if one.length > 1 else (rows, first)
        place = f"[{t} / {written}][{t} % {written}]" if one.length > 1 else f"[{t}]"
        base = f"{one.base} + " if one.base else ""
        head = f"for (int {t} = {self.thread}; {t} < {count}; {t} += {block_threads(self.thread)})"
        return f"{head} {name}{place} = {one.pointer}[{base}{begin} + {t}];"

    def _joined(self, lines: list[str], node: Node) -> str:
        """Lines that are written with two spaces a level, in the place of a statement."""
        margin, step = self.view.margin(node), self.style.step
        found = []
        for line in lines:
            bare = line.lstrip(" ")
            found.append(f"{margin}{step * ((len(line) - len(bare)) // 2)}{bare}".rstrip() if bare else "")
        return self.view.text.newline.join(found)[len(margin) :]


def _extent(one: Rows) -> str:
    return f"[{one.written}]" if one.length > 1 else ""


def _count(found: AlikeLoop) -> int:
    """How many rows are held at a time.

    Raises:
        Refused: not even a few fit.
    """
    each = sum(one.bytes for one in found.rows)
    count = next((n for n in (64, 32, 16, 8) if n * each <= _MOST_BYTES), 0)
    if not count:
        raise Refused("the rows do not fit into shared memory")
    return count


def _reads(view: View, node: Node) -> bool:
    """Whether an expression reads memory, or calls what may."""
    return any(True for _ in view.elements(node)) or any(n.type == "call_expression" for n in walk(node))


REWRITE = Rewrite(
    slug="alike-rows-in-shared",
    title="Bring rows that all threads walk alike into shared memory",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "scalar-access"),
    useless_at="dram",
    likely=of_alike_rows,
    chance=0.5,
    gain=2.2,
    ranges={"kRowsHeld": (16, 32, 64, 128)},
)
