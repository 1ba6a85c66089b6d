# SPDX-License-Identifier: Apache-2.0
"""Grids that would be too long along y or z."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import program, rewritten

FLAT = """
__global__ void scale(float* x, const float* gain, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  int c = i % cols;
  int r = i / cols;
  x[i] *= gain[c] + r;
}
"""
STRIDING = """
__global__ void linear(const float* x, const float* w, float* y, int outputs, int depth) {
  int row = blockIdx.x;
  for (int col = threadIdx.x; col < outputs; col += blockDim.x) {
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[k * outputs + col];
    y[row * outputs + col] = sum;
  }
}
"""


def _flat(rows: str) -> str:
    main = (
        f"  int rows = {rows}, cols = 32;\n  Device<float> x(64), g(32, 2);\n"
        "  scale<<<(rows * cols + 255) / 256, 256>>>(x, g, rows, cols);"
    )
    return program(FLAT, main)


def _striding(rows: str, outputs: str = "argc > 2 ? atoi(argv[2]) : 100") -> str:
    main = (
        f"  int rows = {rows}, outputs = {outputs};\n  Device<float> x(64), w(32, 2), y(64, 3);\n"
        "  linear<<<rows, 128>>>(x, w, y, outputs, 1);"
    )
    return program(STRIDING, main)


@pytest.mark.parametrize(
    "text",
    [_flat("1000000"), _flat("argc > 1 ? atoi(argv[1]) : 1000000")],
    ids=["a constant", "a run without arguments"],
)
def test_rows_that_y_does_not_hold_are_left_along_x(text: str) -> None:
    assert "125000 blocks" in rewritten("index-into-axes", text)[0].refused


def test_rows_that_y_holds_go_there() -> None:
    assert rewritten("index-into-axes", _flat("argc > 1 ? atoi(argv[1]) : 5000"))[0].edits
    assert rewritten("stride-into-grid", _striding("argc > 1 ? atoi(argv[1]) : 60000"))[0].edits


def test_a_block_for_each_row_stays_along_x() -> None:
    too_many = _striding("argc > 1 ? atoi(argv[1]) : 80000")
    assert "80000 blocks" in rewritten("stride-into-grid", too_many)[0].refused
    fixed = _striding("atoi(argv[1])", "96")
    assert "along y" in rewritten("stride-into-grid", fixed)[0].refused
