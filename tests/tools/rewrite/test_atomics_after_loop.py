# SPDX-License-Identifier: Apache-2.0
"""Loops that add to one place by atomics."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

NORM = """
__global__ void norm(const float* x, float* y, int* above, int n) {
  __shared__ float sums[2];
  __shared__ int count;
  if (threadIdx.x < 2) sums[threadIdx.x] = 0.0f;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const float* row = x + blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = row[i];
    atomicAdd(&sums[0], v);
    atomicAdd(sums + 1, v * v);
    if (v > 0) atomicAdd(&count, 1);
  }
  __syncthreads();
  float mean = sums[0] / n, inv = rsqrtf(sums[1] / n - mean * mean + 1.0f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = (row[i] - mean) * inv;
  if (threadIdx.x == 0) above[blockIdx.x] = count;
}
"""
RUN = """
  int n = atoi(argv[1]); Device<float> x(3 * n), y(3 * n, 2); Device<int> a(3, 3);
  norm<<<3, 64>>>(x, y, a, n); y.show(); a.show();
"""
ROWS = """
__global__ void rows(const int* x, unsigned long long* total, int* most, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 2; ++j)
      atomicMax(&most[r], x[(r * n + i) * 2 + j]);
}
"""
RUN_ROWS = """
  int n = atoi(argv[1]); Device<int> x(140 * n), m(70, 2);
  rows<<<2, 64>>>(x, 0, m, 70, n); m.show();
"""


@pytest.mark.compiler
def test_sums_of_a_block_are_added_up_in_registers_first() -> None:
    after = holds("atomics-after-loop", program(NORM, RUN), (150,), (7,), relative=1e-4, absolute=1e-3)
    assert after.count("atomicAdd(") == 3
    assert after.index("atomicAdd(&count, partial3);") < after.index("float mean")
    assert rewritten("atomics-after-loop", after)[0].refused


@pytest.mark.compiler
def test_the_largest_loop_ends_before_the_atomic() -> None:
    after = holds("atomics-after-loop", program(ROWS, RUN_ROWS), (9,), (1,))
    assert after.index("int partial = (-0x7fffffff - 1);") < after.index("for (int i")
    assert not rewritten("atomics-after-loop", program(ROWS, RUN_ROWS))[0].caveat


REFUSED = {
    "a place that moves": ROWS.replace("&most[r]", "&most[i + j]"),
    "a place by the data": ROWS.replace("&most[r]", "&most[x[r]]"),
    "the old value": ROWS.replace("atomicMax(", "int old = atomicMax("),
    "read in the loop": ROWS.replace("+ j]);", "+ j] - most[r]);"),
    "a pointer that moves": ROWS.replace("&most[r]", "most++"),
    "no loop": ROWS.replace("for (int i = 0; i < n; ++i)", "int i = 0;").replace(
        "for (int j = 0; j < 2; ++j)", "int j = 1;"
    ),
    "left by a return": ROWS.replace("atomicMax(", "if (x[i] > 9) return; else atomicMax("),
    "once": ROWS.replace(
        "atomicMax(&most[r], x[(r * n + i) * 2 + j]);", "{ atomicMax(&most[r], x[i]); break; }"
    ).replace("for (int i = 0; i < n; ++i)", "int i = 0;"),
    "several kinds": ROWS.replace(
        "atomicMax(&most[r], x[(r * n + i) * 2 + j]);",
        "{ atomicMax(&most[r], x[i]); atomicAdd(&most[r], x[j]); }",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_atomics_are_left_alone(name: str) -> None:
    assert rewritten("atomics-after-loop", program(REFUSED[name], RUN_ROWS))[0].refused


def test_a_barrier_in_the_loop_ends_it() -> None:
    waiting = NORM.replace("    float v = row[i];", "    __syncthreads();\n    float v = row[i];")
    assert rewritten("atomics-after-loop", program(waiting, RUN))[0].refused
