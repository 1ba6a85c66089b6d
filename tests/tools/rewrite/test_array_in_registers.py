# SPDX-License-Identifier: Apache-2.0
"""Arrays of a thread's own that loops with run-time bounds index go to registers."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

DISTANCE = """
#define MAXL 20
__global__ void distances(const char* a, const char* b, int* out, int pairs, int len)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pairs) return;
    int row[MAXL + 1];
    for (int j = 0; j <= len; j++) row[j] = j;
    for (int i = 1; i <= len; i++) {
        int prev = row[0];
        row[0] = i;
        for (int j = 1; j <= len; j++) {
            int cur = row[j];
            int cost = a[p * len + i - 1] == b[p * len + j - 1] ? 0 : 1;
            row[j] = min(min(row[j] + 1, row[j - 1] + 1), prev + cost);
            prev = cur;
        }
    }
    out[p] = row[len];
}
"""
DISTANCE_MAIN = """
  int n = atoi(argv[1]), len = atoi(argv[2]); Device<char> a(n * len + 1), b(n * len + 1, 3); Device<int> out(n, 2);
  distances<<<(n + 63) / 64, 64>>>(a, b, out, n, len); out.show();
"""
NEAREST = """
constexpr int kMax = 8;
__global__ void nearest(const float* x, float* out, int n, int m, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best[kMax];
  for (int s = 0; s < k; ++s) {
    best[s] = 1e30f;
  }
  for (int j = 0; j < m; ++j) {
    float d = fabsf(x[j] - x[i]);
    for (int s = 0; s < k; ++s) {
      if (d < best[s]) {
        float t = best[s];
        best[s] = d;
        d = t;
      }
    }
  }
  out[i] = best[k - 1];
}
"""
NEAREST_MAIN = """
  int n = atoi(argv[1]), k = atoi(argv[2]); Device<float> x(n), out(n, 2);
  nearest<<<(n + 63) / 64, 64>>>(x, out, n, n, k); out.show();
"""
SOLVE = """
#define N 6
__global__ void solve(const double* L, const double* b, double* x, int systems, int n) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems) return;
  double sol[N];
  for (int i = 0; i < n; i++) {
    double sum = b[s * n + i];
    for (int j = 0; j < i; j++) sum -= L[(s * n + i) * n + j] * sol[j];
    sol[i] = sum / (4.0 + fabs(L[(s * n + i) * n + i]));
  }
  for (int i = 0; i < n; i++) x[s * n + i] = sol[i];
}
"""
SOLVE_MAIN = """
  int m = atoi(argv[1]), n = atoi(argv[2]); Device<double> L(m * n * n), b(m * n, 2), x(m * n, 3);
  solve<<<(m + 31) / 32, 32>>>(L, b, x, m, n); x.show();
"""


@pytest.mark.parametrize("sizes", [(70, 20), (70, 7), (3, 0), (5, 1)])
def test_a_row_of_a_table_lives_in_registers(sizes: tuple[int, int]) -> None:
    after = holds("array-in-registers", program(DISTANCE, DISTANCE_MAIN), sizes)
    assert "j < MAXL + 1" in after and "bKept[j]" in after
    assert rewritten("array-in-registers", after)[0].refused


def test_a_sorted_list_lives_in_registers() -> None:
    after = holds("array-in-registers", program(NEAREST, NEAREST_MAIN), (50, 8), (33, 1), (9, 5))
    assert "if (s >= k) break;" in after and "item == (k - 1)" in after


def test_loops_in_each_other_are_unrolled_both() -> None:
    after = holds("array-in-registers", program(SOLVE, SOLVE_MAIN), (40, 6), (3, 2))
    assert after.count("#pragma unroll") == 3 and "if (j >= i) break;" in after


LEFT = {
    "data choose": (DISTANCE.replace("row[j - 1] + 1", "row[a[j]] + 1"), "data choose"),
    "too many": (DISTANCE.replace("MAXL 20", "MAXL 200"), "too many"),
    "passed on": (DISTANCE.replace("out[p] =", "f(row); out[p] ="), "passed on"),
    "an unknown extent": (DISTANCE.replace("#define MAXL 20", "extern int MAXL;"), "not known"),
    "every second": (DISTANCE.replace("j <= len; j++) {", "j <= len; j += 2) {"), "data choose"),
    "under a condition alone": (
        NEAREST.replace("best[s] = 1e30f;", "if (x[s] > 0) best[s] = 1e30f;"),
        "how far",
    ),
    "left early": (NEAREST.replace("best[s] = 1e30f;", "if (s > 5) break; best[s] = 1e30f;"), "left early"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    code, why = LEFT[name]
    result, _ = rewritten("array-in-registers", code + "\nvoid r() {}")
    assert not result.edits and why in result.refused


def test_what_is_read_is_not_kept_where_the_loop_writes() -> None:
    code = DISTANCE.replace("prev = cur;", "prev = cur; out[p] = prev;")
    result, after = rewritten("array-in-registers", program(code, DISTANCE_MAIN))
    assert result.edits and "bKept" not in after
