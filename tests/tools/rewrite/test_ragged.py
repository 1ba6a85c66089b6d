# SPDX-License-Identifier: Apache-2.0
"""Products with triangles, whose loops are longer for some outputs than for others, in tiles."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

LOWER = """
__global__ void lower(const float* L, const float* B, float* C, int n, int m) {
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || j >= m) return;
  float s = 0;
  for (int k = 0; k <= i; k++) s += L[i * n + k] * B[k * m + j];
  C[i * m + j] = s;
}
"""
MAIN = """
  int n = atoi(argv[1]), m = atoi(argv[2]);
  Device<float> a(n * n), b(n * m, 3), c(n * m, 5);
  lower<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(a, b, c, n, m); c.show();
"""
CAUSAL = """
__global__ void values(const float* P, const float* V, float* O, int T, int D) {
  const float* p = P + blockIdx.z * T * T;
  const float* v = V + blockIdx.z * T * D;
  int d = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y * blockDim.y + threadIdx.y;
  if (t < T && d < D) {
    float sum = 0.0f;
    for (int s = 0; s < t + 1; ++s) sum = fmaf(p[t * T + s], v[s * D + d], sum);
    O[(blockIdx.z * T + t) * D + d] = sum;
  }
}
"""
CAUSAL_MAIN = """
  int t = atoi(argv[1]), d = atoi(argv[2]);
  Device<float> p(2 * t * t), v(2 * t * d, 3), o(2 * t * d, 5);
  values<<<dim3((d + 31) / 32, (t + 7) / 8, 2), dim3(32, 8)>>>(p, v, o, t, d); o.show();
"""


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["register-tile", "shared-tile"])
def test_a_loop_up_to_the_diagonal_is_tiled(slug: str) -> None:
    after = holds(slug, program(LOWER, MAIN), (70, 45), (16, 16), (3, 90))
    assert "k0 <= iLast" in after and "i < n && k <= i ? L[" in after


@pytest.mark.compiler
def test_a_loop_from_the_diagonal_is_tiled() -> None:
    upper = LOWER.replace("int k = 0; k <= i", "int k = i; k < n")
    after = holds("register-tile", program(upper, MAIN), (70, 45), (16, 16))
    assert "int k0 = i0; k0 < n" in after and "k >= i && k < n" in after


@pytest.mark.compiler
def test_what_attention_sees_up_to_now_is_tiled() -> None:
    holds("register-tile", program(CAUSAL, CAUSAL_MAIN), (70, 45), (16, 32), relative=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        ("s += L[i * n + k] * B[k * m + j]", "s += fabsf(L[i * n + k] - B[k * m + j])"),
        ("k <= i", "k <= 2 * i"),
        ("k <= i", "k <= n - i"),
        ("int k = 0; k <= i", "int k = j; k <= i"),
    ],
)
def test_other_ends_are_left_alone(change: tuple[str, str]) -> None:
    found = rewritten("register-tile", program(LOWER.replace(*change), MAIN))[0]
    assert found.refused == "the loop is not as long for all threads"
