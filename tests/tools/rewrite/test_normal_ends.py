# SPDX-License-Identifier: Apache-2.0
"""Loops whose condition names a place beside their counter, with the counter alone."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

LAGS = """
__global__ void autocorrelation(const float* x, float* r, int n, int lags) {
  int lag = blockIdx.x * blockDim.x + threadIdx.x;
  if (lag >= lags) return;
  float s = 0.0f;
  for (int i = 0; i + lag < n; i++) s += x[i] * x[i + lag];
  r[lag] = s / n;
}
"""
MAIN = """
  int n = atoi(argv[1]), lags = atoi(argv[2]);
  Device<float> x(n), r(lags);
  autocorrelation<<<(lags + 63) / 64, 64>>>(x, r, n, lags); r.show();
"""


def plain(text: str) -> str:
    """The text with its first kernel in the form that rewrites read; as it is where nothing changes."""
    source = SourceText(text)
    found = plainly(source, "k.cu", parse(source, "k.cu").kernels[0])
    return text if found is None else found.text


@pytest.mark.parametrize(
    ("condition", "alone"),
    [("i + lag < n", "i < n - lag"), ("lag + i <= n", "i <= n - lag"), ("n > i + 1", "i < n - 1"),
     ("i - lag < n * 2", "i < n * 2 + lag")],
)  # fmt: skip
def test_the_counter_stands_alone(condition: str, alone: str) -> None:
    assert f"; {alone};" in plain(LAGS.replace("i + lag < n", condition))


@pytest.mark.parametrize(
    ("old", "new"),
    [("int i = 0", "unsigned i = 0"), ("int n", "size_t n"), ("s += ", "n += 1; s += "), ("i + lag < n", "i + s < n"),
     ("i + lag < n", "2 * i + lag < n")],
)  # fmt: skip
def test_other_conditions_stay(old: str, new: str) -> None:
    assert "n - lag" not in plain(LAGS.replace(old, new))


@pytest.mark.compiler
def test_lags_are_split_among_threads() -> None:
    holds("split-columns", program(LAGS, MAIN), (300, 70), (33, 33), relative=1e-4, absolute=1e-4)
