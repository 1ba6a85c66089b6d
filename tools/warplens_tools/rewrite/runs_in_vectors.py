# SPDX-License-Identifier: Apache-2.0
"""runs-in-vectors

Let each thread take several elements, and add up those that go to one place.

[widen-access](widen-access.md) and, behind it, [runs-before-atomic](runs-before-atomic.md) and
[join-before-atomic](join-before-atomic.md): a list that is sorted by the places it is added to has one place for many
neighbours, which the thread and then the warp add up before an atomic goes there.

```cuda
__global__ void segment_sums(const float* values, const int* segments, float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&sums[segments[i]], values[i]);
}
void run(const float* values, const int* segments, float* sums, int n) {
  segment_sums<<<(n + 255) / 256, 256>>>(values, segments, sums, n);
}
```

```cuda
constexpr int kVector = 4;  // elements of a thread, up to 16 bytes at a time

// Lanes of a warp that have one place join their values, and the first goes there.
__device__ void addTogether(float* place, float value) {
  const unsigned active = __activemask();
  const int lane = threadIdx.x % 32;
  unsigned after = __match_any_sync(active, reinterpret_cast<unsigned long long>(place));
  unsigned rank = __popc(after & ((1u << lane) - 1));
  const bool first = rank == 0;
  after &= 0xfffffffeu << lane;
  while (__any_sync(active, after != 0)) {
    const int next = __ffs(after);
    const float other = __shfl_sync(active, value, next != 0 ? next - 1 : lane);
    if (next != 0) value += other;
    after &= ~__ballot_sync(active, rank % 2);
    rank /= 2;
  }
  if (first) atomicAdd(place, value);
}

__global__ void segment_sums(const float* __restrict__ values, const int* __restrict__ segments, float* __restrict__ sums, int n) {
  const int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (first + kVector <= n &&
      reinterpret_cast<size_t>(&segments[first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&values[first]) % 16 == 0) {
    alignas(16) int segmentsPart[kVector];
    *reinterpret_cast<int4*>(segmentsPart) = *reinterpret_cast<const int4*>(&segments[first]);
    alignas(16) float valuesPart[kVector];
    *reinterpret_cast<float4*>(valuesPart) = *reinterpret_cast<const float4*>(&values[first]);
    float* place = nullptr;
    float run = 0.0f;
    #pragma unroll
    for (int v = 0; v < kVector; ++v) {
      float* next = &sums[segmentsPart[v]];
      if (next != place) {
        if (place != nullptr) addTogether(place, run);
        place = next;
        run = 0.0f;
      }
      run += valuesPart[v];
    }
    if (place != nullptr) addTogether(place, run);
  } else {
    float* place2 = nullptr;
    float run2 = 0.0f;
    for (int i = first; i < n && i < first + kVector; ++i) {
      float* next2 = &sums[segments[i]];
      if (next2 != place2) {
        if (place2 != nullptr) addTogether(place2, run2);
        place2 = next2;
        run2 = 0.0f;
      }
      run2 += values[i];
    }
    if (place2 != nullptr) addTogether(place2, run2);
  }
}
void run(const float* values, const int* segments, float* sums, int n) {
  segment_sums<<<((n + 255) / 256 + kVector - 1) / kVector, 256>>>(values, segments, sums, n);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.rewrite import join_before_atomic, runs_before_atomic, widen_access
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.text import SourceText

_TITLE = "Several elements a thread, whose runs to one place are added up"
_RUNS = Chain(runs_before_atomic.REWRITE, join_before_atomic.REWRITE, restrict=False, alone=True)


def _added(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    return _RUNS.result(_TITLE, text, model, kernel, target)


_CHAIN = Chain(widen_access.REWRITE, Rewrite(runs_before_atomic.REWRITE.slug, _TITLE, _added))

REWRITE = _CHAIN.rewrite(
    __name__,
    _TITLE,
    answers=runs_before_atomic.REWRITE.answers,
    chance=0.5,
    gain=4.0,
    ranges=widen_access.REWRITE.ranges,
)
