# SPDX-License-Identifier: Apache-2.0
"""pairs-in-tiles

Compare each thread's item with several others at a time, from tiles in shared memory.

A search for the nearest centre, code or neighbour walks all others for each item, and the features of both for every
pair: two loads for each difference, and neighbouring threads' items are a row apart. A block brings a tile of its
items' features and one of some others' together; each thread then works out several pairs at once, in registers, with
one load of its own feature for all of them. The pairs are compared in their order.

```cuda
__global__ void nearest(const float* points, const float* centers, int* labels, int n, int k, int dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 3.0e38f;
  int label = 0;
  for (int c = 0; c < k; ++c) {
    float dist = 0.0f;
    for (int f = 0; f < dim; ++f) {
      float diff = points[i * dim + f] - centers[c * dim + f];
      dist += diff * diff;
    }
    if (dist < best) {
      best = dist;
      label = c;
    }
  }
  labels[i] = label;
}

void run(const float* points, const float* centers, int* labels, int n, int k, int dim) {
  nearest<<<(n + 255) / 256, 256>>>(points, centers, labels, n, k, dim);
}
```

```cuda
constexpr int kTileDepth = 16;  // steps of f held at a time
constexpr int kItems = 128;  // items of a block, one for each thread
constexpr int kPairs = 16;  // values of c at a time

__global__ void nearest(const float* points, const float* centers, int* labels, int n, int k, int dim) {
  __shared__ float tilePoints[kTileDepth][kItems + 4];
  __shared__ float tileCenters[kTileDepth][kPairs + 4];
  const int i0 = blockIdx.x * kItems;
  float best = 3.0e38f;
  int label = 0;
  for (int c0 = 0; c0 < k; c0 += kPairs) {
    float dist[kPairs] = {};
    for (int f0 = 0; f0 < dim; f0 += kTileDepth) {
      for (int t = threadIdx.x; t < kItems * kTileDepth; t += kItems) {
        int i = i0 + t / kTileDepth;
        int f = f0 + t % kTileDepth;
        tilePoints[t % kTileDepth][t / kTileDepth] = i < n && f < dim ? points[i * dim + f] : 0.0f;
      }
      for (int t = threadIdx.x; t < kPairs * kTileDepth; t += kItems) {
        int c = c0 + t / kTileDepth;
        int f = f0 + t % kTileDepth;
        tileCenters[t % kTileDepth][t / kTileDepth] = c < k && f < dim ? centers[c * dim + f] : 0.0f;
      }
      __syncthreads();
      #pragma unroll
      for (int ff = 0; ff < kTileDepth; ++ff) {
        #pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          float diff = tilePoints[ff][threadIdx.x] - tileCenters[ff][j];
          dist[j] += diff * diff;
        }
      }
      __syncthreads();
    }
    #pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      int c = c0 + j;
      int i = i0 + threadIdx.x;
      if (c < k && i < n) {
        if (dist[j] < best) {
          best = dist[j];
          label = c;
        }
      }
    }
  }
  int i = i0 + threadIdx.x;
  if (i < n) labels[i] = label;
}

void run(const float* points, const float* centers, int* labels, int n, int k, int dim) {
  nearest<<<(n + kItems - 1) / kItems, kItems>>>(points, centers, labels, n, k, dim);
}
```

Left alone: a loop over others that is left early or begins with anything but declarations, and one in which an
element rests on both the item and the other.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import declared_in, unqualified
from warplens_tools.rewrite.common.item_pairs import ItemPairs, read_item_pairs, stores_pairs
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.reading import (
    View,
    field,
    has_barrier,
    refusing,
    renamed,
)
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import guarded, indented
from warplens_tools.rewrite.common.tile_sides import Shape, Side
from warplens_tools.rewrite.common.tile_writer import TileWriter

#: Items of a block, pairs of a thread at a time, and features held at a time: one load of shared memory for a thread's
#: own feature and four of 16 bytes feed sixteen differences.
_ITEMS, _PAIRS, _DEPTH = 128, 16, 16


class _OtherSide(Side, frozen=True):
    """The others that a thread works on at a time: all of the tile."""

    def place(self) -> str:
        return self.counter


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if has_barrier(view) or view.kernel.arrays:
        raise Refused("the kernel shares memory already")
    launches, outputs = launched_outputs(view)
    pairs = read_item_pairs(view, outputs)
    features = view.value(field(pairs.product.condition, "right")) or _DEPTH
    others = view.value(field(pairs.condition, "right")) or _PAIRS
    shape = Shape(threads=(_ITEMS, 1), outputs=(1, min(others, _PAIRS)), depth=min(features, _DEPTH))
    caveat = "undefined results if two of the buffers overlap" if stores_pairs(view, pairs) else ""
    return _Writer(view, pairs, launches, shape).result("Compare several pairs at a time from tiles", caveat)


class _Writer(TileWriter):
    """The new kernel: tiles of items and of others, and the pairs of a thread."""

    def __init__(self, view: View, pairs: ItemPairs, launches: Launches, shape: Shape) -> None:
        self.pairs = pairs
        super().__init__(view, pairs.product, launches, shape)
        self.thread, self.threads = "threadIdx.x", self.sides[0].threads

    def _sides(self) -> list[Side]:
        style, item, other = self.style, self.pairs.item, self.pairs.other
        items = style.constant("kItems", str(self.shape.threads[0]), "items of a block, one for each thread")
        several = style.constant("kPairs", str(self.shape.outputs[1]), f"values of {other.name} at a time")
        first, second = style.local(f"{item.name}0"), style.local(f"{other.name}0")
        counter = style.local("j")
        return [
            Side(item, item.letter, item.limit, items, "", items, first, ""),
            _OtherSide(other, "", other.limit, "1", several, several, second, counter),
        ]

    def _relaunch(self) -> None:
        item = self.sides[0]
        if item.letter != "x":
            raise Refused("its items are not numbered along x")
        for launch in self.launches.read():
            limit = host_text(self.view, self.launches, launch, item.limit)
            before = f" - {item.axis.offset}" if item.axis.offset else ""
            self.launches.set(launch.grid, {0: f"({limit}{before} + {item.tile} - 1) / {item.tile}"})
            self.launches.set(launch.block, {0: item.threads})

    def _body(self) -> str:
        item, other = self.sides
        kind = unqualified(self.pairs.type)
        head = [self._kept(d) for d in self.outputs.declared if self._is_uniform(d)]
        head += [f"if (!({c})) return;" for c in self.outputs.uniform]
        head += [self._origin(item), *(self._kept(d) for d in self.pairs.kept)]
        condition = renamed(self.view.written(self.pairs.condition), {other.axis.name: other.first})
        start = (
            f"for ({kind} {other.first} = {self.pairs.first}; {condition}; {other.first} += {other.tile}) {{"
        )
        inner = "\n".join(p for p in (self._states(), self._loop(), self._tail()) if p)
        parts = [self._shared(), "\n".join(head), start, indented(inner), "}", self._behind()]
        return "\n".join(p for p in parts if p)

    def _behind(self) -> str:
        """What follows the loop over others."""
        item, other, nodes = *self.sides, self.pairs.after
        if not nodes:
            return ""
        names = frozenset[str]().union(*(self.view.names(n) for n in nodes))
        own = {d.name for n in nodes if n.type == "declaration" for d in declared_in(self.view, n)}
        lines = [self.style.code(self.view.written(n)) for n in nodes]
        head = self._declarations(names - own - {other.axis.name}, {item.axis.name})
        return "\n".join([*head, guarded(f"{item.axis.name} < {item.limit}", lines)])


REWRITE = Rewrite(
    slug="pairs-in-tiles",
    title="Compare several pairs at a time from tiles in shared memory",
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "uncoalesced-global-read", "small-register-tile"),
    useless_at="dram",
    chance=0.6,
    gain=8.0,
    ranges={"kItems": (64, 128, 256), "kPairs": (4, 8, 16, 32), "kTileDepth": (8, 16, 32)},
)
