# SPDX-License-Identifier: Apache-2.0
"""Loops that end where something is found, as loops of a warp that looks at 32 elements at a time."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "search-by-warp"
FIRST = """
struct Circle { float x, y, r; };
__global__ void collide(const Circle* c, const int* skip, int* hit, float* depth, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Circle me = c[i];
  int found = -1;
  float by = 0.0f;
  for (int j = 0; j < n; j++) {
    if (j == i || skip[j] == 3) continue;
    float dx = c[j].x - me.x, dy = c[j].y - me.y, d = dx * dx + dy * dy;
    if (d < 0.3f) {
      found = j;
      by = d;
      break;
    }
  }
  hit[i] = found;
  depth[i] = by;
}
"""
FIRST_MAIN = """
  int n = atoi(argv[1]);
  std::vector<Circle> v(n);
  for (int i = 0; i < n; i++) v[i] = {(i * 37 % 101) * 0.3f, (i * 53 % 89) * 0.3f, 1.0f};
  Device<float> raw(3 * n); Device<int> skip(n, 3), hit(n, 5); Device<float> depth(n, 6);
  cudaMemcpy(raw.data, v.data(), n * sizeof(Circle), cudaMemcpyHostToDevice);
  collide<<<(n + 63) / 64, 64>>>((Circle*)raw.data, skip, hit, depth, n); hit.show(); depth.show();
"""
ANY = """
__global__ void contains(const int* keys, const int* begin, const int* values, bool* answer, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) {
    bool is_there = false;
    for (int e = begin[i]; e < begin[i + 1]; ++e)
      if (values[e] == keys[i]) { is_there = true; break; }
    if (is_there) answer[i] = true;
    else answer[i] = false;
  }
}
"""
ANY_MAIN = """
  int n = atoi(argv[1]), each = atoi(argv[2]);
  std::vector<int> b(n + 1); for (int i = 0; i <= n; i++) b[i] = i * each - (i > 0 && i < n ? i % (each + 1) : 0);
  Device<int> k(n, 2), begin(n + 1), v(n * each + 1, 4); Device<bool> a(n);
  cudaMemcpy(begin.data, b.data(), (n + 1) * sizeof(int), cudaMemcpyHostToDevice);
  contains<<<(n + 63) / 64, 64>>>(k, begin, v, a, n); a.show();
"""


@pytest.mark.compiler
def test_the_first_that_is_found() -> None:
    after = holds(SLUG, program(FIRST, FIRST_MAIN), (1,), (33,), (130,), (257,))
    assert "found = __shfl_sync(0xffffffff, found, __ffs(enders) - 1);" in after
    assert rewritten(SLUG, after)[0].refused


@pytest.mark.compiler
def test_whether_there_is_one() -> None:
    after = holds(SLUG, program(ANY, ANY_MAIN), (1, 1), (70, 40), (33, 3), (5, 130))
    assert "int e = first + lane;" in after and "if (lane == 0) if (is_there)" in after


@pytest.mark.parametrize(
    "change",
    [
        ("    float dx", "    by += 1.0f;\n    float dx"),  # every step before the end counts
        ("      found = j;", "      found = j;\n      hit[i] = j;"),
        ("      break;", "      return;"),
        ("j++", "j += 2"),
        ("int j = 0; j < n;", "int j = 0; j < 9;"),  # a short loop
        ("  Circle me", "  __syncthreads();\n  Circle me"),
        ("  Circle me", "  depth[i] = 1;\n  Circle me"),
        ("  int found = -1;", "  unsigned char found = 0;"),  # nothing that lanes exchange
        ("  hit[i] = found;", "  for (int t = 0; t < n; t++) hit[i * n + t] = found;"),
        ("    float dx", "    for (int t = 0; t < n; t++) if (skip[t] == j) break;\n    float dx"),
    ],
)
def test_what_is_no_such_search_stays(change: tuple[str, str]) -> None:
    code = FIRST.replace(*change)
    assert code != FIRST
    result, after = rewritten(SLUG, program(code, FIRST_MAIN))
    if "skip[t] == j" in change[1]:  # the end of a loop inside is that loop's
        assert result.edits and "if (skip[t] == j) break;" in after
    else:
        assert result.refused
