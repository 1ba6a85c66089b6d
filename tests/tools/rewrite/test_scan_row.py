# SPDX-License-Identifier: Apache-2.0
"""Running sums, products and extremes of rows, scanned by warps."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int rows = atoi(argv[1]), cols = atoi(argv[2]);\n"
SUM = """
__global__ void cumsum(const float* in, float* out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float acc = 0;
        for (int c = 0; c < cols; c++) {
            acc += in[r * cols + c];
            out[r * cols + c] = acc;
        }
    }
}
"""
RUN = SIZES + (
    "  Device<float> a(rows * cols), b(rows * cols, 2);\n"
    "  cumsum<<<(rows + 63) / 64, 64>>>(a, b, rows, cols); b.show();"
)
PROGRAMS = {
    "sums": (SUM, RUN),
    "what is before an element, in place, and the whole": (
        """
__global__ void offsets(int *counts, int *totals, int rows, int cols)
{
    const int row = threadIdx.x + blockIdx.x * blockDim.x;
    if (row >= rows) return;
    int *line = counts + row * cols;
    int sum = 0;
    for (int i = 0; i < cols; ++i)
    {
        int n = line[i];
        line[i] = sum;
        sum += n;
    }
    totals[row] = sum;
}
""",
        SIZES + "  Device<int> a(rows * cols), t(rows, 2); int block = 96;\n"
        "  offsets<<<(rows + block - 1) / block, block>>>(a, t, rows, cols); a.show(); t.show();",
    ),
    "running extremes": (
        """
__global__ void peaks(const float* x, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  float top = x[i * cols];
  for (int j = 1; j < cols; j++) {
    float v = fabsf(x[i * cols + j]);
    top = fmaxf(top, v);
    out[i * cols + j] = top - v;
  }
}
""",
        SIZES + "  Device<float> a(rows * cols), b(rows * cols, 2);\n"
        "  peaks<<<dim3((rows + 31) / 32), 32>>>(a, b, rows, cols); b.show();",
    ),
    "returns": (
        """
__global__ void growth(const double* rate, double* value, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  double v = 1.0;
  for (int j = 0; j < cols; j++) {
    v *= 1.0 + 0.01 * rate[i * cols + j];
    value[i * cols + j] = v;
  }
}
""",
        SIZES + "  Device<double> a(rows * cols), b(rows * cols, 2);\n"
        "  growth<<<(rows + 127) / 128, 128>>>(a, b, rows, cols); b.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_scanned_by_warps(name: str) -> None:
    after = holds("scan-row", program(*PROGRAMS[name]), (5, 70), (66, 31), relative=1e-5)
    assert "__shfl_up_sync" in after


REFUSED = {
    "a value of its own besides": (
        SUM.replace("acc += in", "float k = acc; acc += k * in"),
        "more than to fold",
    ),
    "a sum under a condition": (SUM.replace("acc += in", "if (c % 2) acc += in"), ""),
    "an end on the way": (SUM.replace("out[r", "if (acc > 9) break; out[r"), "end its loop"),
    "what another element stored": (
        SUM.replace("+= in[r * cols + c]", "+= out[r * cols + c + 1]"),
        "another writes",
    ),
    "two sums": (
        SUM.replace("acc += in", "cols2 += 1; acc += in").replace("float acc", "int cols2 = 0; float acc"),
        "several",
    ),
    "a count that goes down": (
        SUM.replace("float acc", "int acc").replace("acc += in[r * cols + c];", "acc--;"),
        "down",
    ),
    "no sum on the way": (SUM.replace("            out[r * cols + c] = acc;\n", ""), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    code, why = REFUSED[name]
    result, _ = rewritten("scan-row", program(code, RUN))
    assert not result.edits and why in result.refused
