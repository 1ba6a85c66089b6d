# SPDX-License-Identifier: Apache-2.0
"""What a loop remembers of the last element that a condition holds for, as the place of that element."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

JACOBI = """
__global__ void jacobi(int n, const int* rowptr, const int* column, const float* value, const float* x, float* next) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sigma = 0.0f;
  float diagonal = 1.0f;
  for (int j = rowptr[row]; j < rowptr[row + 1]; j++) {
    if (column[j] == row) diagonal = 2.0f + value[j];
    else sigma += value[j] * x[column[j]];
  }
  next[row] = (x[row] - sigma) / diagonal;
}
"""
MAIN = """
  int n = atoi(argv[1]), each = atoi(argv[2]);
  std::vector<int> ptr(n + 1), col(n * each + 1);
  for (int r = 0; r <= n; r++) ptr[r] = r * each - (r > 0 && r < n ? r % (each + 1) : 0);
  for (int e = 0; e < n * each; e++) col[e] = e % 3 ? (e * 7) % n : e / each;
  Device<int> p(n + 1), c(n * each + 1);
  cudaMemcpy(p.data, ptr.data(), (n + 1) * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(c.data, col.data(), n * each * sizeof(int), cudaMemcpyHostToDevice);
  Device<float> v(n * each + 1), x(n, 2), y(n, 3);
  jacobi<<<(n + 63) / 64, 64>>>(n, p, c, v, x, y); y.show();
"""


def plain(code: str) -> str:
    text = SourceText(code)
    found = plainly(text, "k.cu", parse(text, "k.cu").kernels[0])
    return found.text if found is not None else ""


@pytest.mark.compiler
def test_a_diagonal_that_a_row_has_somewhere() -> None:
    before = program(JACOBI, MAIN)
    after = plain(before)
    assert "if (column[j] == row) diagonalAt = max(diagonalAt, j);" in after
    assert "  if (diagonalAt >= 0) diagonal = 2.0f + value[diagonalAt];" in after
    for slug in ("warp-per-row", "block-per-row"):
        holds(slug, before, (5, 3), (65, 40), (130, 1), relative=1e-4, absolute=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        ("sigma += value[j]", "sigma += diagonal * value[j]"),  # it is read before the end
        ("j++", "j += 2"),
        ("diagonal = 2.0f + value[j]", "diagonal = 2.0f"),  # no element's: it has nothing to do with a place
        ("diagonal = 2.0f + value[j]", "diagonal += value[j]"),
        ("diagonal = 2.0f + value[j]", "diagonal = sigma + value[j]"),
        ("diagonal = 2.0f + value[j];", "{ diagonal = value[j]; break; }"),
        ("else sigma", "else next[j] = 0, sigma"),  # what is written may be what is read again
        ("diagonal = 2.0f + value[j]", "diagonal = next_of(j) + value[j]"),
    ],
)
def test_what_is_no_last_element_stays(change: tuple[str, str]) -> None:
    code = JACOBI.replace(*change)
    assert code != JACOBI
    assert "diagonalAt" not in plain(program(code, MAIN))
