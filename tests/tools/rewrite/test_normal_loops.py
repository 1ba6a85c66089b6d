# SPDX-License-Identifier: Apache-2.0
"""Loops with their variable declared before them, in the form that rewrites read."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.rewrite.common.normal_loops import normalised
from warplens_tools.text import SourceText

KERNEL = """
__global__ void k(float* x, int n) {
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  float sum = 0;
  while (tid < n) {
    sum += x[tid];  // one
    tid += blockDim.x * gridDim.x;
  }
  x[threadIdx.x] = sum;
}
"""


def normal(code: str) -> str | None:
    text = SourceText(code)
    found = normalised(text, parse_tree(text), parse(text, "k.cu").kernels[0])
    return found.text if found is not None else None


def test_a_while_is_a_for_with_its_own_variable() -> None:
    after = normal(KERNEL)
    assert after is not None
    head = "for (int tid = threadIdx.x + blockIdx.x * blockDim.x; tid < n; tid += blockDim.x * gridDim.x) {"
    assert f"  float sum = 0;\n  {head}\n    sum += x[tid];  // one\n  }}\n" in after
    assert normal(after) is None


def test_a_for_without_a_start_gets_one() -> None:
    after = normal(KERNEL.replace("while (tid < n) {", "for (; tid < n; tid += 64) {").replace(
        "    tid += blockDim.x * gridDim.x;\n", ""))  # fmt: skip
    assert after is not None and "; tid < n; tid += 64) {" in after and "\n  int tid" not in after


@pytest.mark.parametrize(
    "change",
    [("= sum;", "= sum + tid;"), ("float sum = 0;", "float sum = tid;"), ("sum += x[tid];", "if (sum > 9) continue;"),
     ("sum += x[tid];", "sum += x[tid++];"), ("int tid = ", "int other = 1, tid = "), ("tid < n", "sum < n"),
     ("float sum = 0;", "float sum = 0; { int tid = 3; sum += tid; }")],
)  # fmt: skip
def test_a_variable_with_other_uses_stays(change: tuple[str, str]) -> None:
    assert normal(KERNEL.replace(*change)) is None


TWICE = """
__global__ void norms(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float sum = 0.0f;
    int c = 0;
    while (c < cols) {
      sum += x[r * cols + c] * x[r * cols + c];
      c++;
    }
    for (c = 0; c < cols; c++) y[r * cols + c] = x[r * cols + c] / sum;
    c = 0;
    while (c < cols) {
      y[r * cols + c] += 1.0f;
      c++;
    }
  }
}
"""
TWICE_MAIN = """
  int r = atoi(argv[1]), c = atoi(argv[2]);
  Device<float> x(r * c), y(r * c);
  norms<<<(r + 31) / 32, 32>>>(x, y, r, c); y.show();
"""


def test_a_counter_that_several_loops_start_anew_is_each_ones_own() -> None:
    source = SourceText(TWICE)
    after = plainly(source, "k.cu", parse(source, "k.cu").kernels[0])
    assert after is not None
    assert after.text.count("for (int c = 0; c < cols; c++)") == 3 and "int c;" not in after.text


def test_a_counter_that_is_read_behind_its_while_stays() -> None:
    assert normal(TWICE.replace("c = 0;\n    while", "c -= 1;\n    while")) is None


@pytest.mark.compiler
def test_rows_that_a_while_walks_are_kept_by_a_warp() -> None:
    after = holds("warp-row-kept", program(TWICE, TWICE_MAIN), (40, 70), (33, 33), relative=1e-5)
    assert "Held" in after
