# SPDX-License-Identifier: Apache-2.0
"""A candidate whose grid follows from what the program passes: judged without its program, confirmed with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host_card.judging import candidate, on_software_card

from warplens.measure.build.geometry import Geometries

pytestmark = [pytest.mark.compiler, pytest.mark.thorough, pytest.mark.slow]
PROGRAM = """
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void scale(const float* in, float* out, int n, float by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * by + 1.0f;
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 20000;
    int block = argc > 2 ? atoi(argv[2]) : 256;
    std::vector<float> held(n);
    for (int i = 0; i < n; ++i) held[i] = 0.001f * (i % 977);
    float *in, *out;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemcpy(in, held.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    LAUNCH
    cudaMemcpy(held.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float x : held) sum += x;
    std::printf("%f %s\\n", sum, cudaGetErrorString(cudaGetLastError()));
}
"""


@pytest.mark.parametrize(
    ("launch", "ruled"),
    [
        ("scale<<<(n + block - 1) / block, block>>>(in, out, n, 2.5f);", True),
        # what is passed is what the rule is of
        ("n -= 5000; scale<<<(n + 5000 + block - 1) / block, block>>>(in, out, n, 2.5f); n += 5000;", True),
        # the number of blocks follows from another
        ("int given = n - 5000; scale<<<(n + block - 1) / block, block>>>(in, out, given, 2.5f);", False),
    ],
)
def test_a_block_is_judged_without_its_program(
    launch: str, ruled: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "scale.cu"
    source.write_text(PROGRAM.replace("LAUNCH", launch))
    asked: list[int] = []
    rebuild = Geometries.rebuild

    def counted(self: Geometries, texts: Any, task: Any) -> Any:
        asked.append(len(texts))
        return rebuild(self, texts, task)

    monkeypatch.setattr(Geometries, "rebuild", counted)
    for judge in on_software_card(source, "scale", monkeypatch, tmp_path):
        less = candidate(source, "less", ": 256", ": 192")
        (searched,) = judge.judge([less])
        # as many blocks as before would leave a quarter of the elements out
        assert searched.state in ("faster", "same", "slower"), searched.reason
        assert (sum(asked) == 0) == ruled
        if ruled:
            confirmed = judge.confirm(less).verdict
            assert confirmed.state in ("faster", "same", "slower"), confirmed.reason
            assert sum(asked) > 0
