# SPDX-License-Identifier: Apache-2.0
"""fold-rows-once

Fold each row of overlapping windows once, for all outputs whose windows hold it.

A minimum, a maximum or a sum over a window folds its rows. Outputs below each other have most of their rows in
common: a block can fold every row once for each of its columns, keep that in shared memory, and fold the rows of each
window from there. A window of seven by seven takes fourteen steps instead of forty-nine, also where its size is known
only when the program runs.

```cuda
__global__ void erode(const unsigned char* in, unsigned char* out, int width, int height, int radius) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  unsigned char least = 255;
  for (int j = -radius; j <= radius; ++j) {
    for (int i = -radius; i <= radius; ++i) {
      int xx = min(max(x + i, 0), width - 1);
      int yy = min(max(y + j, 0), height - 1);
      if (in[yy * width + xx] < least) least = in[yy * width + xx];
    }
  }
  out[y * width + x] = least;
}
void run(const unsigned char* in, unsigned char* out, int width, int height, int radius) {
  dim3 block(16, 16), grid((width + 15) / 16, (height + 15) / 16);
  erode<<<grid, block>>>(in, out, width, height, radius);
}
```

```cuda
constexpr int kThreadsX = 32;  // threads of a block along x
constexpr int kThreadsY = 8;  // threads of a block along y
constexpr int kOutputs = 8;  // outputs of a thread along y
constexpr int kTile = kThreadsY * kOutputs;  // outputs of a block along y
constexpr int kRows = kTile + 16;  // folded rows held at a time

__global__ void erode(const unsigned char* in, unsigned char* out, int width, int height, int radius) {
  __shared__ unsigned char leastRows[kRows][kThreadsX];
  int x = blockIdx.x * kThreadsX + threadIdx.x;
  const int y0 = blockIdx.y * kTile;
  const int reach = 2 * radius;  // rows of a window after its first
  unsigned char least[kOutputs];
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    least[o] = 255;
  }
  for (int r0 = 0; r0 < kTile + reach; r0 += kRows) {
    for (int r = threadIdx.y; r < kRows; r += kThreadsY) {
      int y = y0 + r0 + r;
      if (x < width && y < height + reach) {
        unsigned char leastOfRow = 255;
        int j = -radius;
        for (int i = -radius; i <= radius; ++i) {
          int xx = min(max(x + i, 0), width - 1);
          int yy = min(max(y + j, 0), height - 1);
          if (in[yy * width + xx] < leastOfRow) leastOfRow = in[yy * width + xx];
        }
        leastRows[r][threadIdx.x] = leastOfRow;
      }
    }
    __syncthreads();
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      const int own = threadIdx.y + o * kThreadsY;
      const int last = min(own + reach, r0 + kRows - 1);
      for (int r = max(own, r0); r <= last; ++r) {
        if (leastRows[r - r0][threadIdx.x] < least[o]) least[o] = leastRows[r - r0][threadIdx.x];
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    int y = y0 + threadIdx.y + o * kThreadsY;
    if (x < width && y < height) {
      out[y * width + x] = least[o];
    }
  }
}
void run(const unsigned char* in, unsigned char* out, int width, int height, int radius) {
  dim3 block(kThreadsX, kThreadsY), grid((width + kThreadsX - 1) / kThreadsX, (height + kTile - 1) / kTile);
  erode<<<grid, block>>>(in, out, width, height, radius);
}
```

What lies outside may be clamped or left out. Left alone: windows with weights that change from row to row, whose rows
differ in length, and folds that keep where the best was found.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target, in_a_plane
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, launched_outputs
from warplens_tools.rewrite.common.part_writer import STATIC_BYTES, PartWriter, added
from warplens_tools.rewrite.common.reading import View, refusing, require_apart
from warplens_tools.rewrite.common.row_folds import RowFolds, check_rows, read_row_folds
from warplens_tools.rewrite.common.style import indented

#: A warp's width, as neighbours read neighbours; 64 rows of outputs, so that a window of seven rows folds a tenth more.
_THREADS, _OUTPUTS = (32, 8), 8
#: Rows beyond the outputs' own that are folded in the same step: windows of up to seventeen rows take one.
_MORE = 16


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    launches, outputs = launched_outputs(view)
    axes = {a.letter: a for a in outputs.axes}
    if set(axes) != {"x", "y"}:
        raise Refused("its outputs are not numbered along two axes of the launch")
    found = read_row_folds(view, outputs, axes["y"])
    check_rows(view, found)
    return _Writer(view, launches, found, axes["x"]).kernel()


class _Writer(PartWriter):
    def __init__(self, view: View, launches: Launches, found: RowFolds, along: Axis) -> None:
        super().__init__(view, launches, found, "Row")
        self.along, style = along, self.style
        self.threads = [
            style.constant(f"kThreads{a}", str(n), f"threads of a block along {axis.name}")
            for a, n, axis in zip("XY", _THREADS, (along, self.down), strict=True)
        ]
        self.count = style.constant(
            "kOutputs", str(self._outputs()), f"outputs of a thread along {self.down.name}"
        )
        self.tile = style.constant(
            "kTile", f"{self.threads[1]} * {self.count}", f"outputs of a block along {self.down.name}"
        )
        self.rows = style.constant("kRows", f"{self.tile} + {_MORE}", "folded rows held at a time")

    def _outputs(self) -> int:
        """Outputs of a thread: as many as leave room for what rows fold into.

        Raises:
            Refused: not even one does.
        """
        outputs = _OUTPUTS
        while self.bytes() * _THREADS[0] * (_THREADS[1] * outputs + _MORE) > STATIC_BYTES:
            outputs //= 2
            if not outputs:
                raise Refused("the folded rows do not fit into shared memory")
        return outputs

    def kernel(self) -> RewriteResult:
        """All edits."""
        x = self.along
        shared = [
            f"__shared__ {unqualified(s.declared.type)} {self.held[s.declared.name]}[{self.rows}][{self.threads[0]}];"
            for s in self.found.states
        ]
        lines = [
            *shared,
            *self.uniform(),
            f"{x.type} {x.name} = {self.block(x)} * {self.threads[0]} + threadIdx.x{added(x.offset)};",
            *self.window(self.tile, "rows"),
            *self.states(self.count),
            *self._chunks(),
            self.tail(f"threadIdx.y + {self.counter} * {self.threads[1]}", self.count),
        ]
        self.relaunch(((x, self.threads[0]), (self.down, self.tile)), self.threads)
        return self.result(lines, "Fold each row of the windows once")

    def _chunks(self) -> list[str]:
        """All rows that the block's windows hold, some at a time: fold them, then the windows from them."""
        r0, r = self.chunk, self.at
        inner = [
            f"for (int {r} = threadIdx.y; {r} < {self.rows}; {r} += {self.threads[1]}) {{",
            indented("\n".join(self._row())),
            "}",
            "__syncthreads();",
            self.each(self._window(), self.count),
            "__syncthreads();",
        ]
        head = f"for (int {r0} = 0; {r0} < {self.tile} + {self.reach}; {r0} += {self.rows}) {{"
        return [head, indented("\n".join(inner)), "}"]

    def _row(self) -> list[str]:
        inner = [*self.begun(), *self.folded()]
        inner += [f"{self.held[n]}[{self.at}][threadIdx.x] = {self.part[n]};" for n in self.held]
        return [
            f"{self.down.type} {self.down.name} = {self.first} + {self.chunk} + {self.at};",
            f"if ({self.tests(parts=True)}) {{",
            indented("\n".join(inner)),
            "}",
        ]

    def _window(self) -> list[str]:
        """One output, from the rows that are held."""
        r, own, last = self.at, self.own, self.last
        fold = [
            s.joined(
                f"{s.declared.name}[{self.counter}]",
                f"{self.held[s.declared.name]}[{r} - {self.chunk}][threadIdx.x]",
            )
            for s in self.found.states
        ]
        return [
            f"const int {own} = threadIdx.y + {self.counter} * {self.threads[1]};",
            f"const int {last} = min({own} + {self.reach}, {self.chunk} + {self.rows} - 1);",
            f"for (int {r} = max({own}, {self.chunk}); {r} <= {last}; ++{r}) {{",
            indented("\n".join(fold)),
            "}",
        ]


REWRITE = Rewrite(
    slug="fold-rows-once",
    title="Fold each row of overlapping windows once",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "low-ilp"),
    useless_at="dram",
    likely=in_a_plane,
    chance=0.6,
    gain=3.0,
    ranges={"kThreadsX": (16, 32, 64), "kThreadsY": (4, 8, 16), "kOutputs": (2, 4, 8, 16)},
)
