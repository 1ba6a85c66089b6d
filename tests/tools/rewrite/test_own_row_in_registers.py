# SPDX-License-Identifier: Apache-2.0
"""Short rows of a thread's own that a loop reads again and again, kept in registers."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "own-row-in-registers"
ASSIGN = """
#define DIMS 6
__global__ void assign(const float* points, const float* centres, int* labels, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  int label = 0;
  for (int c = 0; c < k; c++) {
    float sum = 0;
    for (int d = 0; d < DIMS; d++) {
      float diff = points[i * DIMS + d] - centres[c * DIMS + d];
      sum += diff * diff + points[i * DIMS + d];
    }
    if (sum < best) { best = sum; label = c; }
  }
  labels[i] = label;
}
"""
RUN = (
    "  int n = atoi(argv[1]), k = atoi(argv[2]); Device<float> p(n * 6), c(k * 6, 2); Device<int> l(n, 3);\n"
    "  assign<<<(n + 63) / 64, 64>>>(p, c, l, n, k); l.show();"
)
PAIRS = """
__global__ void pairs(const char* a, const char* b, int* out, int n) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < n) {
    int same = 0;
    for (int i = 0; i < 12; i++) {
      #pragma unroll
      for (int j = 1; j <= 12; ++j) same += a[12 * p + i] == b[p * 12 + j - 1] ? i : 1;
    }
    out[p] = same;
  }
}
"""
PAIRS_RUN = (
    "  int n = atoi(argv[1]); Device<char> a(n * 12), b(n * 12, 2); Device<int> y(n, 3);\n"
    "  pairs<<<(n + 63) / 64, 64>>>(a, b, y, n); y.show();"
)


@pytest.mark.compiler
def test_rows_are_kept() -> None:
    after = holds(SLUG, program(ASSIGN, RUN), (100, 7), (5, 1))
    assert after.count("points[") == 1 and after.count("#pragma unroll\n    for (int d") == 1
    assert rewritten(SLUG, after)[0].refused
    after = holds(SLUG, program(PAIRS, PAIRS_RUN), (100, 0))
    assert "bOwn[j - 1]" in after and after.count("#pragma unroll") == 2


REFUSED = {
    "a length that the run tells": ASSIGN.replace("#define DIMS 6", "").replace("int k)", "int k, int DIMS)"),
    "a long row": ASSIGN.replace("DIMS 6", "DIMS 100"),
    "rows side by side": ASSIGN.replace("i * DIMS + d", "d * n + i"),
    "a row that moves": ASSIGN.replace("points[i *", "points[(i + c) *"),
    "one row for all": ASSIGN.replace("points[i *", "points[blockIdx.x *"),
    "a row that is written": ASSIGN.replace("const float* points", "float* points").replace(
        "  labels[i]", "  points[i] = best;\n  labels[i]"
    ),
    "a condition": ASSIGN.replace("float diff =", "if (c > 1)").replace("diff * diff", "c"),
    "read once": ASSIGN.replace("  for (int c = 0; c < k; c++) {", "  { int c = k;"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    code = REFUSED[name].replace("points[i * DIMS + d];\n    }", "c;\n    }")
    assert rewritten(SLUG, program(code, RUN))[0].refused
