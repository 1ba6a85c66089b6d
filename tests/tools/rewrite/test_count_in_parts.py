# SPDX-License-Identifier: Apache-2.0
"""Histograms of what each thread walks: counted in shared memory, by several threads for each walk."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

PAIRS = """
struct Place { float x, y; };
__device__ int bin_of(Place a, Place b, float scale) {
  float dx = a.x - b.x, dy = a.y - b.y;
  return (int)(sqrtf(dx * dx + dy * dy) * scale);
}
__global__ void pairs(const Place* at, unsigned* counts, int n, float scale, int bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Place me = at[i];
  for (int j = i + 1; j < n; j++) {
    int bin = bin_of(me, at[j], scale);
    if (bin < bins) atomicAdd(&counts[bin], 1u);
  }
}
"""
SIZES = "  int n = atoi(argv[1]), bins = atoi(argv[2]);\n"
PAIRS_RUN = SIZES + (
    "  Device<float> at(2 * n); Device<unsigned> counts(bins, 3);\n"
    "  pairs<<<(n + 63) / 64, 64>>>((const Place*)(const float*)at, counts, n, 40.0f, bins); counts.show();"
)


@pytest.mark.compiler
def test_a_histogram_of_pairs_is_counted_by_several_threads_for_each_item() -> None:
    after = holds("count-in-parts", program(PAIRS, PAIRS_RUN), (150, 30), (33, 7), (1, 4))
    assert "j = i + 1 + threadIdx.y" in after
    assert "atomicAdd(&blockCounts[bin], 1u)" in after
    assert "bins * sizeof(unsigned)" in after


REFUSED = {
    "one count for each thread": PAIRS.replace("  for (int j = i + 1; j < n; j++) {", "  { int j = i / 2;"),
    "an old value that is used": PAIRS.replace("atomicAdd(", "if (j > 2) me.x += atomicAdd("),
    "a walk of which a step needs the last": PAIRS.replace("    if (bin", "    me = at[j];\n    if (bin"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_histograms_are_left_alone(name: str) -> None:
    assert rewritten("count-in-parts", program(REFUSED[name], PAIRS_RUN))[0].refused
