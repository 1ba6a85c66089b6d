# SPDX-License-Identifier: Apache-2.0
"""scan-columns

Give the running sum of a column to several threads of a block.

Threads that walk down a column each, and store every sum on the way, read neighbours side by side but are few: as many
as there are columns, and each waits for its last sum. Of a block's threads that have one column each takes a stretch of
it: it first adds that up alone, the stretches' sums meet in shared memory, and it then walks its stretch again from
what the ones before it came to.

```cuda
__global__ void column_scan(float* table, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float sum = 0.0f;
  for (int i = 0; i < rows; ++i) {
    sum += table[i * cols + col];
    table[i * cols + col] = sum;
  }
}
void run(float* table, int rows, int cols) {
  column_scan<<<(cols + 127) / 128, 128>>>(table, rows, cols);
}
```

```cuda
constexpr int kColumns = 32;

constexpr int kParts = 16;

__global__ void column_scan(float* table, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float sum = 0.0f;
  __shared__ float totals[kParts][kColumns];
  const int each = (rows + kParts - 1) / kParts;
  const int from = threadIdx.y * each;
  const int end = from + each < rows ? from + each : rows;
  float total = 0.0f;
  for (int i = from; i < end; ++i) {
    total = total + table[i * cols + col];
  }
  totals[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  for (int part = 0; part < threadIdx.y; ++part) {
    sum = sum + totals[part][threadIdx.x];
  }
  for (int i = from; i < end; ++i) {
    sum += table[i * cols + col];
    table[i * cols + col] = sum;
  }
}
void run(float* table, int rows, int cols) {
  column_scan<<<(cols + kColumns - 1) / kColumns, dim3(kColumns, kParts)>>>(table, rows, cols);
}
```

Running products, minima and maxima are taken as well. What the kernel stores behind its loop is stored by the last of a
column's threads, which has the whole. Left alone: what [scan-row](scan-row.md) leaves alone, and loops that do not walk
down columns that are neighbours.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.column_blocks import RANGES, ColumnBlocks
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import ColumnGroup
from warplens_tools.rewrite.common.kernel_reader import Store
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.scans import Scan, ScanWriter, read_scan


@opening
def apply(found: Opened) -> RewriteResult:
    """Let the threads of a block that have one column scan a stretch of it each."""
    blocks = ColumnBlocks(found)
    scan = read_scan(found)
    blocks.check_neighbours([scan.loop.body])
    columns, parts, definitions = blocks.relaunch()
    writer = _Writer(found, scan, columns, parts)
    writer.put(writer.lines())
    _guard(found, scan, parts)
    GroupEdits(found.edits, ColumnGroup(found.style, parts, columns)).define_helpers(*definitions)
    edits = found.all_edits()
    caveat = "" if scan.is_exact else REORDERED
    return RewriteResult(edits, title="Scan each column by several threads of a block", caveat=caveat)


def _guard(found: Opened, scan: Scan, parts: str) -> None:
    """What is stored before the loop the first of a column's threads stores, what is stored behind it the last."""
    reader, loop = found.reader, scan.loop.node
    inside = list(reader.stores(loop))
    read = {name for name in reader.names if any(_is_read(n, inside) for n in _within(found, name, loop))}
    for statement in walk(reader.body):
        outside = statement.end_byte <= loop.start_byte or statement.start_byte >= loop.end_byte
        if statement.type != "expression_statement" or not outside:
            continue
        if reader.has_atomic(statement):
            raise Refused("it has an atomic beside its loop")
        stored = {s.array for s in reader.stores(statement) if s.space != "local"}
        if not stored:
            continue
        before = statement.end_byte <= loop.start_byte
        if stored & read or (not before and stored & {s.array for s in inside}):
            raise Refused("it stores beside its loop what the loop has to do with")
        found.edits.guard([statement], f"threadIdx.y == {'0' if before else f'{parts} - 1'}")


def _within(found: Opened, name: str, loop: Node) -> list[Node]:
    return [n for n in found.reader.names[name] if loop.start_byte <= n.start_byte < loop.end_byte]


def _is_read(name: Node, stores: list[Store]) -> bool:
    """Whether an occurrence is more than the array that is stored to."""
    targets = [s.target for s in stores if not s.updates]
    return not any(t.start_byte == name.start_byte for t in targets)


class _Writer(ScanWriter):
    def __init__(self, found: Opened, scan: Scan, columns: str, parts: str) -> None:
        super().__init__(found, scan)
        self.columns, self.parts = columns, parts
        fresh = found.edits.fresh_here
        self.totals, self.total, self.part = fresh("totals"), fresh("total"), fresh("part")
        self.each, self.start, self.end = fresh("each"), fresh("from"), fresh("end")
        integer = integer_type(self.index_type)
        if self.begin != "0" and (integer is None or not integer.signed):
            raise Refused("how many elements a column has is not known")

    def lines(self) -> list[str]:
        """The loop, in the place of the old one."""
        scan, kind, index = self.scan, self.scan.type, self.scan.loop.variable
        whole = self.limit if self.sign == "<" else f"{self.limit} + 1"
        count = whole if self.begin == "0" else f"{whole} - ({self.begin})"
        start = f"threadIdx.y * {self.each}"
        start = start if self.begin == "0" else f"{self.begin} + static_cast<int>(threadIdx.y) * {self.each}"
        head = f"for ({self.index_type} {index} = {self.start}; {index} < {self.end}; ++{index}) {{"
        taken = f"{self.total} = {self.folded(self.total)};"
        stop = f"{self.start} + {self.each} < {whole} ? {self.start} + {self.each} : {whole}"
        place, other = scan.fold.place, f"{self.totals}[{self.part}][threadIdx.x]"
        return [
            f"__shared__ {kind} {self.totals}[{self.parts}][{self.columns}];",
            f"const {self.index_type} {self.each} = ({count} + {self.parts} - 1) / {self.parts};",
            f"const {self.index_type} {self.start} = {start};",
            f"const {self.index_type} {self.end} = {stop};",
            f"{kind} {self.total} = {self.neutral()};",
            head,
            *self.indented([*self.declared(), taken]),
            "}",
            f"{self.totals}[threadIdx.y][threadIdx.x] = {self.total};",
            "__syncthreads();",
            f"for (int {self.part} = 0; {self.part} < threadIdx.y; ++{self.part}) {{",
            *self.indented([f"{place} = {self.joined(place, other)};"]),
            "}",
            head,
            *self.indented(self._body()),
            "}",
        ]

    def _body(self) -> list[str]:
        """The loop's own statements."""
        body = self.scan.loop.body
        nodes = body.named_children if body.type == "compound_statement" else [body]
        return [self.tree.text_of(n) for n in nodes]


REWRITE = Rewrite(
    slug="scan-columns",
    title="Scan each column by several threads of a block",
    apply=apply,
    answers=("grid-too-small", "low-ilp"),
    chance=0.55,
    gain=5.0,
    ranges=RANGES,
)
