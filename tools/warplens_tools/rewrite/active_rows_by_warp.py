# SPDX-License-Identifier: Apache-2.0
"""active-rows-by-warp

Let the lanes of a warp take the rows of those of them that have one, one row after another.

In a search through a graph a thread looks whether its vertex is of this level, and only then walks its edges: in most
warps one or two lanes walk, each alone and each as long as its row is, while the others wait. Together they take the
rows that there are, 32 neighbouring elements at a time. Who has none costs no more than the look.

```cuda
__global__ void level(const int* offsets, const int* edges, int* distance, int now, int vertices, int* changed) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < vertices && distance[v] == now) {
    for (int e = offsets[v]; e < offsets[v + 1]; e++) {
      int to = edges[e];
      if (distance[to] == -1) {
        distance[to] = now + 1;
        *changed = 1;
      }
    }
  }
}
void run(const int* offsets, const int* edges, int* distance, int now, int vertices, int* changed) {
  level<<<(vertices + 255) / 256, 256>>>(offsets, edges, distance, now, vertices, changed);
}
```

```cuda
__global__ void level(const int* offsets, const int* edges, int* distance, int now, int vertices, int* changed) {
  bool active = false;
  int rowBegin = 0, rowEnd = 0;
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < vertices && distance[v] == now) {
    active = true;
    rowBegin = offsets[v];
    rowEnd = offsets[v + 1];
  }
  for (unsigned int rows = __ballot_sync(0xffffffffu, active); rows; rows &= rows - 1) {
    const int from = __ffs(rows) - 1;
    const int end = __shfl_sync(0xffffffffu, rowEnd, from);
    for (int e = __shfl_sync(0xffffffffu, rowBegin, from) + threadIdx.x % 32; e < end; e += 32) {
      int to = edges[e];
      if (distance[to] == -1) {
        distance[to] = now + 1;
        *changed = 1;
      }
    }
  }
}
void run(const int* offsets, const int* edges, int* distance, int now, int vertices, int* changed) {
  level<<<(vertices + 255) / 256, 256>>>(offsets, edges, distance, now, vertices, changed);
}
```

Variables that an iteration needs come from the row's own lane. Left alone: rows that all threads have and that are of
one length, loops that fold into a variable or are followed by more work, and threads that work together already.
Blocks are taken to be whole warps where the text does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.declared import plainly_declared_in, unqualified
from warplens_tools.rewrite.common.kernel_reader import JOINED
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.reading import View, field, statements, unwrapped
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

_WARP = 32
_MASK = "0xffffffffu"
_READS = frozenset({"subscript_expression", "pointer_expression"})
_EXCHANGED = frozenset({"float", "double"})


@opening
def _apply(found: Opened) -> RewriteResult:
    view = View(found.text, found.model, found.kernel)
    threads = found.launches.block_value(0)
    if JOINED.search(view.code(view.body)) or (threads is not None and threads % _WARP):
        raise Refused("threads work together already, or blocks are no whole warps")
    if re.search(r"\b(?:threadIdx|blockDim)\s*\.\s*[yz]\b", view.code(view.body)):
        raise Refused("its threads are numbered by more than one axis")
    loop = _loop(found, view)
    path = _path(view, loop)
    _check(found, view, loop, path)
    style = Style(view)
    body = style.lines(_Writer(view, style, loop).code(path))
    newline = view.text.newline
    span = view.text.span(view.start(view.body), view.end(view.body))
    edit = TextEdit(span, f"{{{newline}{body}{newline}{style.margin}}}")
    return RewriteResult((edit,), title="Let a warp take its active rows one after another")


def _loop(found: Opened, view: View) -> Counting:
    """The kernel's outermost loop, whose iterations may be in any order.

    Raises:
        Refused: it has several, or none such.
    """
    loops = [n for n in walk(view.body) if n.type in LOOPS]
    outer = [n for n in loops if not any(o.start_byte < n.start_byte < o.end_byte for o in loops)]
    mine = (
        found.reader.body.descendant_for_byte_range(outer[0].start_byte, outer[0].end_byte) if outer else None
    )
    loop = counting(found.reader.expanded, mine) if mine is not None and len(outer) == 1 else None
    if loop is None or loop.step != "1" or loop.downward or len(loop.bounds) != 1 or not loop.declared:
        raise Refused("no loop alone walks a row")
    work = found.reader.work(loop)
    if work.why_not or work.folds:
        raise Refused(work.why_not or "its loop folds into a variable")
    again = counting(view.expanded, outer[0])
    if again is None or again.first is None:
        raise Refused("no loop alone walks a row")
    return again


def _path(view: View, loop: Counting) -> list[Node]:
    """The conditions around the loop, outermost first.

    Raises:
        Refused: something else is around it.
    """
    found, outer = list[Node](), loop.node.parent
    while outer is not None and outer.id != view.body.id:
        if outer.type == "if_statement" and outer.child_by_field_name("alternative") is None:
            found.insert(0, outer)
        elif outer.type != "compound_statement":
            raise Refused("the loop stands in something that is not understood")
        outer = outer.parent
    return found


def _check(found: Opened, view: View, loop: Counting, path: list[Node]) -> None:
    """That nothing follows the loop, that rows differ, and that bounds stay as they are."""
    inner = loop.node
    for outer in [*(field(n, "consequence") for n in reversed(path)), view.body]:
        if outer.id != inner.id and statements(outer)[-1].id not in (inner.id, *(n.id for n in path)):
            raise Refused("the loop is followed by more work")
    ends = [n for n in walk(view.body) if n.type == "return_statement"]
    tops = {n.id for n in statements(view.body)}
    for end in ends:
        holder = end.parent if end.parent is not None and end.parent.type == "if_statement" else None
        if holder is None and end.parent is not None and end.parent.type == "compound_statement":
            holder = end.parent.parent
        if holder is None or holder.id not in tops or not _only_returns(holder):
            raise Refused("threads end in a way that is not understood")
    conditions = [field(n, "condition") for n in path] + [
        field(n, "condition") for n in map(_holder, ends) if n
    ]
    bounds = [loop.bounds[0], *([loop.first] if loop.first is not None else [])]
    if not any(n.type in _READS for one in (*conditions, *bounds) for n in walk(one)):
        raise Refused("all rows are of one length, and each thread has one")
    stored = {s.array for s in found.reader.stores(found.reader.body) if s.space != "local"}
    if any(view.array(e) in stored for one in bounds for e in view.elements(one)):
        raise Refused("where a row ends is written to")


def _holder(end: Node) -> Node | None:
    outer = end.parent
    while outer is not None and outer.type != "if_statement":
        outer = outer.parent
    return outer


def _only_returns(node: Node) -> bool:
    inside = statements(field(node, "consequence"))
    alone = len(inside) == 1 and inside[0].type == "return_statement"
    return alone and node.child_by_field_name("alternative") is None


class _Writer:
    def __init__(self, view: View, style: Style, loop: Counting) -> None:
        self.view, self.style, self.loop = view, style, loop
        self.mine, self.lane, self.row, self.from_ = (
            style.local(n) for n in ("active", "lane", "rows", "from")
        )
        self.start, self.end = style.local("rowBegin"), style.local("rowEnd")
        kind = view.code(field(field(loop.node, "initializer"), "type"))
        known = integer_type(kind)
        if known is None or known.bytes not in (4, 8):
            raise Refused("the loop's variable is no integer that lanes exchange")
        self.kind = kind
        #: What an iteration needs of its row, with the type and the name that keeps it.
        self.needed = {n: (k, style.local(f"{n}Own")) for n, k in self._needed()}

    def _needed(self) -> Iterator[tuple[str, str]]:
        """The thread's own variables that the loop's body uses."""
        view, inside = self.view, self.loop.node
        declared = {
            d.name: d
            for n in walk(view.body)
            if n.type == "declaration" and not inside.start_byte <= n.start_byte < inside.end_byte
            for d in plainly_declared_in(view, n)
        }
        own = {d.name for n in walk(self.loop.body) for d in plainly_declared_in(view, n)}
        used = view.names(self.loop.body) - own - {self.loop.variable}
        local = {a.name for a in view.kernel.arrays if a.space == "local"}
        if used & local:
            raise Refused("an iteration needs an array of the thread's own")
        for name in sorted(used & set(declared)):
            one = declared[name]
            kind = unqualified(one.type)
            known = integer_type(kind)
            exchanged = kind in _EXCHANGED or (known is not None and known.bytes in (4, 8))
            if one.stars or "auto" in one.type.split() or not exchanged:
                raise Refused(f"{name} is nothing that lanes exchange")
            yield name, kind

    def code(self, path: list[Node]) -> str:
        """The kernel's statements: who has a row, and the rows."""
        lines = [f"bool {self.mine} = false;", f"{self.kind} {self.start} = 0, {self.end} = 0;"]
        lines += [f"{kind} {own} = 0;" for kind, own in self.needed.values()]
        lines.append(self._look(statements(self.view.body), path))
        return "\n".join([*lines, self._rows()])

    def _look(self, nodes: list[Node], path: list[Node]) -> str:
        """Statements before the loop, with what is kept of it in its place."""
        view, lines = self.view, list[str]()
        for at, node in enumerate(nodes):
            if node.id == self.loop.node.id:
                return "\n".join([*lines, *self._kept()])
            if path and node.id == path[0].id:
                inner = self._look(statements(field(node, "consequence")), path[1:])
                condition = view.written(unwrapped(field(node, "condition")))
                return "\n".join([*lines, f"if ({condition}) {{", indented(inner), "}"])
            if node.type == "if_statement" and _only_returns(node):
                inner = self._look(nodes[at + 1 :], path)
                condition = view.written(unwrapped(field(node, "condition")))
                return "\n".join([*lines, f"if (!({condition})) {{", indented(inner), "}"])
            lines.append(self.style.code(view.written(node)))
        return "\n".join(lines)

    def _kept(self) -> list[str]:
        loop, view = self.loop, self.view
        begin = view.written(loop.first) if loop.first is not None else "0"
        after = " + 1" if "<=" in view.code(field(loop.node, "condition")) else ""
        bound = view.written(loop.bounds[0])
        kept = [f"{own} = {name};" for name, (_, own) in self.needed.items()]
        return [f"{self.mine} = true;", f"{self.start} = {begin};", f"{self.end} = {bound}{after};", *kept]

    def _rows(self) -> str:
        """The rows that there are, one after another."""
        loop, view, shuffled = self.loop, self.view, f"__shfl_sync({_MASK}, {{}}, {self.from_})"
        inner = [f"const int {self.from_} = __ffs({self.row}) - 1;"]
        for name, (kind, own) in self.needed.items():
            inner.append(f"const {kind} {name} = {shuffled.format(own)};")
        end, first = self.style.local("end"), shuffled.format(self.start)
        inner.append(f"const {self.kind} {end} = {shuffled.format(self.end)};")
        body = "\n".join(self.style.code(view.written(n)) for n in statements(loop.body))
        lane = f"threadIdx.x % {_WARP}"
        k = loop.variable
        head = f"for ({self.kind} {k} = {first} + {lane}; {k} < {end}; {k} += {_WARP}) {{"
        inner += [head, indented(body), "}"]
        row, ballot = self.row, f"__ballot_sync({_MASK}, {self.mine})"
        rows = f"for (unsigned int {row} = {ballot}; {row}; {row} &= {row} - 1) {{"
        return "\n".join([rows, indented("\n".join(inner)), "}"])


REWRITE = Rewrite(
    slug="active-rows-by-warp",
    title="Let a warp take its active rows one after another",
    apply=_apply,
    answers=("warp-divergence", "uncoalesced-global-read"),
    chance=0.5,
    gain=3.0,
)
