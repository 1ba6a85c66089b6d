# SPDX-License-Identifier: Apache-2.0
"""Which accesses are known to have something between their lanes."""

from __future__ import annotations

import pytest

from warplens_tools.arch.load import load_gpu
from warplens_tools.machine.apart import in_rows, walks_record
from warplens_tools.testing import views

LIMITS = load_gpu("sm_90").limits
KERNEL = """
__global__ void k(const float *a, float *o, int w, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x, y = threadIdx.y;
    {body}
}}
void f() {{ k<<<64, 256>>>(a, o, w, n); }}
"""
FLAT, TWO_ROWS, FOUR_ROWS, ROWS = (256, 1, 1), (128, 2, 1), (64, 4, 1), (32, 8, 1)


def found(body: str, block: tuple[int, int, int] | None = FLAT, element: int = 4) -> bool:
    """Of the first read of a kernel."""
    (view,) = views(KERNEL.format(body=body))
    access = next(a for a in view.global_accesses if a.name == "a" and a.reads)
    assert access.index is not None
    return in_rows(access.index, element, access.loops, block, LIMITS)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        # nothing but the lane moves along
        ("o[i] = a[i * w];", False),
        ("o[i] = a[i * w + n];", False),
        # a block further is an element further
        ("o[i] = a[threadIdx.x * w + blockIdx.y];", True),
        # a cache line further, and two of them
        ("o[i] = a[threadIdx.x * w + 32 * blockIdx.y];", True),
        ("o[i] = a[threadIdx.x * w + 64 * blockIdx.y];", False),
        # a row of unknown length further
        ("o[i] = a[threadIdx.x * w + blockIdx.y * n];", False),
        # iterations: of an unknown number, of eight (a sector), of four
        ("for (int j = 0; j < n; ++j) o[i] += a[i * w + j];", True),
        ("for (int j = 0; j < 8; ++j) o[i] += a[i * w + j];", True),
        ("for (int j = 0; j < 4; ++j) o[i] += a[i * w + j];", False),
        # backwards
        ("for (int j = 0; j < n; ++j) o[i] += a[i * w - j];", True),
        # a flat number that is split: the same row for all lanes of a warp, and a new one every other lane
        ("o[i] = a[i % 32 * w + i / 32];", True),
        ("o[i] = a[i % 2 * w + i / 2];", False),
        ("o[i] = a[i % 32 * w + (i >> 5)];", True),
        ("o[i] = a[i % 2 * w + (i >> 1)];", False),
        ("o[i] = a[i % n * w + i / n];", True),
    ],
)
def test_what_goes_on_where_a_lane_is(body: str, *, rows: bool) -> None:
    assert found(body) == rows


@pytest.mark.parametrize(
    ("block", "element", "rows"),
    [
        (ROWS, 4, True),
        (FOUR_ROWS, 4, False),
        (FOUR_ROWS, 8, True),
        (TWO_ROWS, 8, False),
        (TWO_ROWS, 16, True),
        (None, 4, False),
    ],
)
def test_rows_of_threads_fill_a_sector_together(
    block: tuple[int, int, int] | None, element: int, *, rows: bool
) -> None:
    assert found("o[i] = a[threadIdx.x * w + y];", block, element) == rows


@pytest.mark.parametrize(
    ("body", "walks"),
    [
        ("for (int j = 0; j < w; ++j) o[i] += a[(y * n + i) * w + j];", True),
        # one long line of them, and lanes of one block alone
        ("for (int j = 0; j < w; ++j) o[i] += a[i * w + j];", False),
        ("for (int j = 0; j < w; ++j) o[i] += a[(y * n + threadIdx.x) * w + j];", False),
        # to another end, and across
        ("for (int j = 0; j < n; ++j) o[i] += a[(y * n + i) * w + j];", False),
        ("for (int j = 0; j < w; ++j) o[i] += a[j * w + i];", False),
        # a block goes along, not the thread
        ("o[i] += a[i * w + blockIdx.y];", False),
        # a length that is known
        ("for (int j = 0; j < 64; ++j) o[i] += a[i * 64 + j];", False),
    ],
)
def test_a_thread_that_goes_through_its_record(body: str, *, walks: bool) -> None:
    (view,) = views(KERNEL.format(body=body))
    access = next(a for a in view.global_accesses if a.name == "a" and a.reads)
    assert access.index is not None
    assert walks_record(access.index, access.loops, {}) == walks
    assert not walks_record(access.index, access.loops, {"w": 64, "n": 8})
