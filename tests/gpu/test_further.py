# SPDX-License-Identifier: Apache-2.0
"""What an edit changes beside the judged launch, its own geometry, and limits of time: on a card."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from warplens.measure.judge import Judge
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.edited import prove_edited
from warplens.service.optimize import OptimizeOptions, optimize_path
from warplens.service.service import Service
from warplens_tools.process.task import Task
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]
CODE = """
#include <cstdio>
#include <vector>
#define BLOCK 64
__device__ __forceinline__ float work(float v) {
    for (int k = 0; k < 400; ++k) v = fmaf(v, 0.999f, 0.001f);
    return v * 1.0f;
}
template <int N> __global__ void scale(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = work(in[i]) * N;
}
__global__ void shift(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = work(in[i]) + 1;
}
int main() {
    const int n = 1 << 20;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[i] = 0.25f + (i % 97) / 97.0f;
    float *in, *out;
    cudaMalloc(&in, n * 4);
    cudaMalloc(&out, n * 4);
    cudaMemcpy(in, host.data(), n * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 6; ++i) scale<1><<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(out, in, n);
    for (int i = 0; i < 3; ++i) scale<1><<<(n / 2 + BLOCK - 1) / BLOCK, BLOCK>>>(out, in, n / 2);
    for (int i = 0; i < 3; ++i) scale<2><<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(out, in, n);
    for (int i = 0; i < 3; ++i) shift<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(out, in, n);
    cudaMemcpy(host.data(), out, n * 4, cudaMemcpyDeviceToHost);
    std::printf("%f\\n", host[1000]);
    return cudaDeviceSynchronize();
}
"""
TIMES_N, PLUS_ONE = "work(in[i]) * N;", "work(in[i]) + 1;"


def confirmed(tmp_path: Path, *edits: tuple[str, str]) -> Verdict:
    path = tmp_path / "k.cu"
    path.write_text(CODE)
    text, made = SourceText(CODE), []
    for old, new in edits:
        start = CODE.index(old)
        made.append(TextEdit(text.span(start, start + len(old)), new))
    one = Candidate("c", str(path), "", tuple(made))
    with Judge(Workload(str(path), str(path)), kernel="scale") as judge:
        (verdict,) = judge.judge([one])
        return judge.confirm(one).verdict if verdict.state == "faster" else verdict


@pytest.mark.parametrize(
    "edits",
    [
        [("v * 1.0f", "v * 1.01f")],
        [(TIMES_N, "in[i] * 0 + (N == 2 ? 7.0f : work(in[i]) * N);")],
        [(TIMES_N, "n < (1 << 20) ? 7.0f : work(in[i]) * N;")],
        [(PLUS_ONE, "work(in[i]) + 2;"), (TIMES_N, "work(in[i]) * N + 0.0f * i;")],
    ],
    ids=["a shared function", "an instantiation", "a shape", "a sibling"],
)
def test_what_else_is_broken_is_never_faster(tmp_path: Path, edits: list[tuple[str, str]]) -> None:
    assert confirmed(tmp_path, *edits).state != "faster"


def test_a_version_with_another_block_is_judged_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    path, edited = tmp_path / "k.cu", tmp_path / "mine.cu"
    path.write_text(CODE)
    edited.write_text(CODE.replace("BLOCK 64", "BLOCK 256"))
    result = prove_edited(Service(tmp_path), path, edited, OptimizeOptions(kernel="scale"))
    assert result.tried[0].state in ("faster", "same", "slower"), result.reason


def test_seconds_hold_and_a_second_start_is_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    path = tmp_path / "k.cu"
    path.write_text(CODE)
    said: list[tuple[float, str]] = []

    def searched() -> float:
        said.clear()
        started = time.monotonic()
        optimize_path(
            Service(tmp_path),
            path,
            OptimizeOptions(seconds=16.0),
            task=Task(lambda words, _: said.append((time.monotonic() - started, words))),
        )
        ended = [at for at, words in said if words.startswith("confirming")]
        assert (ended[0] if ended else time.monotonic() - started) < 18.0
        return next(at for at, words in said if words.startswith("judged "))

    first = searched()
    assert searched() <= first
