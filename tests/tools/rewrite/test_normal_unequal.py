# SPDX-License-Identifier: Apache-2.0
"""Loops that end where their counter meets a limit: dealt out, they would step over it."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SUMS = """
__global__ void row_sums(const float* in, float* out, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c != cols; ++c) sum += in[r * cols + c];
  out[r] = sum;
}
"""
MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]); Device<float> x(rows * cols), y(rows);
  row_sums<<<(rows + 63) / 64, 64>>>(x, y, rows, cols); y.show();
"""
SPELLINGS = {
    "upward": SUMS,
    "the limit first": SUMS.replace("c != cols", "cols != c"),
    "downward to nothing": SUMS.replace("c = 0; c != cols; ++c", "c = cols; c != 0; --c").replace(
        "cols + c]", "cols + c - 1]"
    ),
    "a while": SUMS.replace(
        "for (int c = 0; c != cols; ++c) sum", "int c = 0;\n  while (c != cols) {\n    sum"
    ).replace("cols + c];", "cols + c];\n    c++;\n  }"),
    "pointers": SUMS.replace(
        "for (int c = 0; c != cols; ++c) sum += in[r * cols + c]",
        "const float* row = in + r * cols;\n  for (const float* p = row; p != row + cols; ++p) sum += *p",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["warp-per-row", "block-per-row"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_dealt_out_it_ends(slug: str, name: str) -> None:
    text = program(SPELLINGS[name], MAIN)
    after = holds(slug, text, (70, 33), (5, 1), (1, 64), relative=1e-5)
    assert "!=" not in after.partition("row_sums")[2].partition("main")[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("++c", "c += 2"),
        ("c = 0; c != cols; ++c", "c = cols - 1; c != -1; --c"),
        ("sum += in", "if (in[c] < 0) ++c; sum += in"),
    ],
)
def test_what_may_step_over_stays(old: str, new: str) -> None:
    assert rewritten("warp-per-row", SUMS.replace(old, new))[0].refused
