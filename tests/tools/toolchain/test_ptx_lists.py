# SPDX-License-Identifier: Apache-2.0
"""Lists of data's own length ask for room in shared memory, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_lists import lists_in, runs_over

pytestmark = pytest.mark.compiler

JOINED = """
__global__ void joined(const int* first, const int* beside, int* next, int* nexts, int n) {
    __shared__ int kept[1024], many;
    if (threadIdx.x == 0) many = 0;
    __syncthreads();
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    LOOP
        const int u = beside[e];
        if (u > 100) { KEEPS }
    }
    LEAVES
}
"""
ROWS = "for (int e = first[v]; e < first[v + 1]; ++e) {"
AT_ONCE = "next[atomicAdd(nexts, 1)] = u;"
KEPT = "kept[atomicAdd(&many, 1)] = u;"
BOUNDED = "const int at = atomicAdd(&many, 1); if (at < 1024) kept[at] = u; else " + AT_ONCE
LEAVES = "__syncthreads(); for (int k = threadIdx.x; k < min(many, 1024); k += blockDim.x) next[k] = kept[k];"


def _said(keeps: str, loop: str = ROWS) -> str:
    sides = ((AT_ONCE, ""), (keeps, LEAVES))
    return runs_over(*(lists_in(made(JOINED, LOOP=loop, KEEPS=k, LEAVES=e)) for k, e in sides))


@pytest.mark.parametrize("loop", [ROWS, "for (int e = v; beside[e] >= 0; e = first[e]) {"])
def test_a_list_without_room_is_told(loop: str) -> None:
    assert "never asks whether there is room" in _said(KEPT, loop)


@pytest.mark.parametrize("keeps", [BOUNDED, "const int at = atomicAdd(&many, 1); kept[min(at, 1023)] = u;"])
def test_one_that_asks_is_not(keeps: str) -> None:
    assert _said(keeps) == ""


@pytest.mark.parametrize("loop", ["for (int e = v; e < v + 4; ++e) {", "{ const int e = v;"])
def test_one_of_a_fixed_number_for_each_thread_is_not(loop: str) -> None:
    assert _said(KEPT, loop) == ""


def test_a_list_that_each_thread_counts_is_told() -> None:
    text = JOINED.replace("LOOP", "int mine = 0; LOOP").replace("kept[1024]", "kept[8][128]")
    own = [
        lists_in(
            made(text, LOOP=ROWS, KEEPS=keeps, LEAVES="nexts[v] = mine; next[v] = kept[3][threadIdx.x];")
        )
        for keeps in (
            AT_ONCE,
            "kept[mine++][threadIdx.x] = u;",
            "if (mine < 8) kept[mine++][threadIdx.x] = u;",
        )
    ]
    assert "never asks" in runs_over(own[0], own[1])
    assert runs_over(own[0], own[2]) == ""
