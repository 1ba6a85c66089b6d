# SPDX-License-Identifier: Apache-2.0
"""Rows that each lane sums up by itself: what a tree by shuffles for each takes of what reading them together gains."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.service.service import CheckOptions, Service

pytestmark = pytest.mark.compiler

SUMS = """\
__global__ void sums(const float *a, float *o, int rows, int length)
{{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = 0; k < length; ++k) sum += a[row * length + k];
    o[row] = sum;
}}
int main()
{{
    float *a, *o;
    cudaMalloc(&a, {length} * 65536 * sizeof(float));
    cudaMalloc(&o, 65536 * sizeof(float));
    sums<<<256, 256>>>(a, o, 65536, {length});
    return cudaDeviceSynchronize();
}}
"""


def promised(folder: Path, length: int) -> float:
    """The expected gain of reading rows of this length together."""
    file = folder / f"sums{length}.cu"
    file.write_text(SUMS.format(length=length), "utf-8")
    report = Service(folder).check([file], CheckOptions(tier="binary", arch="sm_90"))
    found = [f for f in report.files[0].findings if f.code in ("WL101", "WL104") and f.gain is not None]
    gain = found[0].gain
    assert gain is not None
    return gain.estimate


def test_trees_of_short_rows_take_most_of_what_is_gained(tmp_path: Path) -> None:
    short, long = promised(tmp_path, 64), promised(tmp_path, 8192)
    assert 1.0 <= short < 0.7 * long
