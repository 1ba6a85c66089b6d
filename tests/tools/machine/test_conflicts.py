# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts from the source, and what they add."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import view_of

SOURCE = """\
__global__ void k(float *o)
{{
    __shared__ float t[32][{pitch}];
    o[threadIdx.x] = t[threadIdx.x][0];
}}
void f(float *o) {{ k<<<1, 32>>>(o); }}
"""


@pytest.mark.parametrize(("pitch", "degree"), [(32, 32.0), (33, 1.0), (48, 16.0)])
def test_a_column_of_a_tile_falls_into_banks_by_its_pitch(pitch: int, degree: float) -> None:
    view = view_of(SOURCE.format(pitch=pitch), "LDS R4, [R2]\nSTG.E desc[UR4][R6.64], R4\nEXIT", (4, 4, 5))
    (found,) = view.conflicts.every
    assert (found.degree, found.tier) == (degree, "source")
    assert view.conflicts.instructions_on(4) == [0]
    assert view.conflicts.extra_passes([found]) == degree - 1.0
