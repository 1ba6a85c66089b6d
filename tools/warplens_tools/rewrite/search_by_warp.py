# SPDX-License-Identifier: Apache-2.0
"""search-by-warp

Let a warp search together.

A thread that goes through elements until it finds one looks at them one after another, and a warp waits for the thread
that has to look longest. A warp that searches for one of them after another looks at 32 neighbouring elements at a
time, and stops where the first one of them is found.

```cuda
__global__ void collisions(const float* x, const float* r, int* hit, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int found = -1;
  for (int j = 0; j < n; j++) {
    float d = fabsf(x[i] - x[j]);
    if (j != i && d < r[i] + r[j]) {
      found = j;
      break;
    }
  }
  hit[i] = found;
}
void run(const float* x, const float* r, int* hit, int n) {
  collisions<<<(n + 255) / 256, 256>>>(x, r, hit, n);
}
```

```cuda
constexpr int kWarpSize = 32;

__global__ void collisions(const float* x, const float* r, int* hit, int n) {
  const int lane = threadIdx.x % kWarpSize;
  int i = blockIdx.x * (blockDim.x / kWarpSize) + threadIdx.x / kWarpSize;
  if (i >= n) return;
  int found = -1;
  for (int first = 0; first < n; first += kWarpSize) {
    const int j = first + lane;
    bool ends = false;
    if (j < n) {
      float d = fabsf(x[i] - x[j]);
      if (j != i && d < r[i] + r[j]) {
        found = j;
        ends = true;
      }
    }
    const unsigned int enders = __ballot_sync(0xffffffff, ends);
    if (enders) {
      found = __shfl_sync(0xffffffff, found, __ffs(enders) - 1);
      break;
    }
  }
  if (lane == 0) hit[i] = found;
}
void run(const float* x, const float* r, int* hit, int n) {
  collisions<<<(n + 255) / 256 * kWarpSize, 256>>>(x, r, hit, n);
}
```

Left alone: loops that set anything but where they end, or that store; ends in a loop inside; short loops; and kernels
whose threads work together already. Blocks are taken to be whole warps where the text does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, along_one_axis
from warplens_tools.rewrite.common.counting import counting
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.reading import field, statements, unwrapped
from warplens_tools.rewrite.common.warp_rows import WarpRows, number_by_warps

#: Loops of fewer elements are not worth a warp.
_FEW = 32
_TYPE = re.compile(r"(?:const\s+)?((?:unsigned\s+)?[\w:]+)\s+[^=;]*$")
_EXCHANGED = frozenset({"float", "double"})
_TOGETHER = re.compile(r"\b__shared__|__sync|__shfl|__ballot|__any|__all|\bthis_thread_block")


@opening
def apply(found: Opened) -> RewriteResult:
    """Look at 32 elements at a time."""
    reader = found.reader
    if _TOGETHER.search(reader.tree.code_of(reader.body)):
        raise Refused("threads work together already")
    numbering = Numbering(reader, "x", found.launches.block_value(0))
    numbering.check_whole()
    search = _Search(found)
    if found.launches.block_value(1) not in (None, 1):
        raise Refused("its blocks have more than one dimension")
    rows = number_by_warps(found, numbering, whole=True)
    search.write(rows)
    if rows.definition:
        _define(found, rows.definition)
    return RewriteResult(found.all_edits(), title="Let a warp search together")


def _define(found: Opened, definition: str) -> None:
    span = found.reader.tree.text_span(*(found.reader.expanded.function.start,) * 2)
    at = found.text.offset(span.line, span.column)
    found.edits.insert_at(at, f"{definition}{found.text.newline * 2}")


class _Search:
    """The loop of a kernel that ends where an element is found.

    Raises:
        Refused: there is none, or it does more.
    """

    def __init__(self, found: Opened) -> None:
        self.found, self.reader, self.tree = found, found.reader, found.reader.tree
        searches = [n for n in walk(self.reader.body) if n.type == "for_statement" and self._ends(n)]
        searches = [n for n in searches if not any(o.id != n.id and holds(o, n) for o in searches)]
        if not searches:
            raise Refused("no loop ends where something is found")
        loop = counting(self.reader.expanded, searches[0])
        if len(searches) > 1 or loop is None or loop.step != "1" or loop.downward or not loop.declared:
            raise Refused("the loop that ends where something is found is not counted one by one")
        self.loop, self.ends = loop, self._ends(searches[0])
        longest = self.reader.length(loop).most
        if longest is not None and longest < _FEW:
            raise Refused("the loop is short")
        self.set = self._check()
        self.behind = list(self._after())

    def _ends(self, loop: Node) -> list[Node]:
        """Its `break`s."""
        found = []
        for node in walk(field(loop, "body")) if loop.child_by_field_name("body") else ():
            at = node.parent if node.type == "break_statement" else None
            while at is not None and at.type not in LOOPS and at.type != "switch_statement":
                at = at.parent
            if at is not None and at.id == loop.id:
                found.append(node)
        return found

    def _check(self) -> dict[str, str]:
        """The variables that the loop sets where it ends, with their types."""
        body, tree, found = self.loop.body, self.tree, dict[str, str]()
        if any(n.type in ("return_statement", "goto_statement", "lambda_expression") for n in walk(body)):
            raise Refused("an iteration may leave the kernel")
        if any(True for _ in self.reader.stores(body)):
            raise Refused("the loop stores to memory")
        blocks = [b for end in self.ends if (b := end.parent) is not None and b.type == "compound_statement"]
        for node in self._around():
            if node.type in ("for_statement", "while_statement", "do_statement"):
                raise Refused("the search is part of another loop")
        for name, nodes in self.reader.names.items():
            inside = [n for n in nodes if body.start_byte <= n.start_byte < body.end_byte]
            outer = [n for n in inside if not self.reader.is_inside(self.reader.binding(n), self.loop.node)]
            if not outer or name == self.loop.variable or not changes(tree, tree.code_of(body), name):
                continue
            kind = self._type(outer[0])
            if not all(any(b.start_byte <= n.start_byte < b.end_byte for b in blocks) for n in outer):
                raise Refused(f"each iteration needs {name} as the one before left it")
            found[name] = kind
        return found

    def _around(self) -> Iterator[Node]:
        at = self.loop.node.parent
        while at is not None and at.id != self.reader.body.id:
            yield at
            at = at.parent

    def _type(self, node: Node) -> str:
        """The type of a variable that lanes exchange."""
        name, binding = self.tree.code_of(node), self.reader.binding(node)
        code = self.tree.masked.code[: binding.declaration[1]].decode("ascii") if binding is not None else ""
        start = binding.declaration[0] if binding is not None else 0
        written = _TYPE.match(code[start:].partition(name)[0] + " ")
        kind = written[1] if written is not None else ""
        if kind == "bool":
            return kind
        known = integer_type(kind)
        if kind not in _EXCHANGED and (known is None or known.bytes not in (4, 8)):
            raise Refused(f"{name} is nothing that lanes exchange")
        return kind

    def _after(self) -> Iterator[list[Node]]:
        """Statements that store, which one lane does; those beside each other together."""
        run = list[Node]()
        for node in self._top(self.reader.body):
            stores = any(True for _ in self.reader.stores(node))
            if stores and node.start_byte < self.loop.node.start_byte:
                raise Refused("the kernel stores before it searches")
            if stores and any(n.type == "declaration" or n.type in LOOPS for n in walk(node)):
                raise Refused("more work follows on what was found")
            if stores:
                run.append(node)
            elif run:
                yield run
                run = []
        if run:
            yield run

    def _top(self, block: Node) -> Iterator[Node]:
        """The statements around the loop and behind it."""
        for node in block.named_children:
            if node.type == "comment" or node.id == self.loop.node.id:
                continue
            if node.start_byte <= self.loop.node.start_byte and node.end_byte >= self.loop.node.end_byte:
                inner = node if node.type == "compound_statement" else node.child_by_field_name("consequence")
                if inner is None or inner.type != "compound_statement":
                    raise Refused("what stands around the search is not understood")
                yield from self._top(inner)
            else:
                yield node

    def write(self, rows: WarpRows) -> None:
        """The loop over 32 elements at a time, and who stores."""
        edits, loop = self.found.edits, self.loop
        first, ends, enders = (edits.fresh_here(n) for n in ("first", "ends", "enders"))
        kind = self.tree.code_of(field(field(loop.node, "initializer"), "type"))
        begin = self.tree.text_of(loop.first) if loop.first is not None else "0"
        condition = self.tree.text_of(unwrapped(field(loop.node, "condition")))
        name, unit = loop.variable, edits.unit
        head = re.sub(rf"\b{name}\b", first, condition)
        simple = self._is_simple()
        margin = edits.indent(loop.node)
        body = self._body(ends, margin + unit * (2 if simple else 3))
        if not simple:
            body = [f"{unit}{unit}do {{", *body, f"{unit}{unit}}} while (false);"]
        taken = [f"{unit * 2}{v} = __shfl_sync(0xffffffff, {v}, __ffs({enders}) - 1);" for v in self.set]
        lines = [
            f"for ({kind} {first} = {begin}; {head}; {first} += {rows.width}) {{",
            f"{unit}const {kind} {name} = {first} + {rows.lane};",
            f"{unit}bool {ends} = false;",
            f"{unit}if ({condition}) {{",
            *body,
            f"{unit}}}",
            f"{unit}const unsigned int {enders} = __ballot_sync(0xffffffff, {ends});",
            f"{unit}if ({enders}) {{" if taken else f"{unit}if ({enders}) break;",
            *([*taken, f"{unit * 2}break;", f"{unit}}}"] if taken else []),
            "}",
        ]
        new = self.found.text.newline.join(
            line
            if n == 0 or not line or (line.startswith(margin + unit * 2) and line in body)
            else margin + line
            for n, line in enumerate(lines)
        )
        start, end = edits.offsets(loop.node)
        edits.cut(start, end)
        edits.insert_at(start, new)
        for run in self.behind:
            edits.guard(run, f"{rows.lane} == 0")

    def _is_simple(self) -> bool:
        """Whether an iteration does nothing behind what ends it, and goes on from nowhere else."""
        last = statements(self.loop.body)[-1]
        jumps = [n for n in walk(self.loop.body) if n.type == "continue_statement"]
        inside = all(last.start_byte <= e.start_byte < last.end_byte for e in self.ends)
        return not jumps and inside and last.type == "if_statement"

    def _body(self, ends: str, margin: str) -> list[str]:
        """The loop's body, in which an end is remembered."""
        simple, lines = self._is_simple(), list[str]()
        for node in statements(self.loop.body):
            text, at, parts = self.tree.text_of(node), 0, list[str]()
            for end in self.ends:
                if node.start_byte <= end.start_byte < node.end_byte:
                    alone = end.parent is None or end.parent.type != "compound_statement"
                    stop = f"{ends} = true;" if simple else f"{ends} = true; break;"
                    parts += [text[at : end.start_byte - node.start_byte]]
                    parts += [f"{{ {stop} }}" if alone and not simple else stop]
                    at = end.end_byte - node.start_byte
            code = "".join([*parts, text[at:]])
            own = self.found.edits.indent(node)
            whole = code.split("\n")
            lines += [margin + whole[0], *(margin + w.removeprefix(own) for w in whole[1:])]
        return lines


REWRITE = Rewrite(
    slug="search-by-warp",
    title="Let a warp search together",
    apply=apply,
    answers=("warp-divergence", "uncoalesced-global-read", "grid-too-small"),
    likely=along_one_axis,
    chance=0.4,
    gain=4.0,
)
