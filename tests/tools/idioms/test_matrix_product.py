# SPDX-License-Identifier: Apache-2.0
"""Matrix products and their like, written anew: programs print the same, at sizes that no tile divides."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_operand_tiles import MNK, PROGRAMS
from tests.tools.rewrite.test_ragged import CAUSAL, CAUSAL_MAIN, LOWER
from tests.tools.rewrite.test_ragged import MAIN as TRIANGLE

SLUG = "matrix-product"
#: Of one axis, or of elements that no vector holds several of.
OTHERS = {
    "all on all but itself",
    "all bodies on one",
    "records, the own one read in the loop",
    "a matrix and a vector",
}
MORE = {
    "beta zero apart": (
        """
__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= N || row >= M) return;
  float tmp = 0.f;
  for (int i = 0; i < K; ++i) { tmp += A[row * K + i] * B[i * N + col]; }
  if (beta == 0.f) C[row * N + col] = alpha * tmp;
  else C[row * N + col] = alpha * tmp + beta * C[row * N + col];
}
""",
        MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n, 3);\n  sgemm<<<dim3((n + 15) / 16, (m + "
        "15) / 16), dim3(16, 16)>>>(m, n, k, 2.0f, a, b, 0.5f, c); c.show();",
    ),
    "pointwise convolution of a batch": (
        """
__global__ void conv1x1(const float* x, const float* w, const float* b, float* y, int C, int O, int P) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  int o = blockIdx.y * blockDim.y + threadIdx.y;
  int img = blockIdx.z;
  if (p < P && o < O) {
    float acc = b[o];
    for (int c = 0; c < C; ++c) acc += w[o * C + c] * x[((size_t)img * C + c) * P + p];
    y[((size_t)img * O + o) * P + p] = fmaxf(acc, 0.0f);
  }
}
""",
        MNK + "  Device<float> x(2 * k * n), w(m * k, 2), b(m, 4), y(2 * m * n, 3);\n  "
        "conv1x1<<<dim3((n + 31) / 32, (m + 7) / 8, 2), dim3(32, 8)>>>(x, w, b, y, k, m, n); "
        "y.show();",
    ),
    "scores of [batch, sequence, heads, depth]": (
        """
__global__ void qk(const float* q, const float* k, float* out, int S, int H, int D, float scale) {
  int kj = blockIdx.x * blockDim.x + threadIdx.x;
  int qi = blockIdx.y * blockDim.y + threadIdx.y;
  int bh = blockIdx.z, b = bh / H, h = bh % H;
  if (qi >= S || kj >= S) return;
  float dot = 0.0f;
  for (int d = 0; d < D; ++d) dot += q[((b * S + qi) * H + h) * D + d] * k[((b * S + kj) * H + h) * D + d];
  out[(bh * S + qi) * S + kj] = kj > qi ? -INFINITY : dot * scale;
}
""",
        MNK + "  int H = 2; Device<float> q(2 * m * H * k), kk(2 * m * H * k, 2), o(2 * H * m * m, 3); "
        "(void)n;\n  qk<<<dim3((m + 15) / 16, (m + 15) / 16, 2 * H), dim3(16, 16)>>>(q, kk, o, "
        "m, H, k, 0.25f); o.show();",
    ),
    "while loop": (
        """
__global__ void mmw(float* C, float* A, float* B, int wA, int wB, int hA) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < wB && y < hA) {
    float value = 0;
    int i = 0;
    while (i < wA) { float elA = A[y * wA + i]; float elB = B[i * wB + x]; value += elA * elB; ++i; }
    C[y * wB + x] = value;
  }
}
""",
        MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n, 3);\n  mmw<<<dim3((n + 15) / 16, (m + "
        "15) / 16), dim3(16, 16)>>>(c, a, b, k, n, m); c.show();",
    ),
    "bytes times floats, scaled in the loop": (
        """
__global__ void mixed(const unsigned char* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  float s = 0.0f;
  for (int k = 0; k < K; ++k) s += (A[row * K + k] - 128) * 0.1f * B[k * N + col];
  C[row * N + col] = s;
}
""",
        MNK + "  Device<unsigned char> a(m * k); Device<float> b(k * n, 2), c(m * n, 3);\n  "
        "mixed<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(a, b, c, m, n, k); c.show();",
    ),
    "bias and gelu, half out": (
        """
__device__ inline float gelu(float x) {
  return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}
__global__ void linear_gelu(__half* __restrict__ out, const float* __restrict__ in,
    const float* __restrict__ w, const float* __restrict__ bias, int rows, int ic, int oc) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  int o = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && o < oc) {
    float v = bias != nullptr ? bias[o] : 0.0f;
    const float* x = in + r * ic;
    const float* wr = w + o * ic;
    for (int i = 0; i < ic; i++) v += x[i] * wr[i];
    out[r * oc + o] = __float2half(gelu(v));
  }
}
""",
        MNK + "  Device<float> a(m * k), b(n * k, 2), bias(n, 5); Device<__half> c(m * n, 3);\n  "
        "linear_gelu<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(c, a, b, bias, m, k, "
        "n); c.show();",
    ),
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
@pytest.mark.sampled(6)
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


@pytest.mark.parametrize(
    ("code", "main"),
    [
        (LOWER, TRIANGLE),
        (LOWER.replace("int k = 0; k <= i", "int k = i; k < n"), TRIANGLE),
        (CAUSAL, CAUSAL_MAIN),
    ],
    ids=["up to the diagonal", "from the diagonal", "what attention sees up to now"],
)
def test_a_loop_that_the_diagonal_bounds_is_written_anew(code: str, main: str) -> None:
    after = holds(SLUG, program(code, main), (70, 45), (132, 36), relative=1e-5, absolute=1e-5)
    assert "[kProductDepth]" in after


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
