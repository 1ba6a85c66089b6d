# SPDX-License-Identifier: Apache-2.0
"""Sums over the lanes of a warp are as wide as the kernel's, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_lanes import Lanes, lanes_in, narrower_lanes

pytestmark = pytest.mark.compiler

KERNEL = """
__global__ void add(const long long* in, long long* out, int* counts) {
    long long sum = in[threadIdx.x];
    int many = sum > 0;
    for (int step = 1; step < 32; step *= 2) {
#if COUNTS
        many += __shfl_down_sync(~0u, many, step);
#endif
        const TYPE left = __shfl_up_sync(~0u, (TYPE)sum, step);
        if (threadIdx.x % 32 >= step) sum = (TYPE)sum + left;
    }
    out[threadIdx.x] = sum;
    counts[threadIdx.x] = many;
}
"""
MADE = {"as it is": ("long long", 0), "in 32 bits": ("int", 0), "and counts": ("long long", 1)}


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, Lanes]]:
    found = {}
    for name, (kind, counts) in MADE.items():
        text = f"#define TYPE {kind}\n#define COUNTS {counts}\n{KERNEL}"
        found[name] = lanes_in(nvcc_made("k.ptx", text, "-arch=sm_90", "-ptx").read_text())
    return found


def test_sums_in_32_bits_are_told_where_the_kernels_are_in_64(compiled: dict[str, dict[str, Lanes]]) -> None:
    (was,) = compiled["as it is"].values()
    assert was == Lanes(narrow=False, wide=True)
    assert "over lanes in 32 bits" in narrower_lanes(compiled["as it is"], compiled["in 32 bits"])


def test_counts_beside_wide_sums_are_as_narrow_as_one_likes(compiled: dict[str, dict[str, Lanes]]) -> None:
    assert narrower_lanes(compiled["as it is"], compiled["and counts"]) == ""
    assert narrower_lanes(compiled["and counts"], compiled["as it is"]) == ""
    assert narrower_lanes(compiled["as it is"], compiled["as it is"]) == ""
