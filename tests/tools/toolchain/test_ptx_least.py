# SPDX-License-Identifier: Apache-2.0
"""The least of sums is not worked out from the least of parts, by what nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_least import least_in, moved_least

pytestmark = pytest.mark.compiler

FIRST = """
__global__ void first(const int* in, NUMBER begin, int n, NUMBER* best) {
    __shared__ int least;
    if (threadIdx.x == 0) least = 0x7fffffff;
    __syncthreads();
    int mine = 0x7fffffff;
    for (int k = threadIdx.x; k < n; k += blockDim.x)
        if (in[k] > 7) { FOUND }
    LEFT
}
"""
EACH = "atomicMin(best, begin + k);"
OF_BLOCK = "__syncthreads(); if (threadIdx.x == 0 && least < n) atomicMin(best, begin + least);"
OF_TREE = """__shared__ int all[256]; all[threadIdx.x] = mine; __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) all[threadIdx.x] = min(all[threadIdx.x], all[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0 && all[0] < n) atomicMin(best, begin + all[0]);"""
OF_WARP = "mine = __reduce_min_sync(~0u, mine); if (threadIdx.x % 32 == 0 && mine < n) atomicMin(best, begin + mine);"


def _said(found: str, left: str, number: str = "unsigned long long") -> str:
    sides = ((EACH, ""), (found, left))
    return moved_least(*(least_in(made(FIRST, FOUND=f, LEFT=e, NUMBER=number)) for f, e in sides))


@pytest.mark.parametrize("number", ["unsigned long long", "unsigned"])
def test_the_least_place_is_told(number: str) -> None:
    assert "behind parameter 4" in _said("atomicMin(&least, k);", OF_BLOCK, number)
    assert "behind parameter 4" in _said("mine = min(mine, k);", OF_WARP, number)
    assert "behind parameter 4" in _said("mine = min(mine, k);", OF_TREE, number)


def test_the_least_number_of_a_block_is_not() -> None:
    each = "const unsigned long long x = begin + k; if (x < all) all = x;"
    before = "mine = 0; " + "unsigned long long all = ~0ull; "
    text = FIRST.replace("int mine = 0x7fffffff;", "int mine; " + before)
    kept = "for (int d = 16; d; d /= 2) all = min(all, __shfl_down_sync(~0u, all, d)); if (~all) atomicMin(best, all);"
    sides = ((EACH, ""), (each, kept))
    made_of = [least_in(made(text, FOUND=f, LEFT=e, NUMBER="unsigned long long")) for f, e in sides]
    assert moved_least(*made_of) == ""
    # sums with a sign do not wrap around
    assert _said("atomicMin(&least, k);", OF_BLOCK, "int") == ""
