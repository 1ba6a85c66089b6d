# SPDX-License-Identifier: Apache-2.0
"""Which lanes come to an access, by the conditions around it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from warplens_tools.cuda.values.forms import Symbol
from warplens_tools.machine.coming import Coming
from warplens_tools.testing import views

KERNEL = """
__global__ void k(const float *a, float *o, int w, int n)
{{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = threadIdx.y;
    {body}
}}
void f() {{ k<<<64, dim3{block}>>>(a, o, w, n); }}
"""
ROWS, NARROW = (32, 8, 1), (8, 32, 1)
FIRST_ROW = [(x, 0, 0) for x in range(32)]


def lanes(body: str, block: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Of the first read of `a`; a parameter is 1000, all else that is not known 0."""

    def value(symbol: Symbol, _: Mapping[str, int]) -> int:
        return 1000 if symbol.kind == "parameter" else 0

    (view,) = views(KERNEL.format(body=body, block=block))
    access = next(a for a in view.global_accesses if a.name == "a" and a.reads)
    return list(Coming(block, 32, {}, value).lanes(access, {}))


@pytest.mark.parametrize(
    ("body", "block", "come"),
    [
        ("o[x] = a[x];", ROWS, FIRST_ROW),
        ("if (x < n) o[x] = a[x];", ROWS, FIRST_ROW),
        # all lanes of the only warp that comes
        ("if (threadIdx.y == 0) o[x] = a[x];", ROWS, FIRST_ROW),
        ("if (threadIdx.y == 3) o[x] = a[x];", ROWS, [(x, 3, 0) for x in range(32)]),
        # a quarter of a warp of four rows
        ("if (threadIdx.y == 0) o[x] = a[x];", NARROW, [(x, 0, 0) for x in range(8)]),
        ("if (threadIdx.x % 16 == 0) o[x] = a[x];", ROWS, [(0, 0, 0), (16, 0, 0)]),
        ("if (threadIdx.x == 5) o[x] = a[x];", ROWS, [(5, 0, 0)]),
        # data say who comes, and nothing of the text
        ("if (o[x] > 0.0f) o[x] = a[x];", ROWS, FIRST_ROW),
    ],
)
def test_lanes_that_come(body: str, block: tuple[int, int, int], come: list[tuple[int, int, int]]) -> None:
    assert lanes(body, block) == come
