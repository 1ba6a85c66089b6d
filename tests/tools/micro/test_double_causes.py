# SPDX-License-Identifier: Apache-2.0
"""What a finding on double arithmetic names is what is double: a field, a parameter, a variable."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services import service_for

from warplens.service.service import CheckOptions

CODE = """\
struct Atom { double x, y; int kind; };
struct Place { float x, y; };

__global__ void scaled(Place *__restrict__ to, const Atom *__restrict__ from, int n, %s lx)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i].x = from[i].x / lx;
}

__global__ void farthest(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double far = in[i], reach = 3 * in[n];
    out[i] = i < n ? far * reach / (far + reach) : 0.0f;
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("scalar", ["float", "double"])
def test_what_is_named_is_double(tmp_path: Path, scalar: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(CODE % scalar, "utf-8")
    report = service_for(tmp_path, path).check([path], CheckOptions(tier="binary", arch="sm_90"))
    said = {f.kernel: f for f in report.files[0].findings if f.code == "WL301"}
    assert "but from[i].x, double in memory, makes" in said["scaled"].message
    assert said["scaled"].guidance.startswith("Keep from[i].x as float in memory")
    assert "the double variable far, reach makes" in said["farthest"].message
