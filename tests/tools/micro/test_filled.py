# SPDX-License-Identifier: Apache-2.0
"""What cures stores with lanes apart: a tile, or lanes along the rows where all store one number."""

from __future__ import annotations

import pytest

from warplens_tools.micro.uncoalesced_global_write import UncoalescedGlobalWrite
from warplens_tools.testing import views

TEXT = """__global__ void k(float *o, const float *a, float value, int n)
{{
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    float own = a[row];
    o[row * n + column] = {stored};
}}
void f(float *o, const float *a, int n) {{ k<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(o, a, 1.0f, n); }}
"""


@pytest.mark.parametrize(
    ("stored", "tile"), [("0.0f", False), ("-1", False), ("value", False), ("own", True), ("a[column]", True)]
)
def test_a_fill_has_no_need_of_a_tile(stored: str, tile: bool) -> None:
    (view,) = views(TEXT.format(stored=stored))
    (found,) = UncoalescedGlobalWrite(view).check()
    assert ("shared tile" in found.guidance) == tile
    assert ("cudaMemsetAsync" in found.guidance) != tile
