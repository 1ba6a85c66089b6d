# SPDX-License-Identifier: Apache-2.0
"""Outputs that begin at a place that the run says, as outputs that begin at zero."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

TRAILING = """
#define NB 8
__global__ void trailing(float* a, int n, int lda, int k0) {
  int i = k0 + NB + blockIdx.y * blockDim.y + threadIdx.y;
  int j = blockIdx.x * blockDim.x + threadIdx.x + (k0 + NB);
  if (i >= n || n <= j) return;
  float s = a[i * lda + j];
  for (int k = k0; k < k0 + NB; k++) s -= a[i * lda + k] * a[k * lda + j];
  a[i * lda + j] = s;
}
"""
MAIN = """
  int n = atoi(argv[1]), k0 = atoi(argv[2]);
  Device<float> a(n * (n + 3));
  int rest = n - k0 - NB > 0 ? n - k0 - NB : 1;
  dim3 block(16, 8), grid((rest + 15) / 16, (rest + 7) / 8);
  trailing<<<grid, block>>>(a, n, n + 3, k0); a.show();
"""
ROWS = """
__global__ void sums(const float* x, float* out, int first, int rows, int cols) {
  int r = first + blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float s = 0;
    for (int c = 0; c < cols; c++) s += x[r * cols + c];
    out[r] = s;
  }
}
"""
ROWS_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]), first = atoi(argv[3]);
  Device<float> x(rows * cols), out(rows, 2);
  sums<<<(rows - first + 63) / 64, 64>>>(x, out, first, rows, cols); out.show();
"""


def plain(code: str) -> str:
    text = SourceText(code)
    found = plainly(text, "k.cu", parse(text, "k.cu").kernels[0])
    return found.text if found is not None else ""


@pytest.mark.compiler
def test_a_panel_behind_the_columns_that_are_done() -> None:
    before = program(TRAILING, MAIN)
    after = plain(before)
    assert "int iHere = blockIdx.y * blockDim.y + threadIdx.y;" in after
    assert "if (iHere >= n - (k0 + NB) || jHere >= n - (k0 + NB)) return;" in after
    for slug in ("register-tile", "shared-tile"):
        holds(slug, before, (41, 0), (97, 16), (24, 16), relative=1e-5, absolute=1e-4)


@pytest.mark.compiler
def test_rows_from_the_first_on() -> None:
    before = program(ROWS, ROWS_MAIN)
    for slug in ("block-per-row", "warp-per-row"):
        holds(slug, before, (70, 33, 3), (5, 300, 4), relative=1e-5, absolute=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        ("int first,", "long first,"),  # a sum of another type
        ("int r = first", "unsigned int r = first"),  # a difference below zero would be a large number
        ("int rows,", "unsigned rows,"),
        ("if (r < rows)", "if (r < rows && x[r] < r)"),
        ("    float s = 0;", "    first = 2;\n    float s = 0;"),
        ("    float s = 0;", "    r++;\n    float s = 0;"),
        ("first + blockIdx", "cols * int(x[0]) + blockIdx"),
        ("first + blockIdx.x * blockDim.x", "first + 2 * blockIdx.x * blockDim.x + blockDim.x"),
    ],
)
def test_what_is_no_such_number_stays(change: tuple[str, str]) -> None:
    code = ROWS.replace(*change)
    assert code != ROWS
    expects = "rHere < rows - first" if "x[r]" in change[1] else ""
    after = plain(program(code, ROWS_MAIN))
    assert expects in after if expects else "rHere" not in after
