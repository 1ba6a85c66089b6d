# SPDX-License-Identifier: Apache-2.0
"""Loops with their variable declared before them, in the form that rewrites read."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
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
