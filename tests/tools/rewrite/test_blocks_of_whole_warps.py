# SPDX-License-Identifier: Apache-2.0
"""Rows for warps where a run says how long a block is: it is whole warps then."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import EVERYWHERE
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText
from warplens_tools.tunable.block_parts import why_parts_of_block
from warplens_tools.tunable.source import File

_PROGRAM = """#include <cstdlib>
__global__ void row_sums(const float* in, float* out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; c++) sum += in[r * cols + c];
    out[r] = sum;
}
int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 4096, cols = argc > 2 ? atoi(argv[2]) : 1024;
    int threads = argc > 3 ? atoi(argv[3]) : 128;
    float *in = nullptr, *out = nullptr;
    row_sums<<<(rows + threads - 1) / threads, threads>>>(in, out, rows, cols);
}
"""
_LAUNCH = "(rows + threads - 1) / threads, threads>>>"


def _launch_and_refusal(*edits: tuple[str, str]) -> tuple[str, str]:
    """How the rewritten kernel is launched, and why the judge would not take the edit."""
    text = _PROGRAM
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    source = SourceText(text)
    model = parse(source, "k.cu")
    (rewrite,) = (r for r in REWRITES if r.slug == "warp-per-row")
    after = source.apply(list(rewrite.apply(source, model, model.kernels[0], EVERYWHERE).edits))
    found = next(line.strip() for line in after.text.splitlines() if "<<<" in line)
    refused = why_parts_of_block(File(source, model), File(after, parse(after, "k.cu")))
    return found.removeprefix("row_sums<<<").partition(">>>")[0], refused


@pytest.mark.parametrize(
    ("edits", "launch"),
    [
        ([], "(rows + 127) / 128 * kLanesPerRow, 128"),
        # a length that is no whole warps is not taken over
        ([(": 128;", ": 100;")], "(rows + 255) / 256 * kLanesPerRow, 256"),
        (
            [
                ("float *in =", "int blocks = (rows + threads - 1) / threads;\n    float *in ="),
                (_LAUNCH, "blocks, threads>>>"),
            ],
            "(rows + 127) / 128 * kLanesPerRow, 128",
        ),
        # what the host minds stays
        (
            [("float *in =", "if (threads % 32) return 1;\n    float *in =")],
            "(rows + threads - 1) / threads * kLanesPerRow, threads",
        ),
        (
            [("float *in =", "const int size = 64;\n    float *in ="), (_LAUNCH, "rows / size, size>>>")],
            "rows / size * kLanesPerRow, size",
        ),
    ],
)  # fmt: skip
def test_a_block_is_whole_warps(edits: list[tuple[str, str]], launch: str) -> None:
    assert _launch_and_refusal(*edits) == (launch, "")


def test_the_judge_minds_blocks_of_any_length() -> None:
    """Those that this cannot change: it would be no use to the search."""
    launch, refused = _launch_and_refusal(("threads>>>(", "threads, threads * sizeof(float)>>>("))
    assert launch.startswith("(rows + threads - 1) / threads * kLanesPerRow, threads")
    assert "whole parts" in refused
