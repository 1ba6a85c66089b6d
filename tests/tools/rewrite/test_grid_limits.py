# SPDX-License-Identifier: Apache-2.0
"""Grids that would be too long along y or z."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

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
        f"  int rows = {rows}, outputs = {outputs};\n\n  if (rows > 100) return 1;"
        "  Device<float> x(rows), w(outputs, 2), y(rows * outputs, 3);\n"
        "  linear<<<rows, 128>>>(x, w, y, outputs, 1); y.show();"
    )
    return program(STRIDING, main)


@pytest.mark.parametrize(
    "text",
    [_flat("1000000"), _flat("argc > 1 ? atoi(argv[1]) : 1000000")],
    ids=["a constant", "a run without arguments"],
)
def test_rows_that_y_does_not_hold_are_numbered_along_x(text: str) -> None:
    result, after = rewritten("index-into-axes", text)
    assert result.edits, result.refused
    assert "int c = blockIdx.y * blockDim.x + threadIdx.x;" in after
    assert "int r = blockIdx.x * blockDim.y + threadIdx.y;" in after
    assert "dim3((rows + 7) / 8, (cols + 31) / 32), dim3(32, 8)" in after
    # putting the axes in order again would make it too long again
    assert "125000 blocks" in rewritten("axes-in-order", after)[0].refused


def test_rows_that_y_holds_go_there() -> None:
    after = rewritten("index-into-axes", _flat("argc > 1 ? atoi(argv[1]) : 5000"))[1]
    assert "int r = blockIdx.y * blockDim.y + threadIdx.y;" in after
    # a number of the program's own
    after = rewritten("stride-into-grid", _striding("60000"))[1]
    assert "int row = blockIdx.y;" in after


def test_rows_that_a_run_may_have_any_of_stay_along_x() -> None:
    after = rewritten("stride-into-grid", _striding("argc > 1 ? atoi(argv[1]) : 60000"))[1]
    assert "int row = blockIdx.x;" in after and "int col = blockIdx.y * blockDim.x" in after


@pytest.mark.compiler
@pytest.mark.parametrize("outputs", ["argc > 2 ? atoi(argv[2]) : 100", "96"], ids=["any", "fixed"])
def test_a_block_for_each_row_stays_along_x(outputs: str) -> None:
    text = _striding("argc > 1 ? atoi(argv[1]) : 80000", outputs)
    after = holds("stride-into-grid", text, (3, 70), (1, 5))
    assert "int row = blockIdx.x;" in after
    assert "dim3(rows, (outputs + 128 - 1) / 128), 128" in after


def test_blocks_that_other_code_numbers_are_not_turned_round() -> None:
    helper = "__device__ int block() { return blockIdx.x; }\n"
    text = _flat("1000000").replace("__global__", f"{helper}__global__", 1)
    assert "other code" in rewritten("index-into-axes", text)[0].refused


def test_helpers_of_a_kernel_that_nobody_launches_here_are_no_sizes() -> None:
    code = """
__global__ void sums(const float* v, const int* at, float* s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&s[at[i]], v[i]);
}
"""
    result, after = rewritten("join-before-atomic", code)
    assert result.edits, result.refused
    assert "addTogether(float* place, float value)" in after
