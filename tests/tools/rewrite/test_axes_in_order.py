# SPDX-License-Identifier: Apache-2.0
"""Axes that are numbered by blocks along one axis of the launch and threads along another, or by one of both alone."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int B = atoi(argv[1]), M = atoi(argv[2]), N = atoi(argv[3]);\n"
ROWS = """
#define DEPTH 20
template <typename T>
__global__ void product(const T* x, const T* w, T* y, int N) {
  const int row = blockIdx.x, col = threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < DEPTH; k++) sum += (float)x[row * DEPTH + k] * (float)w[k * N + col];
  y[row * N + col] = T(sum);
}
void run(const float* x, const float* w, float* y, int rows, int N) { product<float><<<rows, N>>>(x, w, y, N); }
"""
HEADS = """
constexpr int HEAD = 16;
__global__ void values(const half* p, const half* v, half* out, int queries, int keys) {
  int d = threadIdx.x, q = blockIdx.x * blockDim.y + threadIdx.y;
  int head = blockIdx.y;
  if (q >= queries) return;
  p += ((size_t)head * queries + q) * keys;
  const half* mine = v + (size_t)head * keys * HEAD;
  float acc = 0.0f;
  for (int k = 0; k < keys; k++) acc += __half2float(p[k]) * __half2float(mine[k * HEAD + d]);
  out[((size_t)head * queries + q) * HEAD + d] = __float2half(acc);
}
"""
RUN_HEADS = (
    SIZES + "  Device<half> p(B * M * N), v(B * N * HEAD, 2), out(B * M * HEAD, 3);\n"
    "  dim3 block(HEAD, 4);\n"
    "  values<<<dim3((M + block.y - 1) / block.y, B), block>>>(p, v, out, M, N); out.show();"
)
SKINNY = """
__global__ void project(const float* x, const float* w, float* y, int tokens, int n, int depth) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int token = blockIdx.y;
  if (col >= n || token >= tokens) return;
  float sum = 0.0f;
  for (int k = 0; k < depth; k++) sum += x[token * depth + k] * w[k * n + col];
  y[token * n + col] = sum;
}
"""
RUN_SKINNY = (
    SIZES + "  Device<float> x(B * M), w(M * N, 2), y(B * N, 3); int t = 64;\n"
    "  project<<<dim3((N + t - 1) / t, B), t>>>(x, w, y, B, N, M); y.show();"
)


def test_rows_of_blocks_and_columns_of_threads_are_tiled() -> None:
    main = SIZES + "  Device<float> x(M * 20), w(20 * N, 2), y(M * N * B, 3); run(x, w, y, M, N); y.show();"
    text = program(
        ROWS.replace("int N) {\n  const", "int N, int rows) {\n  const").replace(
            "y, N); }", "y, N, rows); }"
        ),
        main,
    )
    after = holds("ordered-tile", text, (1, 37, 65), (1, 3, 130))
    assert "sum[kOutputsY][kOutputsX]" in after and "if (row < rows && col < N)" in after


def test_a_kernel_that_is_not_told_how_many_rows_there_are_is_left_alone() -> None:
    main = SIZES + "  Device<float> x(M * 20), w(20 * N, 2), y(M * N * B, 3); run(x, w, y, M, N); y.show();"
    assert "up to where" in rewritten("axes-in-order", program(ROWS, main))[0].refused


def test_threads_that_go_on_along_other_blocks_are_put_in_order() -> None:
    after = holds("axes-in-order", program(HEADS, RUN_HEADS), (3, 10, 21), (1, 4, 7))
    assert "int head = blockIdx.z;" in after and "if (d >= HEAD) return;" in after


def test_a_product_of_heads_goes_to_tensor_cores() -> None:
    after = holds(
        "ordered-tile",
        program(HEADS.replace("p += (", "const half* row = p + (").replace("p[k]", "row[k]"), RUN_HEADS),
        (2, 33, 40),
        relative=2e-3,
        absolute=1e-3,
    )
    assert "mma_sync" in after and "blockIdx.z" in after and "kTensorOutputsX = 1;" in after


def test_tokens_that_blocks_number_become_rows_of_a_tile() -> None:
    after = holds("ordered-tile", program(SKINNY, RUN_SKINNY), (5, 30, 70))
    assert "if (token < tokens && col < n)" in after


def test_channels_that_a_condition_limits_as_the_launch_does() -> None:
    after = holds("several-channels", program(SKINNY, RUN_SKINNY), (5, 30, 70))
    assert "if (col >= n) return;" in after


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("int token = blockIdx.y;", "int token = blockIdx.y + 1;", "not understood"),
        ("if (col >= n", "if (threadIdx.x >= n", "elsewhere"),
        ("float sum = 0.0f;", "__syncthreads(); float sum = 0.0f;", "work together"),
        ("int token = blockIdx.y;", "int token = blockIdx.y; int other = blockIdx.y;", "two variables"),
        ("dim3((N + t - 1) / t, B), t", "dim3((N + t - 1) / t, B), dim3(t, 2)", "the same work"),
    ],
)
def test_what_numbers_threads_otherwise_is_left_alone(old: str, new: str, said: str) -> None:
    code, main = (text.replace(old, new) for text in (SKINNY, RUN_SKINNY))
    assert said in rewritten("axes-in-order", program(code, main))[0].refused


def test_a_kernel_in_order_is_left_alone() -> None:
    ordered = SKINNY.replace("blockIdx.y;", "blockIdx.y * blockDim.y + threadIdx.y;")
    assert "already" in rewritten("axes-in-order", program(ordered, RUN_SKINNY))[0].refused


POINTWISE = """
__global__ void pointwise(const float* x, const float* w, const float* bias, float* y, int C, int K, int HW) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  int k = blockIdx.y, n = blockIdx.z;
  if (p >= HW) return;
  float acc = bias[k];
  for (int c = 0; c < C; ++c) acc += w[k * C + c] * x[(n * C + c) * HW + p];
  y[(n * K + k) * HW + p] = fmaxf(acc, 0.f);
}
"""
RUN_POINTWISE = (
    SIZES
    + "  Device<float> x(3 * B * M), w(B * N, 2), b(N, 3), y(3 * N * M, 4); dim3 g((M + 127) / 128, N, 3);\n"
    "  pointwise<<<g, 128>>>(x, w, b, y, B, N, M); y.show();"
)


@pytest.mark.parametrize("slug", ["ordered-tile", "several-channels"])
def test_of_two_numbers_of_blocks_the_one_is_taken_that_shares_no_operand_with_the_columns(slug: str) -> None:
    after = holds(slug, program(POINTWISE, RUN_POINTWISE), (5, 150, 37))
    assert "n = blockIdx.z;" in after


def test_a_variable_of_the_host_is_no_word_of_the_kernel() -> None:
    run = "  int ROWS = atoi(argv[1]); Device<float> x(ROWS * 20), w(20 * 32, 2), y(ROWS * 32, 3);\n"
    main = run + "  product<float><<<ROWS, 32>>>(x, w, y, 32); y.show();"
    assert "up to where" in rewritten("axes-in-order", program(ROWS, main))[0].refused
