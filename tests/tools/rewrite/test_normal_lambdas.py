# SPDX-License-Identifier: Apache-2.0
"""Lambdas of a kernel's own, written out."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program
from tests.tools.rewrite.test_normal_ends import plain

SLOPES = """
__global__ void slopes(const unsigned char* img, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  auto at = [&](int dx, int dy) { return (int)img[(y + dy) * w + x + dx]; };
  int gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
  int gy = at(-1, 1) - at(-1, -1);
  int m = abs(gx) + abs(gy);
  out[y * w + x] = m > 255 ? 255 : m;
}
"""
MAIN = """
  int w = atoi(argv[1]); Device<unsigned char> a(9 * w), b(9 * w, 2);
  slopes<<<dim3((w + 31) / 32, 2), dim3(32, 8)>>>(a, b, w, 9); b.show();
"""


@pytest.mark.compiler
def test_what_a_lambda_reads_is_shared_among_outputs() -> None:
    after = holds("march-inside", program(SLOPES, MAIN), (70,), (5,))
    assert "auto at" not in after


def test_a_lambda_is_written_out_for_each_call() -> None:
    text = plain(SLOPES)
    assert "auto at" not in text
    assert "2 * ((int)img[(y + 0) * w + x + 1])" in text
    nested = SLOPES.replace("at(-1, 1) - at(-1, -1)", "at(at(0, 0), w - 1)")
    assert "x + ((int)img[(y + 0) * w + x + 0])" not in plain(nested)
    inner = SLOPES.replace("auto at", "auto row = [=](int j) { return (y + j) * w; };\n  auto at").replace(
        "(y + dy) * w", "row(dy)"
    )
    assert "img[((y + 0) * w) + x + 1]" in plain(inner)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("at(-1, 1) - at(-1, -1)", "at(-1, 1.5f) - 1"),
        ("at(-1, 1) - at(-1, -1)", "at(-1, m++)"),
        ("int dx, int dy", "float dx, float dy"),
        ("int dx, int dy", "int& dx, int dy"),
        ("return (int)", "y += 0; return (int)"),
        ("[&](int dx, int dy)", "[&](int dx, int dy) -> float"),
        ("[&]", "[=]"),
    ],
)
def test_other_lambdas_stay(old: str, new: str) -> None:
    code = SLOPES.replace(old, new)
    if new == "[=]":
        code = code.replace("  int gx", "  y += 0;\n  int gx")
    assert "auto at" in plain(code)
