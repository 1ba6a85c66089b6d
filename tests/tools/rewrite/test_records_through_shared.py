# SPDX-License-Identifier: Apache-2.0
"""Records of each thread's own are brought in and out through shared memory, and hold what they held."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

CHOLESKY = """
#define N 5
__global__ void cholesky(const double* A, double* L, int batch) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b < batch) {
    const double* a = A + (size_t)b * N * N;
    double* l = L + (size_t)b * N * N;
    for (int j = 0; j < N; j++) {
      double d = a[j * N + j] + 90.0;
      for (int k = 0; k < j; k++) d -= l[j * N + k] * l[j * N + k];
      l[j * N + j] = sqrt(d);
      for (int i = j + 1; i < N; i++) {
        double s = a[i * N + j];
        for (int k = 0; k < j; k++) s -= l[i * N + k] * l[j * N + k];
        l[i * N + j] = s / l[j * N + j];
      }
    }
  }
}
"""
CHOLESKY_MAIN = """
  int n = atoi(argv[1]);
  Device<double> a(n * 25), l(n * 25, 3);
  cholesky<<<(n + 255) / 256, 256>>>(a, l, n); a.show(); l.show();
"""
SOLVE = """
const int M = 12;
__global__ void solve(const float* a, const float* d, float* x, const int* skip, int systems) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems) return;
  size_t base = (size_t)s * M;
  float cp[M];
  cp[0] = a[base] / 7.0f;
  x[base] = d[base] / 7.0f;
  for (int i = 1; i < M; i++) {
    float m = 1.0f / (9.0f - a[base + i] * cp[i - 1]);
    cp[i] = a[base + i] * m;
    x[base + i] = (d[base + i] - a[base + i] * x[base + i - 1]) * m;
  }
  for (int i = M - 2; i >= 0; --i) if (skip[s] > 0) x[base + i] -= cp[i] * x[base + i + 1];
}
"""
SOLVE_MAIN = """
  int n = atoi(argv[1]);
  Device<float> a(n * 12), d(n * 12, 3), x(n * 12, 7); Device<int> k(n);
  dim3 block(64), grid((n + block.x - 1) / block.x);
  solve<<<grid, block>>>(a, d, x, k, n); x.show();
"""


@pytest.mark.compiler
def test_what_is_not_written_all_over_is_brought_in() -> None:
    after = holds("records-through-shared", program(CHOLESKY, CHOLESKY_MAIN), (300,), (33,), relative=1e-12)
    assert "ownL[t / 25][t % 25] = L[" in after and "const double* a = ownA[threadIdx.x];" in after


@pytest.mark.compiler
def test_indices_with_a_base_and_loops_that_count_down_stay_inside() -> None:
    after = holds("records-through-shared", program(SOLVE, SOLVE_MAIN), (200,), (31,), relative=1e-5)
    assert "ownX[threadIdx.x][i - 1]" in after and "skip[s]" in after


@pytest.mark.parametrize(
    "change",
    {
        "an element of the next record": ("i < M; i++", "i <= M; i++"),
        "a length that the run tells": ("(size_t)s * M", "(size_t)s * systems"),
        "a barrier": ("float cp[M];", "float cp[M]; __syncthreads();"),
        "short": ("const int M = 12", "const int M = 4"),
        "no limit": ("if (s >= systems) return;", ""),
    }.items(),
    ids=lambda c: c[0],
)  # fmt: skip
def test_other_records_are_left_alone(change: tuple[str, tuple[str, str]]) -> None:
    assert rewritten("records-through-shared", program(SOLVE.replace(*change[1]), SOLVE_MAIN))[0].refused


def test_an_array_that_is_passed_on_stays_where_it_is() -> None:
    helper = "__device__ float first(const float* p) { return *p; }\n"
    text = helper + SOLVE.replace("d[base] / 7.0f", "first(d) / 7.0f")
    after = rewritten("records-through-shared", program(text, SOLVE_MAIN))[1]
    assert "ownA[" in after and "ownD[" not in after
