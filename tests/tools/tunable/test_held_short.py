# SPDX-License-Identifier: Apache-2.0
"""Rows that an edit holds so many of, where the kernel goes up to their end."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.held_short import why_held_short
from warplens_tools.tunable.source import File

PROGRAM = """
constexpr int kThreads = 256;
__global__ void rows(const float* x, const int* starts, float* out, int width, int n) {{
    constexpr int held = 16;
    float s = 0;
    {0}
    out[blockIdx.x] = s;
}}
int main(int argc, char** argv) {{
    const int n = atoi(argv[1]), width = atoi(argv[2]);
    {2}
    rows<<<{1}, kThreads>>>(nullptr, nullptr, nullptr, width, n);
}}
"""
LOOP = "for (int i = threadIdx.x; i < width; i += kThreads) s += x[i];"
DATA = "const int end = starts[1]; for (int i = starts[0]; i < end; ++i) s += x[i];"


def _said(was: str, now: str, grid: str = "64", host: str = "") -> str:
    files = []
    for how in (was, now):
        text = SourceText(PROGRAM.format(how, grid, host))
        files.append(File(text, parse(text, "k.cu")))
    return why_held_short(*files)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (
            LOOP,
            "float mine[32]; for (int k = 0; k < 32; ++k) { const int i = threadIdx.x + k * kThreads;"
            " mine[k] = i < width ? x[i] : 0; s += mine[k]; }",
        ),
        (LOOP, "for (int k = 0; k < held; ++k) if (threadIdx.x + k * kThreads < width) s += x[k];"),
        (LOOP, "const int w = width; for (int k = 0; k < held / 2; ++k) if (k < w) s += x[k];"),
        (LOOP, "for (int k = 0; k < held; ++k) s += x[min(k, width - 1)];"),
        (
            DATA,
            "const int end = starts[1]; for (int k = 0; k < held; ++k) { if (starts[0] + k >= end) break; s += x[k]; }",
        ),
    ],
)
def test_rows_that_are_held_in_part_are_told(was: str, now: str) -> None:
    end = "width" if was == LOOP else "end"
    assert f"than a loop of its own has rounds, the kernel up to `{end}`" in _said(was, now)


@pytest.mark.parametrize(
    ("was", "now", "grid"),
    [
        (LOOP, LOOP.replace("+= x[i]", "+= 2 * x[i]"), "64"),
        # again and again, or with a loop for the others
        (
            LOOP,
            "for (int b = 0; b < width; b += 4 * kThreads) for (int k = 0; k < 4; ++k)"
            " if (b + k * kThreads + threadIdx.x < width) s += x[b + k];",
            "64",
        ),
        (LOOP, f"for (int k = 0; k < held; ++k) if (k < width) s += x[k]; {LOOP}", "64"),
        # what other blocks do
        (
            LOOP.replace("width", "n"),
            "for (int k = 0; k < 4; ++k) if (k < n) s += x[k];",
            "(n + 1023) / 1024",
        ),
        # bounded as it is
        (
            "for (int k = width / 8 * 8; k < width; ++k) s += x[k];",
            "for (int k = 0; k < 7; ++k) if (width / 8 * 8 + k < width) s += x[k];",
            "64",
        ),
        (
            "const int warp = threadIdx.x / 32; for (int w = 0; w < warp; ++w) s += x[w];",
            "const int warp = threadIdx.x / 32; for (int w = 0; w < 7; ++w) if (w < warp) s += x[w];",
            "64",
        ),
    ],
)
def test_rows_that_are_gone_through_are_not(was: str, now: str, grid: str) -> None:
    assert _said(was, now, grid) == ""


def test_what_the_program_bounds_may_be_held() -> None:
    held = "for (int k = 0; k < held; ++k) if (threadIdx.x + k * kThreads < width) s += x[k];"
    assert _said(LOOP, held)
    assert not _said(LOOP, held, host="if (width < 1 || width > 4096) return 1;")
    own = "float row[64]; for (int j = 0; j < width; ++j) row[j] = x[j]; for (int j = 0; j < width; ++j) s += row[j];"
    assert not _said(own, own.replace("j < width", "j < 64").replace("s += row", "if (j < width) s += row"))
    triangle = "for (int j = 0; j < held; ++j) for (int k = 0; k < j; ++k) s += x[k];"
    assert not _said(triangle, triangle.replace("k < j; ++k)", "k < held; ++k) if (k < j)"))


def test_ends_of_the_text_and_loops_of_a_lambda_are_no_rows() -> None:
    fixed = "for (int i = 0; i < held; ++i) s += x[i];"
    assert not _said(fixed, "for (int i = 0; i < 32; ++i) if (i < held) s += x[i];")
    tiles = (
        "auto tile = [&](int t) { for (int k = 0; k < 4; ++k) if (4 * t + k < width) s += x[4 * t + k]; };"
        " for (int t = 0; t < (width + 3) / 4; ++t) tile(t);"
    )
    assert not _said("for (int i = 0; i < width; ++i) s += x[i];", tiles)
