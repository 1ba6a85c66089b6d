# SPDX-License-Identifier: Apache-2.0
"""One word of each record: a gain is promised where an array may hold many records, not where each is so long that
few fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services import service_for

from warplens.service.service import CheckOptions

CODE = """\
struct Cell { int many; float kept[%d]; };
__global__ void emptied(Cell *__restrict__ cells, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) cells[i].many = 0;
}
void run(Cell *cells, int n) { emptied<<<(n + 255) / 256, 256>>>(cells, n); }
"""


@pytest.mark.compiler
@pytest.mark.parametrize(("kept", "promised"), [(15, True), (1024, False)])
def test_what_is_promised_of_one_word_a_record(tmp_path: Path, kept: int, promised: bool) -> None:
    path = tmp_path / "k.cu"
    path.write_text(CODE % kept, "utf-8")
    report = service_for(tmp_path, path).check([path], CheckOptions(tier="binary", arch="sm_90"))
    (found,) = (f for f in report.files[0].findings if f.code in ("WL102", "WL103"))
    assert (found.gain is not None) == promised
