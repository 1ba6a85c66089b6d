# SPDX-License-Identifier: Apache-2.0
"""Rows that every output folds by itself go to blocks, which fold them once."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SOFTMAX = """
__global__ void softmax(const float* x, float* y, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) {
        float top = x[row * cols];
        for (int j = 1; j < cols; j++) {
            top = fmaxf(top, x[row * cols + j]);
        }
        int idx = row * cols + col;
        float sum = 0.0f;
        for (int j = 0; j < cols; j++)
            sum += expf(x[row * cols + j] - top);
        y[idx] = expf(x[idx] - top) / sum;
    }
}
"""
SOFTMAX_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]); Device<float> x(rows * cols), y(rows * cols, 2);
  dim3 block(16, 16), grid((cols + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
  softmax<<<grid, block>>>(x, y, rows, cols); y.show();
"""
FLAT = """
__global__ void layer_norm(const float* in, const float* gamma, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  int row = i / cols, col = i % cols;
  float mean = 0.0f, var = 0.0f;
  for (int j = 0; j < cols; ++j) mean += in[row * cols + j];
  mean /= cols;
  for (int j = 0; j < cols; ++j) {
    float d = in[row * cols + j] - mean;
    var += d * d;
  }
  out[i] = gamma[col] * (in[i] - mean) / sqrtf(var / cols + 1e-5f);
}
"""
FLAT_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]); Device<float> x(rows * cols), g(cols, 3), y(rows * cols, 2);
  layer_norm<<<(rows * cols + 127) / 128, 128>>>(x, g, y, rows, cols); y.show();
"""


TOGETHER = SOFTMAX.replace(
    """threadIdx.x;
    int row =""",
    "threadIdx.x, row =",
)


@pytest.mark.parametrize(
    "code",
    [(SOFTMAX, SOFTMAX_MAIN), (FLAT, FLAT_MAIN), (TOGETHER, SOFTMAX_MAIN)],
    ids=["axes", "flat", "in one declaration"],
)
def test_a_block_folds_its_row_once(code: tuple[str, str]) -> None:
    after = holds("row-for-block", program(*code), (5, 40), (33, 7), (17, 300), relative=1e-4, absolute=1e-4)
    assert "kThreadsPerRow" in after and "block_sum(" in after
    assert rewritten("row-for-block", after)[0].refused


LEFT = {
    "a product": SOFTMAX.replace("- top);\n", "- x[j * cols + col]);\n"),
    "a loop that stores": SOFTMAX.replace("sum += expf", "y[j] = sum += expf"),
    "an end": SOFTMAX.replace("y[idx] = expf", "if (x[idx] > 3) return; y[idx] = expf"),
    "a grid that is walked": SOFTMAX.replace("+ threadIdx.x;", "+ threadIdx.x + 0 * gridDim.x;"),
    "no loop": SOFTMAX[: SOFTMAX.index("float top")] + "y[row * cols + col] = 1; } }",
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    result, after = rewritten("row-for-block", program(LEFT[name], SOFTMAX_MAIN))
    assert not result.edits, after
