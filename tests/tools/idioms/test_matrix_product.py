# SPDX-License-Identifier: Apache-2.0
"""Matrix products and their like, written anew: programs print the same on the host, at sizes that no tile divides."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_operand_tiles import MNK, PROGRAMS

SLUG = "matrix-product"
#: Of one axis, or of elements that no vector holds several of.
OTHERS = {
    "all on all but itself",
    "all bodies on one",
    "records, the own one read in the loop",
    "a matrix and a vector",
}
MORE = {
    "tiled through shared memory": (
        """
#define TILE 16
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  float acc = 0.0f;
  for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
    As[ty][tx] = row < M && t * TILE + tx < K ? A[row * K + t * TILE + tx] : 0.0f;
    Bs[ty][tx] = col < N && t * TILE + ty < K ? B[(t * TILE + ty) * N + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) acc += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc > 0.0f ? acc : 0.0f;
}
""",
        MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n, 3); dim3 t(TILE, TILE);\n"
        "  tiled<<<dim3((n + 15) / TILE, (m + 15) / TILE), t>>>(a, b, c, m, n, k); c.show();",
    ),
    "a thread a row, a loop over its outputs": (
        """
__global__ void rows(const float* A, const float* B, float* C, int M, int N, int K) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= M) return;
  for (int j = 0; j < N; j++) {
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum += A[i * K + k] * B[k * N + j];
    C[i * N + j] = sum;
  }
}
""",
        MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n, 3);\n"
        "  rows<<<(m + 63) / 64, 64>>>(a, b, c, m, n, k); c.show();",
    ),
    "complex numbers": (
        """
__global__ void cgemm(const float2* a, const float2* b, float2* c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return;
  float re = 0.0f, im = 0.0f;
  for (int p = 0; p < k; ++p) {
    float2 x = a[row * k + p], y = b[p * n + col];
    re += x.x * y.x - x.y * y.y;
    im += x.x * y.y + x.y * y.x;
  }
  c[row * n + col] = make_float2(re, im);
}
""",
        MNK + "  Device<float> a(2 * m * k), b(2 * k * n, 2), c(2 * m * n, 3);\n"
        "  cgemm<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>((float2*)a.data, (float2*)b.data,"
        " (float2*)c.data, m, n, k); c.show();",
    ),
    "rows that begin anywhere, results in half, launch bounds": (
        """
__global__ void __launch_bounds__(64) odd(const float* A, const float* B, __half* C, int M, int N, int K, int lda) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < M && c < N) {
    float s = 1.0f;
    for (int k = 1; k <= K - 1; k++) s += B[c * lda + k + 1] * A[k * lda + r + 3];
    C[r * N + c] = __float2half(tanhf(s));
  }
}
""",
        MNK + "  int lda = m + n + k + 4; Device<float> a(lda * (k + 1)), b(lda * (n + 1), 2);"
        " Device<__half> c(m * n, 3);\n"
        "  odd<<<dim3((n + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(a, b, c, m, n, k, lda); c.show();",
    ),
}
SIZES = ((65, 33, 17), (132, 136, 20))


@pytest.mark.parametrize("name", [n for n in (PROGRAMS | MORE) if n not in OTHERS])
def test_a_product_is_written_anew(name: str) -> None:
    after = holds(SLUG, program(*(PROGRAMS | MORE)[name]), *SIZES, relative=2e-5, absolute=1e-4)
    assert "[kProductDepth]" in after.replace("PRODUCT_DEPTH", "kProductDepth")
    assert "__launch_bounds__(" in after


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_what_has_no_rows_and_columns_is_left_alone(name: str) -> None:
    assert rewritten(SLUG, program(*PROGRAMS[name]))[0].refused


def test_elements_that_lie_apart_go_one_by_one() -> None:
    code, main = PROGRAMS["plain"]
    text = program(
        code.replace("B[k * N + col]", "B[k * N + 2 * col]"),
        main.replace("b(k * n, 2)", "b(2 * k * n + 9, 2)"),
    )
    after = holds(SLUG, text, (33, 20, 9))
    assert "reinterpret_cast<size_t>(&A[row * K + k])" in after
    assert "reinterpret_cast<size_t>(&B[" not in after


def test_an_index_that_hides_the_variable_is_no_vector() -> None:
    code, main = PROGRAMS["plain"]
    code = code.replace("sum += A[row * K + k]", "int at = k * N - k; sum += A[row * K + at - at + k]")
    after = holds(SLUG, program(code.replace("B[k * N + col]", "B[at + k + col]"), main), (33, 20, 9))
    assert "reinterpret_cast<size_t>(&B[at + k + col])" in after
    assert "reinterpret_cast<size_t>(&A[" not in after


REFUSED = {
    "sum += A[row * K + k] * B[row * N + col + k];": "no other thread of the block reads",
    "sum += A[row * K + k] * B[k * N + col]; if (sum > 9.0f) break;": "left early",
    "for (int q = 0; q < 2; ++q) sum += A[row * K + k] * B[q * N + col];": "an inner loop reads",
    "sum += A[k] * B[k * N + col];": "rows of one array with columns of another",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_no_product_is_refused(body: str) -> None:
    code, main = PROGRAMS["plain"]
    result, _ = rewritten(SLUG, program(code.replace("sum += A[row * K + k] * B[k * N + col];", body), main))
    assert result.refused
    assert REFUSED[body] in result.refused
