# SPDX-License-Identifier: Apache-2.0
"""Counters that are declared before their loops, declared by them."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.rewrite.common.normal_counters import declared_by_loops
from warplens_tools.text import SourceText

KERNEL = """
__global__ void k(float* x, int n) {
  int i = threadIdx.x;
  unsigned int j, k;
  int m;
  float sum = 0;
  for (k = 0; k < n; k++)
    for (j = 1; j < k; ++j) sum += x[k * n + j];
  for (k = 2; k < n; k++) sum *= x[k];
  for (m = 0; m < i; m++) sum -= x[m];
  x[i] = sum;
}
"""


def changed(code: str) -> str:
    text = SourceText(code)
    edits = declared_by_loops(text, parse_tree(text), parse(text, "k.cu").kernels[0])
    return text.apply(list(edits)).text


def test_counters_become_their_loops_own() -> None:
    after = changed(KERNEL)
    for head in ("unsigned int k = 0; k", "unsigned int j = 1; j", "unsigned int k = 2; k", "int m = 0; m"):
        assert f"for ({head}" in after
    assert "int i = threadIdx.x;\n  float sum = 0;\n" in after
    assert changed(after) == after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[i] = sum;", "x[m] = sum;"),  # used behind its loop
        ("(m = 0; m", "(m = m; m"),
        ("(m = 0; m", "(; m"),
        ("int m;", "float m;"),
        ("int m;", "int m = n;"),
        ("sum -= x[m]", "{ int m = 3; sum -= x[m]; }"),
        ("sum -= x[m]", "for (m = 0; m < 3; m++) sum -= x[m]"),
    ],
)
def test_a_counter_with_other_uses_stays(old: str, new: str) -> None:
    assert old in KERNEL
    assert "for (int m" not in changed(KERNEL.replace(old, new))


def test_a_first_value_that_no_loop_starts_from_goes() -> None:
    assert "for (int m" in changed(KERNEL.replace("int m;", "int m = 3;"))
