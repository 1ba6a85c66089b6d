# SPDX-License-Identifier: Apache-2.0
"""Rows compared with rows in tiles: the same is found for every item, of equal ones the same, at any sizes."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_pairs_in_tiles import MAIN, NEAREST, PROGRAMS

SLUG = "nearest-rows"
NMD = "  int n = atoi(argv[1]), m = atoi(argv[2]), d = atoi(argv[3]);\n"
MORE = {
    "the last of the largest products, half precision": (
        """
__global__ void best(const half* q, const half* keys, int* at, float* score, int n, int m, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float top = -INFINITY;
    int which = -1;
    for (int j = 0; j < m; j++) {
      float s = 0.0f;
      for (int c = 0; c < d; c++) s += __half2float(q[i * d + c]) * __half2float(keys[j * d + c]);
      s = rintf(s * 0.02f);
      if (s >= top) { top = s; which = j; }
    }
    at[i] = which;
    score[i] = top;
  }
}
""",
        NMD + "  Device<half> q(n * d), k(m * d, 2); Device<int> a(n, 3); Device<float> s(n, 4);\n"
        "  best<<<(n + 127) / 128, 128>>>(q, k, a, s, n, m, d); a.show(); s.show();",
    ),
    "the least distance and how many are near": (
        """
__global__ void near(const float *a, const float *b, float *least, int *count, int n, int m, int d, float reach)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float most_near = 1e30f;
    int close = 0;
    for (int j = 0; j < m; ++j) {
        float dist = 0;
        for (int c = 0; c < d; ++c)
            dist += fabsf(a[i * d + c] - b[j * d + c]);
        most_near = fminf(most_near, dist);
        if (dist < reach) close++;
    }
    least[i] = sqrtf(most_near);
    count[i] += close;
}
""",
        NMD + "  Device<float> a(n * d), b(m * d, 2), l(n, 3); Device<int> c(n, 4);\n"
        "  near<<<(n + 63) / 64, 64>>>(a, b, l, c, n, m, d, 60.0f); l.show(); c.show();",
    ),
}
SIZES = ((150, 37, 19), (5, 300, 40))
#: What it finds is set behind a jump, which is not read as a fold.
JUMPS = "sizes that the file fixes"


@pytest.mark.parametrize("name", [n for n in PROGRAMS | MORE if n != JUMPS])
@pytest.mark.sampled(2)
def test_rows_are_compared_in_blocks_of_pairs(name: str) -> None:
    after = holds(SLUG, program(*(PROGRAMS | MORE)[name]), *SIZES, relative=1e-4, absolute=1e-5)
    assert "__shfl_xor_sync" in after
    assert rewritten(SLUG, after)[0].refused


REFUSED = {
    "    if (dist < best) {": ("    if (dist == 0) break;\n    if (dist < best) {", "left early"),
    "      label = c;": ("      label = c + 1;", "not which one it is"),
    "  labels[i] = label;": ("  labels[i] = label;\n  if (i == 0) return;", "no loop over others"),
    "    if (dist < best) {\n      best = dist;": (
        "    if (dist < best) {\n      if (label > 3) best_of[0] = 1.0f;\n      best = dist;",
        "",
    ),
    "float best = 3.0e38f": ("float best = points[i]", "begins with an element"),
}


@pytest.mark.parametrize("old", REFUSED)
def test_what_is_more_than_a_fold_is_left_alone(old: str) -> None:
    new, why = REFUSED[old]
    assert old in NEAREST
    result, _ = rewritten(SLUG, program(NEAREST.replace(old, new), MAIN))
    assert result.refused
    assert why in result.refused


def test_what_is_set_behind_a_jump_is_left_alone() -> None:
    assert "no fold of its pairs" in rewritten(SLUG, program(*PROGRAMS[JUMPS]))[0].refused


def test_the_two_nearest_are_left_alone() -> None:
    two = NEAREST.replace(
        "      best = dist;", "      best_of[i] = label;\n      second = best;\n      best = dist;"
    ).replace("int label = -1;", "int label = -1;\n  float second = 3.0e38f;")
    assert rewritten(SLUG, program(two.replace("best_of[i] = best;", "best_of[i] = second;"), MAIN))[
        0
    ].refused


def test_a_sum_that_begins_at_something_is_left_alone() -> None:
    code, main = PROGRAMS["one head of many"]
    result, _ = rewritten(SLUG, program(code.replace("float sum = 0.0f;", "float sum = 0.5f;"), main))
    assert "something else than nothing" in result.refused
