# SPDX-License-Identifier: Apache-2.0
"""Small problems of a block each, worked on in shared memory."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "problem-in-shared"
CHOLESKY = """
constexpr int DIM = 12;
template <typename T>
__global__ void cholesky(T* all, const T* right, T* out, int count) {
  int b = blockIdx.x, row = threadIdx.x;
  if (b >= count) return;
  T* A = &all[b * DIM * DIM];
  for (int k = 0; k < DIM; ++k) {
    if (row == k) A[k * DIM + k] = sqrt(A[k * DIM + k]);
    __syncthreads();
    if (row > k) A[row * DIM + k] = A[row * DIM + k] / A[k * DIM + k];
    __syncthreads();
    if (row > k) {
      for (int j = k + 1; j <= row; ++j) A[row * DIM + j] -= A[row * DIM + k] * A[j * DIM + k];
    }
    __syncthreads();
  }
  out[b * DIM + row] = A[row * DIM + row] * right[b * DIM + row];
}
"""
CHOLESKY_MAIN = """
  int n = atoi(argv[1]);
  std::vector<float> h(n * DIM * DIM);
  for (int i = 0; i < n * DIM * DIM; i++) h[i] = i % (DIM * DIM) % (DIM + 1) == 0 ? 9.0f : 0.1f * (i % 5);
  Device<float> a(n * DIM * DIM), r(n * DIM, 2), o(n * DIM, 3);
  cudaMemcpy(a.data, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
  cholesky<float><<<n, DIM>>>(a, r, o, n); a.show(); o.show();
"""
#: Read alone, by a block of two dimensions.
POWERS = """
#define M 8
__global__ void powers(const float* matrices, float* out) {
  const float* m = matrices + blockIdx.x * (M * M);
  int r = threadIdx.y, c = threadIdx.x;
  float sum = 0.0f;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < M; j++) sum += m[r * M + i] * m[i * M + j] * m[j * M + c];
  out[blockIdx.x * M * M + r * M + c] = sum;
}
"""
POWERS_MAIN = """
  int n = atoi(argv[1]);
  Device<float> a(n * M * M), o(n * M * M, 3);
  powers<<<n, dim3(M, M)>>>(a, o); o.show();
"""


@pytest.mark.compiler
def test_a_matrix_that_is_factorised_in_place() -> None:
    after = holds(SLUG, program(CHOLESKY, CHOLESKY_MAIN), (1,), (7,), relative=1e-5)
    assert "__shared__ T A[DIM * DIM];" in after and "problem[t] = A[t];" in after
    assert rewritten(SLUG, after)[0].refused


@pytest.mark.compiler
def test_a_matrix_that_is_read_alone_is_not_brought_back() -> None:
    after = holds(SLUG, program(POWERS, POWERS_MAIN), (1,), (5,), relative=1e-5)
    assert "threadIdx.y * blockDim.x + threadIdx.x; t < M * M; t += blockDim.x * blockDim.y" in after
    assert "problem[t] = m[t]" not in after


@pytest.mark.parametrize(
    "change",
    [
        ("int j = k + 1; j <= row", "int j = k + 1; j <= count"),  # where an element lies is not known
        ("&all[b * DIM * DIM]", "&all[b * DIM * count]"),
        ("&all[b * DIM * DIM]", "&all[(b + row) * DIM * DIM]"),
        ("if (b >= count) return;", "if (b >= count || row > 5) return;"),
        ("    __syncthreads();\n    if (row > k) A", "    if (row > 9) return;\n    if (row > k) A"),
        ("out[b * DIM + row] = A", "all[b * DIM] = 1; out[b * DIM + row] = A"),
        ("out[b * DIM + row] = A", "f(A); out[b * DIM + row] = A"),
        ("DIM = 12", "DIM = 200"),  # larger than shared memory
        ("    if (row == k)", "    __shfl_sync(~0u, row, 0);\n    if (row == k)"),
    ],
)
def test_another_problem_stays_where_it_is(change: tuple[str, str]) -> None:
    code = CHOLESKY.replace(*change)
    assert code != CHOLESKY
    assert rewritten(SLUG, program(code, CHOLESKY_MAIN))[0].refused
