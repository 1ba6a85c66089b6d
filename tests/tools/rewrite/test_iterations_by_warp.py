# SPDX-License-Identifier: Apache-2.0
"""Rows that the threads of a block stride over, each given to a warp or a part of one."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

from warplens_tools.rewrite.base import of_own_rows

SIZES = "  int count = atoi(argv[1]), dim = atoi(argv[2]);\n"
SCORES = """
__global__ void scores(const float* q, const float* keys, float* out, int count, int dim) {
  __shared__ float dots[512];
  int tid = threadIdx.x;
  float most = -1e30f;
  for (int t = tid; t < count; t += blockDim.x) {
    float dot = 0.0f, norm = 0.0f;
    for (int d = 0; d < dim; d++) {
      float k = keys[t * dim + d];
      dot += q[blockIdx.x * dim + d] * k;
      norm += k * k;
    }
    dot = dot / (1 + norm);
    most = fmaxf(most, dot);
    dots[t] = dot;
  }
  __syncthreads();
  for (int t = tid; t < count; t += blockDim.x) out[blockIdx.x * count + t] = dots[t] + (most < -1e20f);
}
"""
RUN = SIZES + (
    "  Device<float> q(3 * dim), k(count * dim, 2), y(3 * count, 3);\n"
    "  scores<<<3, 64>>>(q, k, y, count, dim); y.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("test", ["t < count", "t < count && t < 500"])
def test_rows_are_walked_by_warps(test: str) -> None:
    text = program(SCORES.replace("t < count", test), RUN)
    # lanes of a warp have the maximum of the warp's rows: each thread had that of its own, and nobody asks for one
    after = holds("iterations-by-warp", text, (100, 40), (64, 100), (7, 16), relative=1e-5)
    assert "t = tid / kLanesPerRow" in after and after.count("+= kLanesPerRow") == 1
    assert rewritten("iterations-by-warp", after)[0].refused


@pytest.mark.compiler
def test_short_rows_have_fewer_lanes() -> None:
    code, main = SCORES.replace(", int dim", "").replace("dim", "24"), RUN.replace(", dim);", ");")
    after = holds("iterations-by-warp", program(code, main.replace("* dim", "* 24")), (100, 0), relative=1e-5)
    assert "kLanesPerRow = 16" in after


BATCH = """
__global__ void products(const float* a, const float* x, float* y, int n) {
  int b = blockIdx.x;
  int row = threadIdx.x;
  const float* mine = a + b * n * n;
  if (row >= n) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += mine[row * n + k] * x[b * n + k];
  y[b * n + row] = sum;
}
"""
BATCH_RUN = (
    "  int n = atoi(argv[1]); Device<float> a(3 * n * n), x(3 * n, 2), y(3 * n, 3);\n"
    "  products<<<3, n>>>(a, x, y, n); y.show();"
)


@pytest.mark.compiler
def test_rows_of_a_block_are_walked_by_warps() -> None:
    for code in (
        BATCH,
        BATCH.replace("if (row >= n) return;", "if (row < n) {").replace("= sum;\n", "= sum;\n  }\n"),
    ):
        after = holds("iterations-by-warp", program(code, BATCH_RUN), (40, 0), (100, 0), relative=1e-5)
        assert "row += blockDim.x / kLanesPerRow" in after and "<<<3, 256>>>" in after
    after = holds(
        "iterations-by-warp", program(BATCH, BATCH_RUN.replace(", n>>>", ", 128>>>")), (100, 0), relative=1e-5
    )
    assert "<<<3, 128>>>" in after


BATCHES = {
    "a limit on nothing": BATCH.replace("  if (row >= n) return;\n", ""),
    "the block's size": BATCH.replace("float sum = 0", "float sum = blockDim.x"),
    "another use of the thread": BATCH.replace("float sum = 0", "float sum = threadIdx.x"),
    "a barrier": BATCH.replace("  float sum", "  __syncthreads();\n  float sum"),
    "an early end": BATCH.replace("  y[b", "  if (sum > 3) return;\n  y[b"),
}


@pytest.mark.parametrize("name", BATCHES)
def test_what_is_no_row_each_is_left(name: str) -> None:
    assert rewritten("iterations-by-warp", program(BATCHES[name], BATCH_RUN))[0].refused


REFUSED = {
    "a sum over rows": SCORES.replace("most = fmaxf(most, dot)", "most += dot"),
    "rows side by side": SCORES.replace("keys[t * dim + d]", "keys[d * count + t]"),
    "threads that leave": SCORES.replace("  float most", "  if (tid >= count) return;\n  float most"),
    "a branch": SCORES.replace("  for (int t = tid;", "  if (tid < 9) for (int t = tid;"),
    "rows of the grid": SCORES.replace("t += blockDim.x", "t += blockDim.x * gridDim.x"),
    "a row that is left early": SCORES.replace("norm += k * k", "if (k > 3) break"),
    "a second axis": SCORES.replace("norm += k", "norm += threadIdx.y * k"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    assert rewritten("iterations-by-warp", program(REFUSED[name], RUN))[0].refused


@pytest.mark.parametrize("block", ["32", "48", "dim3(32, 4)"])
def test_blocks_that_are_no_row_of_warps_are_left(block: str) -> None:
    assert rewritten("iterations-by-warp", program(SCORES, RUN.replace("<<<3, 64", f"<<<3, {block}")))[
        0
    ].refused


def test_columns_side_by_side_are_worth_little_to_warps() -> None:
    columns = SCORES.replace("keys[t * dim + d]", "keys[d * count + t]")
    assert columns != SCORES
    assert of_own_rows(columns) < of_own_rows(SCORES) == 1.0
