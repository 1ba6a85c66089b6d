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

Running products, minima and maxima are taken as well, and sums of what is before an element. Other loops over the row
may fold it besides, as for a total that every sum is divided by: they are dealt out to the same lanes. Left alone:
loops that carry anything else from one element to the next, go down, or are left early.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, along_one_axis
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.row_scans import RowScanWriter

_TITLE = "Scan each row by a warp"


@opening
def apply(found: Opened) -> RewriteResult:
    """Let 32 lanes scan what one thread walks."""
    writer = _Writer(found)
    return writer.result(_TITLE, writer.rows.width, writer.lines())


class _Writer(RowScanWriter):
    def lines(self) -> list[str]:
        """What the lanes do for an element each."""
        scan, index = self.scan, self.scan.loop.variable
        inside = f"if ({index} {self.sign} {self.limit}) {{"
        stores = [self.stored(n, self._upto(self.before)) for n in scan.before]
        stores += [self.stored(n, self._upto(self.value)) for n in scan.behind]
        return [
            f"{self.index_type} {index} = {self.first} + {self.rows.lane};",
            f"{scan.type} {self.value} = {self.neutral()};",
            inside,
            *self.indented([*self.declared(), f"{self.value} = {scan.value};"]),
            "}",
            *self.steps(self.before),
            *(self._exclusive() if scan.before else ()),
            inside,
            *self.indented([*self.declared(), *stores]),
            "}",
        ]

    def _exclusive(self) -> list[str]:
        """What is before the lane's own element."""
        empty = self.neutral()
        if empty == self.scan.fold.place:
            raise Refused("what is before the first element of a row is not known")
        kind, other = self.scan.type, f"__shfl_up_sync({self.mask}, {self.value}, 1, {self.rows.width})"
        return [f"{kind} {self.before} = {other};", f"if ({self.rows.lane} == 0) {self.before} = {empty};"]

    def _upto(self, value: str) -> str:
        joined = self.joined(self.scan.fold.place, value)
        return joined if joined.endswith(")") and "(" in joined else f"({joined})"


REWRITE = Rewrite(
    slug="scan-row",
    title=_TITLE,
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "grid-too-small"),
    likely=along_one_axis,
    chance=0.55,
    gain=6.0,
    ranges={"kLanesPerRow": (8, 16, 32)},
)
