# SPDX-License-Identifier: Apache-2.0
"""scan-row-parts

Give the running sum of a row to a warp, several elements a lane.

As [scan-row](scan-row.md), but each lane first adds up several neighbouring elements by itself, whose loads do not wait
for each other. The lanes then exchange one sum for all of these, and a row has fewer steps that follow one another.

```cuda
__global__ void cumsum(const int* in, int* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int sum = 0;
  for (int j = 0; j < cols; ++j) {
    sum += in[row * cols + j];
    out[row * cols + j] = sum;
  }
}
void run(const int* in, int* out, int rows, int cols) {
  cumsum<<<(rows + 255) / 256, 256>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kLanesPerRow = 32;

constexpr int kItemsPerLane = 4;

__global__ void cumsum(const int* in, int* out, int rows, int cols) {
  const int lane = threadIdx.x % kLanesPerRow;
  int row = blockIdx.x * (blockDim.x / kLanesPerRow) + threadIdx.x / kLanesPerRow;
  if (row >= rows) return;
  int sum = 0;
  const unsigned lanes = 0xffffffffu >> (32 - kLanesPerRow) << (threadIdx.x % 32 / kLanesPerRow * kLanesPerRow);
  for (int first = 0; first < cols; first += kLanesPerRow * kItemsPerLane) {
    int values[kItemsPerLane];
    int value = 0;
    #pragma unroll
    for (int item = 0; item < kItemsPerLane; ++item) {
      int j = first + lane * kItemsPerLane + item;
      if (j < cols) {
        value = value + in[row * cols + j];
      }
      values[item] = value;
    }
    for (int offset = 1; offset < kLanesPerRow; offset *= 2) {
      const int other = __shfl_up_sync(lanes, value, offset, kLanesPerRow);
      if (lane >= offset) value = other + value;
    }
    int before = __shfl_up_sync(lanes, value, 1, kLanesPerRow);
    before = lane == 0 ? sum : sum + before;
    #pragma unroll
    for (int item = 0; item < kItemsPerLane; ++item) {
      int j = first + lane * kItemsPerLane + item;
      if (j < cols) {
        const int upto = before + values[item];
        out[row * cols + j] = upto;
      }
    }
    sum = sum + __shfl_sync(lanes, value, kLanesPerRow - 1, kLanesPerRow);
  }
}
void run(const int* in, int* out, int rows, int cols) {
  cumsum<<<(rows + 255) / 256 * kLanesPerRow, 256>>>(in, out, rows, cols);
}
```

Left alone: what [scan-row](scan-row.md) leaves alone.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Rewrite, RewriteResult, along_one_axis
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.row_scans import RowScanWriter

_TITLE = "Scan each row by a warp, several elements a lane"
#: A 16-byte line's worth of floats for each lane.
_ITEMS = 4


@opening
def apply(found: Opened) -> RewriteResult:
    """Let 32 lanes with several elements each scan what one thread walks."""
    writer = _Writer(found)
    return writer.result(_TITLE, f"{writer.rows.width} * {writer.items}", writer.lines(), writer.definition)


class _Writer(RowScanWriter):
    def __init__(self, found: Opened) -> None:
        super().__init__(found)
        self.items, self.definition = found.constant(_ITEMS, "items", "per", "lane")
        fresh = found.edits.fresh_here
        self.values, self.item = fresh("values"), fresh("item")
        self.upto, self.other = fresh("upto"), fresh("other")

    def lines(self) -> list[str]:
        """What the lanes do for some elements each."""
        kind, carry, lane = self.scan.type, self.scan.fold.place, self.rows.lane
        shifted = f"__shfl_up_sync({self.mask}, {self.value}, 1, {self.rows.width})"
        return [
            f"{kind} {self.values}[{self.items}];",
            f"{kind} {self.value} = {self.neutral()};",
            *self._each(
                [*self.declared(), f"{self.value} = {self.folded(self.value)};"],
                f"{self.values}[{self.item}] = {self.value};",
            ),
            *self.steps(self.other),
            f"{kind} {self.before} = {shifted};",
            f"{self.before} = {lane} == 0 ? {carry} : {self.joined(carry, self.before)};",
            *self._each(self._stores()),
        ]

    def _each(self, inside: list[str], *behind: str) -> list[str]:
        """Statements for each of a lane's elements that the row has, and for all of them."""
        index = self.scan.loop.variable
        lines = [
            f"{self.index_type} {index} = {self.first} + {self.rows.lane} * {self.items} + {self.item};",
            f"if ({index} {self.sign} {self.limit}) {{",
            *self.indented(inside),
            "}",
            *behind,
        ]
        head = f"for (int {self.item} = 0; {self.item} < {self.items}; ++{self.item}) {{"
        return ["#pragma unroll", head, *self.indented(lines), "}"]

    def _stores(self) -> list[str]:
        before = f"{self.item} == 0 ? {self.before} : "
        before += self.joined(self.before, f"{self.values}[{self.item} - 1]")
        upto = self.joined(self.before, f"{self.values}[{self.item}]")
        lines = self.declared()
        for nodes, value in ((self.scan.before, before), (self.scan.behind, upto)):
            name = self.upto if nodes is self.scan.behind else f"{self.before}Own"
            if nodes:
                lines.append(f"const {self.scan.type} {name} = {value};")
            lines += [self.stored(n, name) for n in nodes]
        return lines


REWRITE = Rewrite(
    slug="scan-row-parts",
    title=_TITLE,
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "grid-too-small"),
    likely=along_one_axis,
    chance=0.6,
    gain=8.0,
    ranges={"kLanesPerRow": (8, 16, 32), "kItemsPerLane": (2, 4, 8, 16)},
)
