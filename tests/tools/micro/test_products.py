# SPDX-License-Identifier: Apache-2.0
"""What is a product through shared memory, whose operands a larger tile in registers would serve to more results."""

from __future__ import annotations

import pytest

from warplens_tools.micro.small_register_tile import SmallRegisterTile
from warplens_tools.testing import views

HEAD = """\
__global__ void k(const float *g, float *o, float rate)
{
    __shared__ float a[16][16], b[16][16], own[256][9];
    __shared__ half h[16][16], e[16][16];
    int x = threadIdx.x, y = threadIdx.y, t = y * 16 + x;
    float sum = g[t], top = 0.0f;
    for (int k = 0; k < 16; ++k)
"""
TAIL = "\n    o[t] = sum + top;\n}\nvoid f() { k<<<64, dim3(16, 16)>>>(g, o, 2.0f); }\n"


def arrays_of(body: str) -> set[str]:
    (view,) = views(HEAD + body + TAIL)
    return {name for names in SmallRegisterTile(view).products().values() for name in names}


@pytest.mark.parametrize(
    ("body", "arrays"),
    [
        ("sum += a[y][k] * b[k][x];", {"a", "b"}),
        ("sum += (a[y][k]) * (float)(b[k][x]);", {"a", "b"}),
        ("sum = sum + a[y][k] * b[k][x];", {"a", "b"}),
        ("sum = fmaf(a[y][k], b[k][x], sum);", {"a", "b"}),
        ("sum += __half2float(h[y][k]) * __half2float(e[k][x]);", {"h", "e"}),
        ("sum = __hadd(sum, __hmul(h[y][k], e[k][x]));", {"h", "e"}),
        ("sum += a[y][k] * a[k][x];", {"a"}),
    ],
)
def test_a_product_of_elements_that_several_threads_read(body: str, arrays: set[str]) -> None:
    assert arrays_of(body) == arrays


@pytest.mark.parametrize(
    "body",
    [
        "if (x < k) { a[y][x] += a[y][x + k]; b[y][x] = fmaxf(b[y][x], b[y][x + k]); }",
        "top = fmaxf(a[y][k], b[k][x]);",
        "sum += own[t][k % 9] + rate * (sum - own[t][k % 9]);",
        "sum += own[t][k % 9] * own[t][k * 2 % 9];",
        "sum = own[t][k % 9] * a[y][k] + sum;",
        "sum += a[y][k] * rate - b[k][x];",
        "sum += a[y][k] * a[y][k];",
        "o[t] = a[y][k] * b[k][x];",
    ],
)
def test_no_product_that_a_larger_tile_would_serve(body: str) -> None:
    assert arrays_of(body) == set()
