# SPDX-License-Identifier: Apache-2.0
"""Barriers of two branches that share a block out: as loud as they are dangerous."""

from __future__ import annotations

import pytest

from warplens_tools.micro.divergent_barrier import DivergentBarrier
from warplens_tools.testing import views

TEXT = """__global__ void k(const float *a, float *o, int n)
{{
    __shared__ float t[2][64];
    if (threadIdx.y == 0) {{
        for (int i = 0; i < n; ++i) {{ t[i & 1][threadIdx.x] = a[i * 64 + threadIdx.x]; __syncthreads(); }}
    }}
    __syncthreads();
    if ({test}) {{
        for (int i = 0; i < n; ++i) {{
            o[i * 64 + threadIdx.x] = 2.0f * t[i & 1][63 - threadIdx.x];
            {barriers}
            t[i & 1][threadIdx.x] = 0.0f;
        }}
    }}
}}
void f(const float *a, float *o, int n) {{ k<<<64, dim3(64, {rows})>>>(a, o, n); }}
"""


@pytest.mark.parametrize(
    ("test", "barriers", "rows", "loud"),
    [
        ("threadIdx.y == 1", "__syncthreads();", 2, "information"),
        ("threadIdx.y != 0", "__syncthreads();", 4, "information"),
        # A third row of threads comes to neither; or one side waits more often.
        ("threadIdx.y == 1", "__syncthreads();", 3, "warning"),
        (
            "threadIdx.y == 1",
            "__syncthreads(); t[0][threadIdx.x ^ 1] += 1.0f; __syncthreads();",
            2,
            "warning",
        ),
    ],
)
def test_branches_that_all_threads_take_one_of_are_told_less_loudly(
    test: str, barriers: str, rows: int, loud: str
) -> None:
    (view,) = views(TEXT.format(test=test, barriers=barriers, rows=rows))
    assert [f.severity for f in DivergentBarrier(view).check()][-1] == loud
