# SPDX-License-Identifier: Apache-2.0
"""Which launches are measured, and whether a lower precision may win: as the program's settings say."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.errors import InputError
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(200)]
PROGRAMS = Path(__file__).parent / "programs"
#: Work that grows with the grid at one shape and is wasted at the other.
TWO_SHAPES = """
#include <cstdio>
#include <vector>
__global__ void smooth(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? in[i] : 0.0f;
    for (int k = 0; k < 400; ++k) v = fmaf(v, 0.999f, 0.001f);
    if (i < n) out[i] = v;
}
int main() {
    const int n = 1 << 22;
    std::vector<float> host(n, 0.5f);
    float *in, *out;
    cudaMalloc(&in, n * 4);
    cudaMalloc(&out, n * 4);
    cudaMemcpy(in, host.data(), n * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) smooth<<<n / 256, 256>>>(out, in, n);
    for (int i = 0; i < 4; ++i) smooth<<<132, 256>>>(out, in, 132 * 256);
    cudaMemcpy(host.data(), out, n * 4, cudaMemcpyDeviceToHost);
    std::printf("%f\\n", host[1000]);
    return cudaDeviceSynchronize();
}
"""
LOOP = "    for (int k = 0; k < 400; ++k) v"


def candidate(path: Path, edits: Sequence[Sequence[str]]) -> Candidate:
    text = SourceText.read(path)
    made = []
    for old, new in edits:
        start = text.text.index(old)
        made.append(TextEdit(text.span(start, start + len(old)), new))
    return Candidate("edited", str(path), "", tuple(made))


def judged(work: Workload, one: Candidate, **settings: bool) -> Verdict:
    with Judge(work, settings=MeasureSettings(measure_identical=True, **settings)) as judge:
        (verdict,) = judge.judge([one])
    return verdict


@pytest.fixture
def shapes(tmp_path: Path) -> Workload:
    path = tmp_path / "smooth.cu"
    path.write_text(TWO_SHAPES)
    return Workload(str(path), str(path), every_shape=True)


def test_every_shape_is_measured(shapes: Workload) -> None:
    verdict = judged(shapes, Candidate("same", "", "", ()))
    assert verdict.state == "same"
    assert "with grid 132x1x1 and block 256x1x1" in verdict.reason


def test_slower_at_another_shape_is_not_faster(shapes: Workload) -> None:
    path = Path(shapes.source)
    slow = "    for (int k = 0; k < (gridDim.x < 200 ? 3200 : 400); ++k) if (k < 400) v"
    verdict = judged(shapes, candidate(path, [[LOOP, slow]]))
    assert verdict.state in ("same", "slower")
    assert "with grid 132x1x1 and block 256x1x1: as in the program 0." in verdict.reason
    heaviest = msgspec.structs.replace(shapes, every_shape=False)
    assert "132x1x1" not in judged(heaviest, candidate(path, [[LOOP, slow]])).reason


def test_a_launch_that_is_never_reached_is_refused(shapes: Workload) -> None:
    with pytest.raises(InputError, match="no launch 9 of its heaviest shape: there are 4"):
        judged(msgspec.structs.replace(shapes, launch=9), Candidate("same", "", "", ()))
    assert judged(msgspec.structs.replace(shapes, launch=1), Candidate("same", "", "", ())).state == "same"


@pytest.mark.parametrize("entry", ["half precision", "tf32 precision", "bfloat16 precision"])
def test_a_lower_precision_is_wrong_unless_it_is_allowed(entry: str) -> None:

    path = PROGRAMS / "product.cu"
    listed = tomllib.loads((PROGRAMS.parent / "exploits/product.toml").read_text())["candidate"]
    edits = next(c["edits"] for c in listed if c["name"] == entry)
    work = Workload(str(path), str(path))
    refused = judged(work, candidate(path, edits))
    assert refused.state == "wrong"
    assert "optimize.lower-precision would allow" in refused.reason
    allowed = judged(work, candidate(path, edits), lower_precision=True)
    assert allowed.state in ("faster", "same", "slower"), allowed.reason
    assert "of a lower precision, which is allowed here" in allowed.reason


def test_what_no_precision_explains_stays_wrong_where_one_is_allowed() -> None:
    path = PROGRAMS / "product.cu"
    old = "k < n; ++k) sum += a[row * n + k]"
    short = candidate(path, [[old, old.replace("k < n;", "k < n - 1;")]])
    assert judged(Workload(str(path), str(path)), short, lower_precision=True).state == "wrong"
