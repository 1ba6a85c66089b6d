# SPDX-License-Identifier: Apache-2.0
"""What is rounded up and down stays so, by what nvcc makes of it."""

from __future__ import annotations

import pytest
from tests.compiled import ptx_of_each

from warplens_tools.toolchain.ptx_directed import Directed, directed_in, undirected

pytestmark = pytest.mark.compiler

KERNEL = """
__global__ void bounds(const float2* of, const float* by, float2* out, int n) {
    float low = 0, high = 0;
    for (int i = threadIdx.x; i < n; i += 32) { BODY }
    out[threadIdx.x] = make_float2(low, high);
}
"""
LIBRARY = "low += roundf(expf(by[i])); high += log1pf(by[i]) + (float)(int)of[i].x + floorf(of[i].y);"
BODIES = {
    "as it is": "low = __fadd_rd(low, __fmul_rd(by[i], of[i].x)); high = __fadd_ru(high, __fmul_ru(by[i], of[i].y));",
    "in one": "low = __fmaf_rd(by[i], of[i].x, low); high = __fmaf_ru(by[i], of[i].y, high);",
    "products to nearest": "low = __fadd_rd(low, by[i] * of[i].x); high = __fadd_ru(high, by[i] * of[i].y);",
    "one product to nearest": "low = __fadd_rd(low, __fmul_rd(by[i], of[i].x));"
    "high = __fadd_ru(high, __fmul_ru(by[i], of[i].y)); high = __fadd_ru(high, of[i].x * of[i].y);",
    "down alone": "low = __fmaf_rd(by[i], of[i].x, low); high = __fmaf_rd(by[i], of[i].y, high);",
    "library": LIBRARY,
    "nothing": "low += of[i].x;",
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, Directed]]:
    texts = {name: KERNEL.replace("BODY", body) for name, body in BODIES.items()}
    return {name: directed_in(ptx) for name, ptx in ptx_of_each(texts, "bounds").items()}


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("products to nearest", "no products down"),
        ("one product to nearest", "some products to nearest"),
        ("down alone", "no products up"),
        ("nothing", "no products down"),
    ],
)
def test_what_is_rounded_to_nearest_is_told(
    compiled: dict[str, dict[str, Directed]], edit: str, why: str
) -> None:
    assert why in undirected(compiled["as it is"], compiled[edit])


def test_one_operation_rounds_both_and_the_librarys_own_bound_nothing(
    compiled: dict[str, dict[str, Directed]],
) -> None:
    assert undirected(compiled["as it is"], compiled["in one"]) == ""
    assert undirected(compiled["as it is"], compiled["as it is"]) == ""
    assert undirected(compiled["library"], compiled["nothing"]) == ""
    assert undirected(compiled["nothing"], compiled["as it is"]) == ""
    (of_library,) = compiled["library"].values()
    assert of_library.directed == frozenset()
