# SPDX-License-Identifier: Apache-2.0
"""Loops that every thread of a block runs alike are dealt out to them."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

NORM = """
__global__ void layer_norm(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x, col = threadIdx.x;
  if (row >= rows) return;
  float mean = 0.0f;
  for (int j = 0; j < cols; ++j) {
    mean += x[row * cols + j];
  }
  mean /= cols;
  float var = 0.0f;
  for (int j = 0; j < cols; ++j) {
    float d = x[row * cols + j] - mean;
    var += d * d;
  }
  if (col < cols) y[row * cols + col] = (x[row * cols + col] - mean) * rsqrtf(var / cols + 1e-5f);
}
"""
NORM_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]); Device<float> x(rows * cols), y(rows * cols, 2);
  layer_norm<<<rows, 128>>>(x, y, rows, cols); y.show();
"""
BEST = """
__global__ void labels(const int* score, int* out, int rows, int cols) {
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    int best = score[row * cols], hits = 0;
    for (int j = 1; j < cols; j++) best = max(best, score[row * cols + j]);
    for (int j = 0; j < cols; j++) if (score[row * cols + j] == best) hits++;
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
      out[row * cols + j] = score[row * cols + j] == best ? hits : 0;
  }
}
"""
BEST_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]); Device<int> x(rows * cols), y(rows * cols, 2);
  labels<<<3, 64>>>(x, y, rows, cols); y.show();
"""

#: What a block has put into its shared memory is read alike by all of its threads.
SCORES = """
__global__ void softened(const float* x, float* y, int rows, int cols) {
  extern __shared__ float scores[];
  const int row = blockIdx.x;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) scores[j] = 0.5f * x[row * cols + j];
  __syncthreads();
  float most = -1e30f;
  for (int j = 0; j < cols; j++) most = fmaxf(most, scores[j]);
  float sum = 0.0f;
  for (int j = 0; j < cols; j++) sum += expf(scores[j] - most);
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[row * cols + j] = expf(scores[j] - most) / sum;
}
"""
SCORES_MAIN = NORM_MAIN.replace("layer_norm<<<rows, 128>>>", "softened<<<rows, 128, cols * sizeof(float)>>>")


@pytest.mark.parametrize(
    "code", [(NORM, NORM_MAIN), (BEST, BEST_MAIN), (SCORES, SCORES_MAIN)], ids=["norm", "best", "scores"]
)
def test_loops_are_dealt_out(code: tuple[str, str]) -> None:
    after = holds(
        "share-uniform-loops", program(*code), (5, 100), (7, 33), (2, 1), relative=1e-4, absolute=1e-4
    )
    assert after.count("+= blockDim.x") >= 2
    assert rewritten("share-uniform-loops", after)[0].refused


LEFT = {
    "a window of the thread's own": NORM.replace("for (int j = 0", "for (int j = col"),
    "a value of the thread's own": NORM.replace("x[row * cols + j]", "(col + x[row * cols + j])"),
    "some threads alone": NORM.replace("if (row >= rows)", "if (col >= cols)"),
    "set under a condition of threads": NORM.replace(
        "float mean = 0.0f;", "float mean = 0.0f; int from = 0; if (col > 3) from++;"
    ).replace("int j = 0", "int j = from"),
    "a place of the thread's own in shared memory": SCORES.replace(
        "scores[j])", "scores[(threadIdx.x + j) % cols])"
    ).replace("scores[j] - most);", "scores[(threadIdx.x + j) % cols] - most);"),
    "from an atomic": NORM.replace("row = blockIdx.x,", "row = atomicAdd((int*)y, 1) + blockIdx.x,"),
    "a store": NORM.replace("mean += x[row * cols + j];", "mean += x[row * cols + j]; y[j] = mean;").replace(
        "float d = x", "float d = col - x"
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    result, after = rewritten("share-uniform-loops", program(LEFT[name], NORM_MAIN))
    assert not result.edits, after
