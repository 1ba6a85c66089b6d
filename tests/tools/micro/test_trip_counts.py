# SPDX-License-Identifier: Apache-2.0
"""What the compiler divides to count a loop's iterations is no division of the program's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services import service_for

from warplens.service.service import CheckOptions

CODE = """\
__global__ void copied(int *__restrict__ out, const int *__restrict__ in, int n, int width, int rows)
{
    extern __shared__ int kept[];
    int tid = threadIdx.x, many = blockDim.x;
    for (int i = tid; i < n; i += many)
        kept[i] = in[i];
    for (int i = tid; i < width; i += many)
        kept[i + n] = in[i + n];
    for (int i = tid; i < rows; i += many)
        kept[i + n + width] = in[i + 2 * n];
    __syncthreads();
    for (int k = 0; k < n; ++k)
        for (int r = 0; r < rows; ++r)
            out[(k * rows + r) * 256 + tid] = kept[(k + tid) & 255];
}
void run(int *out, const int *in, int n, int w, int r) { copied<<<1056, 256, 4096>>>(out, in, n, w, r); }
"""


@pytest.mark.compiler
@pytest.mark.parametrize(("divisor", "told"), [("", False), (" / rows", True)])
def test_only_what_is_written_is_told(tmp_path: Path, divisor: str, told: bool) -> None:
    path = tmp_path / "k.cu"
    path.write_text(CODE.replace("; i += many", f"{divisor}; i += many"), "utf-8")
    report = service_for(tmp_path, path).check([path], CheckOptions(tier="binary", arch="sm_90"))
    assert any(f.code == "WL303" for f in report.files[0].findings) == told
