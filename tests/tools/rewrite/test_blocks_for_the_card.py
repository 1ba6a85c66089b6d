# SPDX-License-Identifier: Apache-2.0
"""Grids of kernels that stride over their data by the grid: any number of blocks gives the same."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

MAIN = "  int n = atoi(argv[1]); Device<float> x(n), y(n, 2), out(n + 1, 3);\n"
PROGRAMS = {
    "a loop with its variable before it, and a tree": (
        """
#define imin(a, b) (a < b ? a : b)
__global__ void dot(const float* a, const float* b, float* c, int n) {
  __shared__ float cache[64];
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  float temp = 0;
  while (tid < n) {
    temp += a[tid] * b[tid];
    tid += blockDim.x * gridDim.x;
  }
  cache[threadIdx.x] = temp;
  __syncthreads();
  for (int i = blockDim.x / 2; i != 0; i /= 2) {
    if (threadIdx.x < i) cache[threadIdx.x] += cache[threadIdx.x + i];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(c, cache[0]);
}
""",
        MAIN + "  int blocks = imin(4, (n + 63) / 64); dot<<<blocks, 64>>>(x, y, out, n); out.show();",
    ),
    "two loops with one stride": (
        """
__global__ void scale(const float* a, float* b, float* c, int n, float f) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (int i = first; i < n; i += step) b[i] = f * a[i];
  for (int i = first; i < n; i += step) c[i] = f - a[i];
}
""",
        MAIN + "  dim3 grid(3), block(32); scale<<<grid, block>>>(x, y, out, n, 2.f); y.show(); out.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_number_of_blocks_gives_the_same(name: str) -> None:
    before = program(*PROGRAMS[name])
    after = rewritten("blocks-for-the-card", before)[1].replace("kBlocks = 1056", "kBlocks = 7")
    assert "= 7;" in after or "BLOCKS 1056" in after
    after = holds("blocks-for-the-card", before, (1000,), (17,), relative=1e-4, absolute=1e-3)
    assert rewritten("blocks-for-the-card", after)[0].refused


STRIDED = PROGRAMS["two loops with one stride"][0]


@pytest.mark.parametrize(
    "change",
    [
        ("c[i] = f - a[i]", "c[blockIdx.x] = f - a[i]"),
        ("c[i] = f - a[i]", "c[first] = f - a[i]"),
        ("step = gridDim.x * blockDim.x;", "step = gridDim.x * blockDim.x; if (gridDim.x < 3) b[0] = f;"),
        ("i += step", "i += 64"),
        ("i += step", "i += 2 * step"),
        ("  for (int i = first; i < n; i += step) c[i] = f - a[i];", "  c[threadIdx.x] = f;"),
    ],
)  # fmt: skip
def test_a_kernel_that_tells_its_blocks_apart_stays(change: tuple[str, str]) -> None:
    code = STRIDED.replace(*change)
    assert code != STRIDED
    assert rewritten("blocks-for-the-card", program(code, PROGRAMS["two loops with one stride"][1]))[
        0
    ].refused


def test_a_kernel_that_is_given_its_number_of_blocks_stays() -> None:
    main = MAIN + "  int blocks = 3; scale<<<blocks, 32>>>(x, y, out, n, 2.f);"
    assert not rewritten("blocks-for-the-card", program(STRIDED, main))[0].refused
    told = program(STRIDED.replace("float f)", "float f, int blocks)"), main.replace("2.f)", "2.f, blocks)"))
    assert "number of blocks" in rewritten("blocks-for-the-card", told)[0].refused


@pytest.mark.parametrize("part", ["sqrtf(cache[0])", "cache[0] * cache[0]", "__expf(cache[0])"])
def test_what_parts_of_a_sum_do_not_add_up_to_stays(part: str) -> None:
    code, main = PROGRAMS["a loop with its variable before it, and a tree"]
    for what, refused in ((part, True), ("2.0f * cache[0]", False)):
        bent = program(code.replace("c, cache[0]", f"c, {what}"), main)
        assert bool(rewritten("blocks-for-the-card", bent)[0].refused) == refused
