# SPDX-License-Identifier: Apache-2.0
"""nearest-rows

Compare rows with rows in tiles, a block of pairs a thread, and join what was found for each.

A search for the nearest centre, code or neighbour, and sums over all pairs, are products of matrices whose results are folded
at once. Rows of both arrays come in vectors, tiles of them take turns in two stages, and a thread works out 4 by 8 pairs in
registers; it keeps what it found for each of its items, and the threads of an item join that by shuffles. Of equal ones the
first is found, or the last, as before.

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
constexpr int kPairDepth = 16;  // steps of f held at a time
constexpr int kPairThreadsX = 16;  // threads of a block along c
constexpr int kPairOutputsX = 8;  // values of c that a thread has
constexpr int kPairTileX = kPairThreadsX * kPairOutputsX;
constexpr int kPairThreadsY = 16;  // threads of a block along i
constexpr int kPairOutputsY = 4;  // values of i that a thread has
constexpr int kPairTileY = kPairThreadsY * kPairOutputsY;
constexpr int kPairBlocks = 2;  // of a multiprocessor at a time, at least

__global__ void __launch_bounds__(kPairThreadsX * kPairThreadsY, kPairBlocks) nearest(const float* points, const float* centers, int* labels, int n, int k, int dim) {
  __shared__ __align__(16) float tilePoints[2][kPairDepth][kPairTileY + 4];
  __shared__ __align__(16) float tileCenters[2][kPairDepth][kPairTileX + 4];
  const int thread = threadIdx.y * kPairThreadsX + threadIdx.x;
  const int i0 = blockIdx.x * kPairTileY;
  float best[kPairOutputsY];
  #pragma unroll
  for (int i2 = 0; i2 < kPairOutputsY; ++i2) {
    best[i2] = 3.0e38f;
  }
  int label[kPairOutputsY] = {};
  for (int c0 = 0; c0 < k; c0 += kPairTileX) {
    float dist[kPairOutputsY][kPairOutputsX] = {};
    constexpr int partsPoints = (kPairTileY * kPairDepth / 4 + kPairThreadsX * kPairThreadsY - 1) / (kPairThreadsX * kPairThreadsY);
    alignas(16) float nextPoints[partsPoints][4];
    constexpr int partsCenters = (kPairTileX * kPairDepth / 4 + kPairThreadsX * kPairThreadsY - 1) / (kPairThreadsX * kPairThreadsY);
    alignas(16) float nextCenters[partsCenters][4];
    auto fetch = [&](int f0) {
      #pragma unroll
      for (int p = 0; p < partsPoints; ++p) {
        const int t = thread + p * (kPairThreadsX * kPairThreadsY);
        {
          int i = i0 + t / (kPairDepth / 4);
          int f = f0 + t % (kPairDepth / 4) * 4;
          if (t < kPairTileY * kPairDepth / 4 && i < n && f + 3 < dim && reinterpret_cast<size_t>(&points[i * dim + f]) % 16 == 0) {
            *reinterpret_cast<float4*>(nextPoints[p]) = *reinterpret_cast<const float4*>(&points[i * dim + f]);
            continue;
          }
        }
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          int i = i0 + t / (kPairDepth / 4);
          int f = f0 + t % (kPairDepth / 4) * 4 + e;
          nextPoints[p][e] = t < kPairTileY * kPairDepth / 4 && i < n && f < dim ? points[i * dim + f] : 0.0f;
        }
      }
      #pragma unroll
      for (int p = 0; p < partsCenters; ++p) {
        const int t = thread + p * (kPairThreadsX * kPairThreadsY);
        {
          int c = c0 + t / (kPairDepth / 4);
          int f = f0 + t % (kPairDepth / 4) * 4;
          if (t < kPairTileX * kPairDepth / 4 && c < k && f + 3 < dim && reinterpret_cast<size_t>(&centers[c * dim + f]) % 16 == 0) {
            *reinterpret_cast<float4*>(nextCenters[p]) = *reinterpret_cast<const float4*>(&centers[c * dim + f]);
            continue;
          }
        }
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          int c = c0 + t / (kPairDepth / 4);
          int f = f0 + t % (kPairDepth / 4) * 4 + e;
          nextCenters[p][e] = t < kPairTileX * kPairDepth / 4 && c < k && f < dim ? centers[c * dim + f] : 0.0f;
        }
      }
    };
    auto keep = [&](int stage) {
      #pragma unroll
      for (int p = 0; p < partsPoints; ++p) {
        const int t = thread + p * (kPairThreadsX * kPairThreadsY);
        if (t < kPairTileY * kPairDepth / 4) {
          #pragma unroll
          for (int e = 0; e < 4; ++e) tilePoints[stage][t % (kPairDepth / 4) * 4 + e][t / (kPairDepth / 4)] = nextPoints[p][e];
        }
      }
      #pragma unroll
      for (int p = 0; p < partsCenters; ++p) {
        const int t = thread + p * (kPairThreadsX * kPairThreadsY);
        if (t < kPairTileX * kPairDepth / 4) {
          #pragma unroll
          for (int e = 0; e < 4; ++e) tileCenters[stage][t % (kPairDepth / 4) * 4 + e][t / (kPairDepth / 4)] = nextCenters[p][e];
        }
      }
    };
    fetch(0);
    keep(0);
    __syncthreads();
    int now = 0;
    for (int f0 = 0; f0 < dim; f0 += kPairDepth) {
      const bool more = f0 + kPairDepth < dim;
      if (more) fetch(f0 + kPairDepth);
      #pragma unroll
      for (int ff = 0; ff < kPairDepth; ++ff) {
        alignas(16) float ownPoints[kPairOutputsY];
        #pragma unroll
        for (int i2 = 0; i2 < kPairOutputsY; i2 += 4) {
          *reinterpret_cast<float4*>(&ownPoints[i2]) = *reinterpret_cast<const float4*>(&tilePoints[now][ff][i2 / 4 * (kPairThreadsY * 4) + threadIdx.y * 4]);
        }
        alignas(16) float ownCenters[kPairOutputsX];
        #pragma unroll
        for (int j = 0; j < kPairOutputsX; j += 4) {
          *reinterpret_cast<float4*>(&ownCenters[j]) = *reinterpret_cast<const float4*>(&tileCenters[now][ff][j / 4 * (kPairThreadsX * 4) + threadIdx.x * 4]);
        }
        #pragma unroll
        for (int i2 = 0; i2 < kPairOutputsY; ++i2) {
          #pragma unroll
          for (int j = 0; j < kPairOutputsX; ++j) {
            float diff = ownPoints[i2] - ownCenters[j];
            dist[i2][j] += diff * diff;
          }
        }
      }
      if (more) keep(now ^ 1);
      __syncthreads();
      now ^= 1;
    }
    #pragma unroll
    for (int i2 = 0; i2 < kPairOutputsY; ++i2) {
      #pragma unroll
      for (int j = 0; j < kPairOutputsX; ++j) {
        int i = i0 + i2 / 4 * (kPairThreadsY * 4) + threadIdx.y * 4 + i2 % 4;
        int c = c0 + j / 4 * (kPairThreadsX * 4) + threadIdx.x * 4 + j % 4;
        if (i < n && c < k) {
          if (dist[i2][j] < best[i2]) {
            best[i2] = dist[i2][j];
            label[i2] = c;
          }
        }
      }
    }
  }
  #pragma unroll
  for (int i2 = 0; i2 < kPairOutputsY; ++i2) {
    for (int offset = kPairThreadsX / 2; offset > 0; offset /= 2) {
      const float otherBest = __shfl_xor_sync(0xffffffff, best[i2], offset);
      const int otherPlace = __shfl_xor_sync(0xffffffff, label[i2], offset);
      if (otherBest < best[i2] || (otherBest == best[i2] && otherPlace < label[i2])) {
        best[i2] = otherBest;
        label[i2] = otherPlace;
      }
    }
  }
  #pragma unroll
  for (int i2 = 0; i2 < kPairOutputsY; ++i2) {
    int i = i0 + i2 / 4 * (kPairThreadsY * 4) + threadIdx.y * 4 + i2 % 4;
    if (threadIdx.x == 0 && i < n) labels[i] = label[i2];
  }
}

void run(const float* points, const float* centers, int* labels, int n, int k, int dim) {
  nearest<<<(n + kPairTileY - 1) / kPairTileY, dim3(kPairThreadsX, kPairThreadsY)>>>(points, centers, labels, n, k, dim);
}
```

Left alone: what [pairs-in-tiles](../rewrites/pairs-in-tiles.md) leaves alone, and whatever is more than folded from pairs, as the
five nearest are. Sums are added up in another order.
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.idioms.common.pair_writer import PairWriter
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.item_pairs import read_item_pairs, stores_pairs
from warplens_tools.rewrite.common.outputs import launched_outputs
from warplens_tools.rewrite.common.reading import View, has_barrier, refusing
from warplens_tools.rewrite.common.reductions import IDEMPOTENT

TITLE = "Compare rows with rows in tiles, a block of pairs a thread"
_OVERLAP = "undefined results if two of the buffers overlap"


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if has_barrier(view) or view.kernel.arrays:
        raise Refused("the kernel shares memory already")
    launches, outputs = launched_outputs(view)
    pairs = read_item_pairs(view, outputs)
    writer = PairWriter(view, pairs, launches)
    kinds = {d.name: view.concrete(unqualified(d.type)) for d in pairs.kept}
    summed = any(f.operation not in IDEMPOTENT and integer_type(kinds[f.place]) is None for f in writer.folds)
    caveats = [REORDERED] * summed + [_OVERLAP] * stores_pairs(view, pairs)
    return writer.result(TITLE, "; ".join(caveats))


REWRITE = Rewrite(
    slug="nearest-rows",
    title=TITLE,
    apply=refusing(_apply),
    answers=("missing-cache-reuse", "uncoalesced-global-read", "small-register-tile"),
    useless_at="dram",
    chance=0.65,
    gain=12.0,
    ranges={
        "kPairBlocks": (1, 2),
        "kPairDepth": (8, 16, 32),
        "kPairThreadsX": (8, 16),
        "kPairThreadsY": (8, 16),
        "kPairOutputsX": (4, 8),
        "kPairOutputsY": (4, 8),
    },
)
