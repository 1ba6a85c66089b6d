# SPDX-License-Identifier: Apache-2.0
"""Loops of factorizations in place: dealt out where rows or columns tell apart what is written and what is read."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

BATCH = """
__global__ void problems(float* A, int n, int count, int first) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= count) return;
  float* a = A + (size_t)b * n * n;
  BODY
}
"""
MAIN = (
    "  int count = atoi(argv[1]), n = atoi(argv[2]); Device<float> a(count * n * n);\n"
    "  problems<<<(count + 63) / 64, 64>>>(a, n, count, 1); a.show();"
)
LU = """for (int k = 0; k < n; k++)
    for (int i = k + 1; i < n; i++) {
      a[i * n + k] /= 40.0f + a[k * n + k];
      for (int j = k + 1; j < n; j++) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }"""
BODIES = {
    "lu": LU,
    "the lower triangle": """for (int j = 0; j < n; j++) {
    float d = 90.0f + a[j * n + j];
    for (int i = j + 1; i < n; i++) {
      float s = a[i * n + j];
      for (int k = 0; k < j; k++) s -= 0.01f * a[i * n + k] * a[j * n + k];
      a[i * n + j] = s / d;
    }
  }""",
    "rows that are exchanged by columns": """for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) {
      float t = a[(n - 1) * n + j];
      a[(n - 1) * n + j] = 0.5f * a[k * n + j];
      a[k * n + j] = t;
    }""",
    "beyond a counter that moves": """for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) a[j] += 0.25f * a[i];""",
    "a beginning that moves": """for (int i = 0; i < n; i++)
    for (int j = i; j < n; j++) a[j] = 0.5f * a[j] + i;""",
    "a row that the kernel is given": """for (int i = first + 1; i < n; i++)
    for (int j = 0; j < n; j++) a[i * n + j] -= 0.125f * a[first * n + j];""",
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("slug", ["warp-per-row", "block-per-row"])
@pytest.mark.sampled(4)
def test_iterations_that_touch_other_elements_are_dealt_out(slug: str, name: str) -> None:
    holds(
        slug,
        program(BATCH.replace("BODY", BODIES[name]), MAIN),
        (70, 9),
        (3, 1),
        relative=1e-4,
        absolute=1e-4,
    )


REFUSED = {
    "what the one before wrote": "for (int i = 1; i < n; i++) a[i * n] += a[i * n - n];",
    "columns beyond the row": "for (int i = 1; i < n; i++) for (int j = 0; j <= n; j++)"
    " a[i * n + j] += a[first * n + j];",
    "columns below it": "for (int i = first + 1; i < n; i++) for (int j = first - 2; j < n; j++)"
    " a[i * n + j] += a[first * n + j];",
    "another pitch": "for (int i = 1; i < n; i++) for (int k = 0; k < i; k++) a[i * n + k] += a[i * 3 + k];",
    "the row itself": "for (int i = first; i < n; i++) for (int k = 0; k < i; k++) a[i * n + k] += a[first * n + k];",
}


@pytest.mark.parametrize("name", REFUSED)
def test_iterations_that_may_meet_are_not(name: str) -> None:
    assert rewritten("warp-per-row", program(BATCH.replace("BODY", REFUSED[name]), MAIN))[0].refused
