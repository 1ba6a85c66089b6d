# SPDX-License-Identifier: Apache-2.0
"""scan-row

Give the running sum of a row to a warp.

A thread that adds up a row and stores every sum on the way walks it alone, a row apart from the threads beside it.
A warp takes 32 elements at a time: its lanes add up what is before them by shuffles, in five steps, add what the row
came to so far, and store 32 sums side by side.

```cuda
__global__ void cumsum(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = 0; j < cols; ++j) {
    sum += in[row * cols + j];
    out[row * cols + j] = sum;
  }
}
void run(const float* in, float* out, int rows, int cols) {
  cumsum<<<(rows + 255) / 256, 256>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kLanesPerRow = 32;

__global__ void cumsum(const float* in, float* out, int rows, int cols) {
  const int lane = threadIdx.x % kLanesPerRow;
  int row = blockIdx.x * (blockDim.x / kLanesPerRow) + threadIdx.x / kLanesPerRow;
  if (row >= rows) return;
  float sum = 0.0f;
  const unsigned lanes = 0xffffffffu >> (32 - kLanesPerRow) << (threadIdx.x % 32 / kLanesPerRow * kLanesPerRow);
  for (int first = 0; first < cols; first += kLanesPerRow) {
    int j = first + lane;
    float value = 0.0f;
    if (j < cols) {
      value = in[row * cols + j];
    }
    for (int offset = 1; offset < kLanesPerRow; offset *= 2) {
      const float before = __shfl_up_sync(lanes, value, offset, kLanesPerRow);
      if (lane >= offset) value = before + value;
    }
    if (j < cols) {
      out[row * cols + j] = sum + value;
    }
    sum = sum + __shfl_sync(lanes, value, kLanesPerRow - 1, kLanesPerRow);
  }
}
void run(const float* in, float* out, int rows, int cols) {
  cumsum<<<(rows + 255) / 256 * kLanesPerRow, 256>>>(in, out, rows, cols);
}
```

Running products, minima and maxima are taken as well, and sums of what is before an element. Left alone: loops that
carry anything else from one element to the next, go down, or are left early.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target, along_one_axis
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import WarpGroup, joined_value, neutral, part_mask
from warplens_tools.rewrite.common.iterations import JOINED
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.reading import field, renamed, statements
from warplens_tools.rewrite.common.reductions import Fold, folds
from warplens_tools.rewrite.common.refusal import Refused, refusing
from warplens_tools.rewrite.common.warp_rows import WarpRows, number_by_warps
from warplens_tools.text import SourceText

CAVEAT = "sums are added up in another order: results may differ in the last digits"
_FOLDED = frozenset({"+", "*", "max", "min"})
_TYPES = frozenset({"float", "double", "int", "unsigned int", "unsigned", "long long", "unsigned long long"})


class _Scan(msgspec.Struct, frozen=True):
    """A loop whose body folds into one variable and stores what that comes to."""

    loop: Counting
    fold: Fold
    type: str
    #: What is folded in, as written.
    value: str
    #: Declarations, and stores before and behind the fold, as nodes.
    declared: tuple[Node, ...]
    before: tuple[Node, ...]
    behind: tuple[Node, ...]


@refusing
def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Let 32 lanes scan what one thread walks."""
    del target
    found = Opened(text, model, kernel)
    if JOINED.search(found.reader.tree.code_of(found.reader.body)):
        raise Refused("threads work together already")
    numbering = Numbering(found.reader, "x", found.launches.block_value(0))
    numbering.check_whole()
    scan = _scan(found)
    rows = number_by_warps(found, numbering)
    found.edits.replace(scan.loop.node, _Writer(found, scan, rows).text())
    _guard(found, scan, rows.lane)
    GroupEdits(found.edits, WarpGroup(found.style, rows.width, rows.lane)).define_helpers(rows.definition)
    edits = (*found.edits.edits(), *found.launches.edits())
    is_exact = integer_type(scan.type) is not None or scan.fold.operation in ("max", "min")
    return RewriteResult(edits, title="Scan each row by a warp", caveat="" if is_exact else CAVEAT)


def _scan(found: Opened) -> _Scan:
    reader = found.reader
    loops = [n for n in walk(reader.body) if n.type in LOOPS]
    loop = counting(reader.expanded, loops[0]) if len(loops) == 1 else None
    if loop is None or loop.downward or loop.step != "1" or len(loop.bounds) != 1 or not loop.declared:
        raise Refused("no loop walks a row and stores what it came to on the way")
    why = reader.why_not_apart(loop)
    if why:
        raise Refused(why)
    every = list(folds(reader.tree, loop.body))
    fold = every[0] if len(every) == 1 else None
    if fold is None or fold.operation not in _FOLDED or "." in fold.place:
        raise Refused("the loop folds into no variable, or into several")
    return _read(found, loop, fold)


def _read(found: Opened, loop: Counting, fold: Fold) -> _Scan:
    reader = found.reader
    body = statements(loop.body)
    at = next(
        (i for i, n in enumerate(body) if n.start_byte <= _own(found, fold).start_byte < n.end_byte), -1
    )
    if at < 0 or body[at].type != "expression_statement":
        raise Refused("the loop folds under a condition")
    declared = [n for n in body if n.type == "declaration"]
    rest = [(i, n) for i, n in enumerate(body) if i != at and n.type != "declaration"]
    if any(n.type != "expression_statement" or not any(reader.stores(n)) for _, n in rest) or not rest:
        raise Refused("the loop does more than to fold and to store")
    if any(_mentions(found, n, fold.place) for n in declared):
        raise Refused("the loop does more than to fold and to store")
    return _Scan(
        loop,
        fold,
        _type(found, fold),
        _value(found, body[at], fold),
        tuple(declared),
        tuple(n for i, n in rest if i < at),
        tuple(n for i, n in rest if i > at),
    )


def _own(found: Opened, fold: Fold) -> Node:
    return next(n for n in found.reader.names[fold.place] if n.id in fold.own)


def _mentions(found: Opened, node: Node, name: str) -> bool:
    return any(n.type == "identifier" and found.reader.tree.code_of(n) == name for n in walk(node))


def _type(found: Opened, fold: Fold) -> str:
    """The variable's type; a scan of another would not be exchanged."""
    binding = found.reader.binding(_own(found, fold))
    start, end = binding.declaration if binding is not None else (0, 0)
    node = found.reader.tree.root.descendant_for_byte_range(start, end)
    while node is not None and node.type != "declaration":
        node = node.parent
    kind = node.child_by_field_name("type") if node is not None else None
    written = " ".join(found.reader.tree.code_of(kind).split()) if kind is not None else ""
    if written not in _TYPES:
        raise Refused(f"the type of {fold.place} is not known to be a number's")
    return written


def _value(found: Opened, statement: Node, fold: Fold) -> str:
    """What a fold takes in: `e` of `v += e`, `v = v + e`, `v = max(v, e)`."""
    tree, whole = found.reader.tree, statement.named_children[0]
    if whole.type != "assignment_expression":
        if "--" in tree.code_of(whole):
            raise Refused(f"{fold.place} is counted down")
        return "1"
    right = field(whole, "right")
    operator = field(whole, "operator").type
    if operator in ("+=", "*="):
        return tree.text_of(right)
    parts = right.named_children
    if right.type == "call_expression":
        parts = field(right, "arguments").named_children
    others = [n for n in parts if tree.code_of(n) != fold.place]
    plain = right.type == "call_expression" or tree.code_of(right).count("-") == 0
    if (
        operator != "="
        or len(parts) != 2
        or len(others) != 1
        or not plain
        or _mentions(found, others[0], fold.place)
    ):
        raise Refused(f"what is folded into {fold.place} is not understood")
    return tree.text_of(others[0])


def _guard(found: Opened, scan: _Scan, lane: str) -> None:
    """One lane stores what is not in the loop."""
    node = scan.loop.node
    for statement in walk(found.reader.body):
        outside = statement.end_byte <= node.start_byte or statement.start_byte >= node.end_byte
        if statement.type != "expression_statement" or not outside:
            continue
        if any(s.space != "local" for s in found.reader.stores(statement)):
            found.edits.guard([statement], f"{lane} == 0")
        elif found.reader.has_atomic(statement):
            raise Refused("it has an atomic beside its loop")


class _Writer:
    def __init__(self, found: Opened, scan: _Scan, rows: WarpRows) -> None:
        self.found, self.scan, self.rows = found, scan, rows
        fresh = found.edits.fresh_here
        self.first, self.value, self.mask = fresh("first"), fresh("value"), fresh("lanes")
        self.before, self.offset = fresh("before"), fresh("offset")

    def text(self) -> str:
        """The loop, in the place of the old one."""
        loop, scan, tree = self.scan.loop, self.scan, self.found.reader.tree
        width, lane = self.rows.width, self.rows.lane
        begin = tree.text_of(loop.first) if loop.first is not None else "0"
        limit = tree.text_of(loop.bounds[0])
        condition = tree.text_of(field(loop.node, "condition"))
        sign = "<=" if "<=" in condition else "<"
        kind = self._index_type()
        head = f"for ({kind} {self.first} = {begin}; {self.first} {sign} {limit}; {self.first} += {width}) {{"
        lines = [
            f"{kind} {loop.variable} = {self.first} + {lane};",
            f"{scan.type} {self.value} = {self._neutral()};",
        ]
        inside = f"if ({loop.variable} {sign} {limit}) {{"
        lines += [
            inside,
            *self._indented([*self._declared(), f"{self.value} = {scan.value};"]),
            "}",
            *self._steps(),
        ]
        stores = [self._stored(n, self._upto(self.before)) for n in scan.before]
        stores += [self._stored(n, self._upto(self.value)) for n in scan.behind]
        if scan.before:
            lines += self._exclusive()
        lines += [inside, *self._indented([*self._declared(), *stores]), "}"]
        last = f"__shfl_sync({self.mask}, {self.value}, {width} - 1, {width})"
        lines.append(f"{scan.fold.place} = {self._joined(scan.fold.place, last)};")
        mask = f"const unsigned {self.mask} = {part_mask(width)};"
        text = "\n".join([mask, head, *self._indented(lines), "}"])
        return text.replace("\n", self.found.text.newline + self.found.edits.indent(loop.node))

    def _indented(self, lines: list[str]) -> list[str]:
        return [self.found.edits.unit + line for one in lines for line in one.split("\n")]

    def _index_type(self) -> str:
        initial = field(self.scan.loop.node, "initializer")
        kind = initial.child_by_field_name("type")
        return self.found.reader.tree.text_of(kind) if kind is not None else "int"

    def _neutral(self) -> str:
        """What a lane without an element has: never joined into one that has, as it is behind all of them."""
        return neutral(self.scan.fold, self.scan.type) or self.scan.fold.place

    def _joined(self, first: str, second: str) -> str:
        return joined_value(self.scan.fold, self.scan.type, first, second)

    def _steps(self) -> list[str]:
        offset, value = self.offset, self.value
        other = f"__shfl_up_sync({self.mask}, {value}, {offset}, {self.rows.width})"
        return [
            f"for (int {offset} = 1; {offset} < {self.rows.width}; {offset} *= 2) {{",
            *self._indented(
                [
                    f"const {self.scan.type} {self.before} = {other};",
                    f"if ({self.rows.lane} >= {offset}) {value} = {self._joined(self.before, value)};",
                ]
            ),
            "}",
        ]

    def _exclusive(self) -> list[str]:
        """What is before the lane's own element."""
        empty = neutral(self.scan.fold, self.scan.type)
        if not empty:
            raise Refused("what is before the first element of a row is not known")
        kind, other = self.scan.type, f"__shfl_up_sync({self.mask}, {self.value}, 1, {self.rows.width})"
        return [f"{kind} {self.before} = {other};", f"if ({self.rows.lane} == 0) {self.before} = {empty};"]

    def _upto(self, value: str) -> str:
        joined = self._joined(self.scan.fold.place, value)
        return joined if joined.endswith(")") and "(" in joined else f"({joined})"

    def _declared(self) -> list[str]:
        return [self.found.reader.tree.text_of(n) for n in self.scan.declared]

    def _stored(self, node: Node, value: str) -> str:
        text = renamed(self.found.reader.tree.text_of(node), {self.scan.fold.place: value})
        return re.sub(r"= \(([^()]*(?:\([^()]*\)[^()]*)*)\);\Z", r"= \1;", text)


REWRITE = Rewrite(
    slug="scan-row",
    title="Scan each row by a warp",
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "grid-too-small"),
    likely=along_one_axis,
    chance=0.55,
    gain=6.0,
    ranges={"kLanesPerRow": (8, 16, 32)},
)
