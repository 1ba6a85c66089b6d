# SPDX-License-Identifier: Apache-2.0
"""A launch of a warp or so is short of threads: nothing that its accesses could gain is a warning, however long it
runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services import service_for

from warplens.service.service import CheckOptions

CODE = """\
__global__ void power(const double *hist, double *out, int length, int channels)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    double sum = 0.0;
    for (int m = 0; m < length; ++m) sum += hist[(channel * length + m) * 6 + 2];
    out[channel] = sum;
}

int main()
{
    double *hist, *out;
    int channels = %d, length = 2000;
    cudaMalloc(&hist, sizeof(double) * channels * length * 6);
    cudaMalloc(&out, sizeof(double) * channels);
    power<<<(channels + 63) / 64, 64>>>(hist, out, length, channels);
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize(("channels", "severity"), [(10, "information"), (1 << 16, "warning")])
def test_a_lone_warp_is_warned_of_nothing_but_its_launch(
    tmp_path: Path, channels: int, severity: str
) -> None:
    path = tmp_path / "k.cu"
    path.write_text(CODE % channels, "utf-8")
    report = service_for(tmp_path, path).check([path], CheckOptions(tier="binary", arch="sm_90"))
    assert [f.severity for f in report.files[0].findings if f.code == "WL101"] == [severity]
