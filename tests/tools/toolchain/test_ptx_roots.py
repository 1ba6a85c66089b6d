# SPDX-License-Identifier: Apache-2.0
"""Places by floats' roots are told unless they are put right, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_roots import by_roots, roots_in

pytestmark = pytest.mark.compiler

TRIANGLE = """
__global__ void triangle(const float* in, float* out, int rows, const int* places) {
    const int place = PLACE;
    ROW
    const int column = place - row * (row + 1) / 2;
    if (row < rows) out[place] = in[row] * in[column];
}
"""
BY_LOOP = "int row = 0; while ((row + 1) * (row + 2) / 2 <= place) ++row;"
BY_ROOT = "int row = (int)((sqrtf(8.f * place + 1.f) - 1.f) * 0.5f);"


def _said(row: str, place: str = "blockIdx.x") -> str:
    return by_roots(*(roots_in(made(TRIANGLE, ROW=how, PLACE=place)) for how in (BY_LOOP, row)))


@pytest.mark.parametrize(
    "place", ["blockIdx.x", "blockIdx.x * blockDim.x + threadIdx.x", "places[threadIdx.x]"]
)
def test_a_row_by_a_root_is_told(place: str) -> None:
    assert "by a float's root" in _said(BY_ROOT, place)


@pytest.mark.parametrize(
    "row",
    [
        "int row = (int)floorf(__fsqrt_rn(2.f * place + 0.25f) - 0.5f);",
        "int row = __float2int_rn(__log2f((float)place)) * 2;",
        # on one side alone
        BY_ROOT + " while ((row + 1) * (row + 2) / 2 <= place) ++row;",
        BY_ROOT + " while (row * (row + 1) / 2 > place) --row;",
        BY_ROOT + " row += (row + 1) * (row + 2) / 2 <= place;",
    ],
)
def test_so_are_others(row: str) -> None:
    assert "by a float's root" in _said(row)


@pytest.mark.parametrize(
    "row",
    [
        BY_ROOT
        + " while (row * (row + 1) / 2 > place) --row; while ((row + 1) * (row + 2) / 2 <= place) ++row;",
        BY_ROOT
        + " if (row * (row + 1) / 2 > place) --row; else if ((row + 1) * (row + 2) / 2 <= place) ++row;",
        BY_ROOT + " row += (row + 1) * (row + 2) / 2 <= place; row -= row * (row + 1) / 2 > place;",
        "int row = (int)((sqrt(8. * place + 1.) - 1.) * 0.5);",
        "int row = (int)sqrtf(in[place]);",
    ],
)
def test_what_is_put_right_or_exact_is_not(row: str) -> None:
    assert _said(row) == ""
