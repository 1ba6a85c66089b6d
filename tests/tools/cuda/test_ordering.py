# SPDX-License-Identifier: Apache-2.0
"""What a barrier of a divided branch orders, and what it does not."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.divergent_barriers import divergent_barriers
from warplens_tools.testing import views

HEAD = (
    "__global__ void k(float *a, const float *b, float *sums, int n, int rows, int pitch) { "
    "extern __shared__ float s[]; int t = threadIdx.x, i = blockIdx.x * blockDim.x + t; "
)


def idle(body: str) -> list[bool]:
    """Of each barrier that a branch keeps from some threads, whether it orders nothing."""
    (view,) = views(f"{HEAD}{body} }}\nvoid f(float *a, float *b) {{ k<<<64, 256>>>(a, b, a, 9, 9, 9); }}\n")
    return [barrier.idle for barrier in divergent_barriers(view.tree, view.kernel, view.dim3)]


@pytest.mark.parametrize(
    "body",
    [
        "s[t] = b[i]; __syncthreads(); if (t < n) { for (int j = 1; j < rows; ++j) { s[t] += s[t + j * n]; "
        "__syncthreads(); } a[i] = s[t]; }",
        "if (i < n) { for (int r = 0; r < rows; ++r) a[i * pitch + r] += b[i]; __syncthreads(); a[i * pitch] += 1; }",
        "if (i < n) { atomicAdd(&sums[(int)b[i]], 1.0f); __syncthreads(); }",
    ],
    ids=["columns of its own", "a row of its own", "additions alone"],
)
def test_elements_of_ones_own_need_no_barrier(body: str) -> None:
    assert idle(body) == [True]


@pytest.mark.parametrize(
    "body",
    [
        "s[t] = b[i]; if (i < n) { __syncthreads(); a[i] = s[255 - t]; }",
        "if (i < n) { s[t] = b[i]; __syncthreads(); a[i] = s[t] + s[t ^ 1]; }",
        "if (t < n) { for (int d = 32; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); } }",
        "__shared__ float least; if (i < n) { if (t == 0) least = b[i]; __syncthreads(); a[i] = least; }",
        "if (i < n) { s[(int)b[i]] = 1.0f; __syncthreads(); a[i] = s[t]; }",
    ],
    ids=[
        "written before the branch",
        "a neighbour's",
        "a tree",
        "a shared variable",
        "a place that data choose",
    ],
)
def test_what_another_thread_wrote_needs_one(body: str) -> None:
    assert idle(body) == [False]
