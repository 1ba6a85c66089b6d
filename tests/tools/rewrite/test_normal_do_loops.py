# SPDX-License-Identifier: Apache-2.0
"""Loops that ask behind their body whether to go on, as loops that ask first."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

TRIAD = """
__global__ void triad(float* a, const float* b, const float* c, float s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  do {
    a[i] = b[i] + s * c[i];
    i += gridDim.x * blockDim.x;
  } while (i < n);
}
"""
TRIAD_MAIN = """
  int n = atoi(argv[1]);
  Device<float> a(n), b(n, 2), c(n, 3);
  triad<<<3, 64>>>(a, b, c, 0.5f, n); a.show();
"""
MAXIMUM = """
__global__ void row_max(const float* x, float* out, int rows, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    const float* p = x + row * n;
    float best = p[0];
    int j = 1;
    do {
      if (p[j] > best) best = p[j];
      j++;
    } while (j < n);
    out[row] = best;
  }
}
"""
MAXIMUM_MAIN = """
  int rows = atoi(argv[1]), n = atoi(argv[2]);
  Device<float> x(rows * n + 1), out(rows);
  row_max<<<(rows + 63) / 64, 64>>>(x, out, rows, n); out.show();
"""


def plain(code: str) -> str:
    text = SourceText(code)
    found = plainly(text, "k.cu", parse(text, "k.cu").kernels[0])
    return found.text if found is not None else ""


@pytest.mark.compiler
def test_a_loop_whose_first_step_a_condition_lets_through() -> None:
    before = program(TRIAD, TRIAD_MAIN)
    assert "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim" in plain(before)
    holds("widen-loop", before, (1,), (191,), (192,), (1027,))
    for inside in (
        TRIAD.replace("  if (i >= n) return;\n  do", "  if (i < n)\n  do"),
        TRIAD.replace("  if (i >= n) return;\n", "  if (i < n) {\n").replace("(i < n);", "(i < n);\n  }"),
    ):
        after = plain(program(inside, TRIAD_MAIN))
        assert inside != TRIAD and "do {" not in after and "if (i < n)" not in after
        holds("widen-loop", program(inside, TRIAD_MAIN), (1,), (191,), (1027,))


@pytest.mark.compiler
def test_a_loop_that_takes_its_first_step_in_any_case() -> None:
    before = program(MAXIMUM, MAXIMUM_MAIN)
    after = plain(before)
    assert "for (int j = 1; j < max(n, 2); j++)" in after
    for sizes in (("7", "1"), ("65", "2"), ("3", "70")):
        same_results(before, after, *sizes, orders=(1,))
    holds("warp-per-row", before, (7, 1), (65, 2), (3, 70))


@pytest.mark.parametrize(
    "change",
    [
        ("  if (i >= n) return;\n", ""),  # a first step beyond the limit is taken
        ("if (i >= n) return;", "if (i > n) return;"),
        ("if (i >= n) return;", "if (i >= n) return;\n  i += s > 1;"),
        ("    a[i] =", "    if (c[i] > 3) break;\n    a[i] ="),
        ("    a[i] =", "    i += c[i] > 3;\n    a[i] ="),
        ("    a[i] =", "    n -= 1;\n    a[i] ="),
    ],
)
def test_a_loop_of_which_nothing_is_said_stays(change: tuple[str, str]) -> None:
    code = TRIAD.replace(*change)
    assert code != TRIAD
    assert "do {" in (plain(program(code, TRIAD_MAIN)) or "do {")
