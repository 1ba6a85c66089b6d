# SPDX-License-Identifier: Apache-2.0
"""fold-groups-once

Fold groups of neighbouring elements once, for all windows that hold them whole.

Windows of neighbouring outputs, as of a moving average or a running minimum, have all but two of their elements in
common. A block folds groups of consecutive elements once and keeps them in shared memory; each output is then folded
from the whole groups in its window and from the single elements at its ends. A window of 200 elements takes some
thirty steps, also where its size is known only when the program runs.

```cuda
__global__ void smooth(const float* in, float* out, int n, int radius) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  int count = 0;
  for (int k = -radius; k <= radius; ++k) {
    if (i + k >= 0 && i + k < n) {
      sum += in[i + k];
      ++count;
    }
  }
  out[i] = sum / count;
}
void run(const float* in, float* out, int n, int radius) {
  smooth<<<(n + 255) / 256, 256>>>(in, out, n, radius);
}
```

```cuda
constexpr int kThreads = 256;  // threads of a block
constexpr int kOutputs = 4;  // outputs of a thread
constexpr int kTile = kThreads * kOutputs;  // outputs of a block
constexpr int kGroup = 17;  // elements that are folded once; odd
constexpr int kHeld = kGroup * 128;  // elements held at a time

__global__ void smooth(const float* in, float* out, int n, int radius) {
  __shared__ float sumElements[kHeld];
  __shared__ float sumGroups[kHeld / kGroup];
  __shared__ int countElements[kHeld];
  __shared__ int countGroups[kHeld / kGroup];
  const int i0 = blockIdx.x * kTile;
  const int reach = 2 * radius;  // elements of a window after its first
  float sum[kOutputs];
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    sum[o] = 0.0f;
  }
  int count[kOutputs];
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    count[o] = 0;
  }
  for (int r0 = 0; r0 < kTile + reach; r0 += kHeld) {
    for (int r = threadIdx.x; r < kHeld; r += kThreads) {
      int i = i0 + r0 + r;
      float sumOfElement = 0;
      int countOfElement = 0;
      if (i < n + reach) {
        int k = -radius;
        if (i + k >= 0 && i + k < n) {
          sumOfElement += in[i + k];
          ++countOfElement;
        }
      }
      sumElements[r] = sumOfElement;
      countElements[r] = countOfElement;
    }
    __syncthreads();
    for (int g = threadIdx.x; g < kHeld / kGroup; g += kThreads) {
      float sumOfGroup = sumElements[g * kGroup];
      int countOfGroup = countElements[g * kGroup];
      for (int r = 1; r < kGroup; ++r) {
        sumOfGroup += sumElements[g * kGroup + r];
        countOfGroup += countElements[g * kGroup + r];
      }
      sumGroups[g] = sumOfGroup;
      countGroups[g] = countOfGroup;
    }
    __syncthreads();
    #pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      const int own = threadIdx.x + o * kThreads - r0;
      const int last = min(own + reach, kHeld - 1);
      int r = max(own, 0);
      const int whole = (r + kGroup - 1) / kGroup * kGroup;
      for (; r < whole && r <= last; ++r) {
        sum[o] += sumElements[r];
        count[o] += countElements[r];
      }
      for (; r + kGroup <= last + 1; r += kGroup) {
        sum[o] += sumGroups[r / kGroup];
        count[o] += countGroups[r / kGroup];
      }
      for (; r <= last; ++r) {
        sum[o] += sumElements[r];
        count[o] += countElements[r];
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    int i = i0 + threadIdx.x + o * kThreads;
    if (i < n) {
      out[i] = sum[o] / count[o];
    }
  }
}
void run(const float* in, float* out, int n, int radius) {
  smooth<<<(n + kTile - 1) / kTile, kThreads>>>(in, out, n, radius);
}
```

Left alone: windows with weights, folds that keep where the best was found, and elements that are folded by a loop.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.part_writer import STATIC_BYTES, PartWriter, named
from warplens_tools.rewrite.common.reading import View, refusing, require_apart
from warplens_tools.rewrite.common.row_folds import RowFolds, check_elements, read_row_folds
from warplens_tools.rewrite.common.style import indented

_THREADS, _OUTPUTS = 256, 4
#: Odd, so that threads that fold neighbouring groups read other banks; 15 steps at the ends of a window on average.
_GROUP, _GROUPS = 17, 128
#: A window that is known to be as short as this is folded as fast by itself.
_LEAST_REACH = 16


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    launches, outputs = launched_outputs(view)
    if [a.letter for a in outputs.axes] != ["x"]:
        raise Refused("its outputs are not numbered along one axis of the launch")
    found = read_row_folds(view, outputs, outputs.axes[0])
    check_elements(found)
    trips = view.forms.loop(outputs.work[0]).trips
    if trips is not None and trips <= _LEAST_REACH:
        raise Refused("the window is too short to fold groups of it")
    return _Writer(view, launches, found).kernel()


class _Writer(PartWriter):
    def __init__(self, view: View, launches: Launches, found: RowFolds) -> None:
        super().__init__(view, launches, found, "Element")
        style = self.style
        self.threads = style.constant("kThreads", str(_THREADS), "threads of a block")
        self.count = style.constant("kOutputs", str(_OUTPUTS), "outputs of a thread")
        self.tile = style.constant("kTile", f"{self.threads} * {self.count}", "outputs of a block")
        self.group = style.constant("kGroup", str(_GROUP), "elements that are folded once; odd")
        self.most = style.constant("kHeld", f"{self.group} * {_GROUPS}", "elements held at a time")
        self.groups = {n: style.local(named(n, "Groups")) for n in self.held}
        self.number, self.whole = style.local("g"), style.local("whole")
        if self.bytes() * (_GROUP + 1) * _GROUPS > STATIC_BYTES:
            raise Refused("the elements do not fit into shared memory")

    def kernel(self) -> RewriteResult:
        """All edits."""
        shared = []
        for state in self.found.states:
            name, kind = state.declared.name, unqualified(state.declared.type)
            shared.append(f"__shared__ {kind} {self.held[name]}[{self.most}];")
            shared.append(f"__shared__ {kind} {self.groups[name]}[{self.most} / {self.group}];")
        lines = [
            *shared,
            *self.uniform(),
            *self.window(self.tile, "elements"),
            *self.states(self.count),
            *self._chunks(),
            self.tail(f"threadIdx.x + {self.counter} * {self.threads}", self.count),
        ]
        self.relaunch(((self.down, self.tile),), (self.threads,))
        return self.result(lines, "Fold groups of the windows' elements once")

    def _chunks(self) -> list[str]:
        """All elements that the block's windows hold, some at a time."""
        r0, r, g = self.chunk, self.at, self.number
        inner = [
            f"for (int {r} = threadIdx.x; {r} < {self.most}; {r} += {self.threads}) {{",
            indented("\n".join(self._element())),
            "}",
            "__syncthreads();",
            f"for (int {g} = threadIdx.x; {g} < {self.most} / {self.group}; {g} += {self.threads}) {{",
            indented("\n".join(self._group())),
            "}",
            "__syncthreads();",
            self.each(self._window(), self.count),
            "__syncthreads();",
        ]
        head = f"for (int {r0} = 0; {r0} < {self.tile} + {self.reach}; {r0} += {self.most}) {{"
        return [head, indented("\n".join(inner)), "}"]

    def _element(self) -> list[str]:
        return [
            f"{self.down.type} {self.down.name} = {self.first} + {self.chunk} + {self.at};",
            *self.begun(),
            f"if ({self.tests(parts=True)}) {{",
            indented("\n".join(self.folded())),
            "}",
            *(f"{self.held[n]}[{self.at}] = {self.part[n]};" for n in self.held),
        ]

    def _group(self) -> list[str]:
        """One group, from its elements."""
        r, begin, every = self.at, f"{self.number} * {self.group}", self.found.states
        lines, whole = list[str](), {n: named(n, "OfGroup") for n in self.held}
        for state in every:
            name = state.declared.name
            lines.append(f"{unqualified(state.declared.type)} {whole[name]} = {self.held[name]}[{begin}];")
        fold = [
            s.joined(whole[s.declared.name], f"{self.held[s.declared.name]}[{begin} + {r}]") for s in every
        ]
        lines += [f"for (int {r} = 1; {r} < {self.group}; ++{r}) {{", indented("\n".join(fold)), "}"]
        return [*lines, *(f"{self.groups[n]}[{self.number}] = {whole[n]};" for n in self.held)]

    def _window(self) -> list[str]:
        """One output, from the elements and groups that are held."""
        r, last, whole, own = self.at, self.last, self.whole, self.own
        one = self._fold(self.held, r)
        group = self._fold(self.groups, f"{r} / {self.group}")
        return [
            f"const int {own} = threadIdx.x + {self.counter} * {self.threads} - {self.chunk};",
            f"const int {last} = min({own} + {self.reach}, {self.most} - 1);",
            f"int {r} = max({own}, 0);",
            f"const int {whole} = ({r} + {self.group} - 1) / {self.group} * {self.group};",
            f"for (; {r} < {whole} && {r} <= {last}; ++{r}) {{",
            indented(one),
            "}",
            f"for (; {r} + {self.group} <= {last} + 1; {r} += {self.group}) {{",
            indented(group),
            "}",
            f"for (; {r} <= {last}; ++{r}) {{",
            indented(one),
            "}",
        ]

    def _fold(self, arrays: dict[str, str], index: str) -> str:
        return "\n".join(
            s.joined(f"{s.declared.name}[{self.counter}]", f"{arrays[s.declared.name]}[{index}]")
            for s in self.found.states
        )


REWRITE = Rewrite(
    slug="fold-groups-once",
    title="Fold groups of the elements of overlapping windows once",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "low-ilp"),
    useless_at="dram",
    chance=0.5,
    gain=3.0,
    ranges={"kThreads": (128, 256, 512), "kOutputs": (1, 2, 4), "kGroup": (9, 17, 33)},
)
