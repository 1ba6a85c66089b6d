# SPDX-License-Identifier: Apache-2.0
"""Outputs that a block's threads stride over: given to blocks of their own, and tiled where they are a product's."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int B = atoi(argv[1]), M = atoi(argv[2]), N = atoi(argv[3]), K = 20;\n"
LAYER = """
#define THREADS 64
__global__ void layer(const float* x, const float* w, const float* bias, float* y, int M, int N, int K) {
  const int row = blockIdx.x;
  const int batch = blockIdx.y;
  if (row < M) {
    for (int col = threadIdx.x; col < N; col += THREADS) {
      float sum = bias[col];
      for (int k = 0; k < K; k++) sum += x[(batch * M + row) * K + k] * w[k * N + col];
      y[(batch * M + row) * N + col] = sum;
    }
  }
}
"""
MAIN = SIZES + (
    "  Device<float> x(B * M * K), w(K * N, 2), b(N, 4), y(B * M * N, 3);\n"
    "  layer<<<dim3(M, B), THREADS>>>(x, w, b, y, M, N, K); y.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["stride-into-grid", "strided-tile"])
def test_outputs_of_a_block_are_given_to_the_grid(slug: str) -> None:
    after = holds(slug, program(LAYER, MAIN), (2, 5, 150), (1, 70, 9))
    assert "col += THREADS" not in after
    assert rewritten(slug, after)[0].refused


REFUSED = {
    "no loop": LAYER.replace("for (int k = 0; k < K; k++) sum +=", "sum +=")
    .replace("+ k]", "]")
    .replace("w[k", "w[3"),
    "a sum beside": LAYER.replace("    for (int col", "    float all = 0;\n    for (int col").replace(
        "      y[", "      all += sum;\n      y["
    ),
    "an output of another": LAYER.replace("= bias[col]", "= y[batch]"),
    "one element for all": LAYER.replace("y[(batch * M + row) * N + col]", "y[(batch * M + row) * N]"),
    "work behind it": LAYER.replace("    }\n  }\n}", "    }\n    y[row] = 1.0f;\n  }\n}"),
    "the thread's number inside": LAYER.replace("= bias[col]", "= threadIdx.x"),
    "another step": LAYER.replace("col += THREADS", "col += 2 * THREADS"),
    "left early": LAYER.replace("      y[", "      if (sum > 1) break;\n      y["),
    "a block that works together": LAYER.replace("  if (row < M) {", "  __syncthreads();\n  if (row < M) {"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_loops_are_left_alone(name: str) -> None:
    assert rewritten("stride-into-grid", program(REFUSED[name], MAIN))[0].refused


def test_a_grid_of_three_axes_is_full() -> None:
    main = MAIN.replace("dim3(M, B)", "dim3(M, B, 2)")
    assert "all axes" in rewritten("stride-into-grid", program(LAYER, main))[0].refused


ROW_OF_SUMS = """
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M) return;
  for (int j = 0; j < N; j++) {
    C[row * N + j] = 0;
    for (int i = 0; i < K; i++) C[row * N + j] += A[row * K + i] * B[i * N + j];
  }
}
"""


@pytest.mark.compiler
def test_rows_of_sums_kept_in_memory_are_tiled() -> None:
    main = SIZES + (
        "  Device<float> x(M * K), w(K * N, 2), y(M * N, 3);\n"
        "  product<<<(M + 63) / 64, 64>>>(x, w, y, M, N, K); y.show();"
    )
    after = holds("sum-kept-tile", program(ROW_OF_SUMS, main), (1, 70, 33), (1, 5, 3))
    assert "__shared__" in after
