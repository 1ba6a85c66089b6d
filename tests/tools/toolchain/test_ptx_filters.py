# SPDX-License-Identifier: Apache-2.0
"""What doubles decide no floats decide before them, by what nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_filters import filtered, filters_in

pytestmark = pytest.mark.compiler

SIDES = """
__global__ void sides(const float2* corners, const float2* places, int* out, int n) {
    const float2 p = places[threadIdx.x];
    int many = 0;
    for (int k = 0; k + 1 < n; ++k) {
        const float2 a = corners[k], b = corners[k + 1];
        FILTER
        const double l = ((double)b.x - a.x) * ((double)p.y - a.y), r = ((double)b.y - a.y) * ((double)p.x - a.x);
        many += l > r;
    }
    out[threadIdx.x] = many;
}
"""


def _said(how: str) -> str:
    return filtered(*(filters_in(made(SIDES, FILTER=one)) for one in ("", how)))


@pytest.mark.parametrize(
    "how",
    [
        "const float q = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);"
        "if (fabsf(q) > 1e-6f) { many += q > 0.f; continue; }",
        "const float q = fmaf(b.x - a.x, p.y - a.y, -(b.y - a.y) * (p.x - a.x)), bound = 1e-7f * fabsf(q);"
        "if (q > bound) { ++many; continue; } if (q < -bound) continue;",
    ],
)
def test_a_filter_in_float_is_told(how: str) -> None:
    assert "compares products in float of what lies behind parameter 1" in _said(how)


@pytest.mark.parametrize(
    "how",
    [
        "if (p.y < fminf(a.y, b.y)) continue;",
        "if (p.x - a.x > 1.f && p.x - b.x > 1.f) many += 0;",
        "const double q = ((double)b.x - a.x) * ((double)p.y - a.y); if (q == 0.) continue;",
    ],
)
def test_floats_as_they_are_and_doubles_are_not(how: str) -> None:
    assert _said(how) == ""


WHOLE = """
__global__ void turns(const int2* at, int* out) {
    const int2 a = at[threadIdx.x], b = at[threadIdx.x + 1], c = at[threadIdx.x + 2];
    int turn = 0;
    FILTER
    const long long l = (long long)(b.x - a.x) * (c.y - a.y), r = (long long)(b.y - a.y) * (c.x - a.x);
    turn = l > r;
    out[threadIdx.x] = turn;
}
"""


@pytest.mark.parametrize("kind", ["float", "double"])
def test_whole_products_are_not_filtered_either(kind: str) -> None:
    how = "const KIND q = (KIND)(b.x - a.x) * (c.y - a.y) - (KIND)(b.y - a.y) * (c.x - a.x);"
    how = (how + "if (q > 1e-6) { out[threadIdx.x] = 1; return; }").replace("KIND", kind)
    said = filtered(*(filters_in(made(WHOLE, FILTER=one)) for one in ("", how)))
    assert f"in {kind} of what lies behind parameter 1, the kernel whole numbers alone" in said
