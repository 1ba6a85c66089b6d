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
    "shares of a total and of the largest, of a template's type": (
        """
template <typename Real> __global__ void shares(const Real* in, Real* out, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const Real* row = in + (size_t)r * cols;
  Real total = 0, most = row[0];
  for (int c = 0; c < cols; c++) total += row[c] * row[c];
  for (int c = 1; c < cols; c++) most = most < row[c] ? row[c] : most;
  Real upto = 0;
  for (int c = 0; c < cols; c++) {
    upto += row[c] * row[c];
    out[(size_t)r * cols + c] = upto / (total + 1) + most;
  }
}
""",
        RUN.replace("cumsum<<<", "shares<float><<<"),
    ),
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
    "bytes to numbers of 32 bits": (
        """
__global__ void table(const uint8_t* image, uint32_t* sums, int width, int height) {
  int y = blockIdx.x * blockDim.x + threadIdx.x;
  if (y < height) {
    const uint8_t* in = image + (size_t)y * width;
    uint32_t* out = sums + (size_t)y * width;
    uint32_t sum = 0;
    for (int x = 0; x < width; ++x) {
      sum += in[x];
      out[x] = sum;
    }
  }
}
""",
        SIZES + "  Device<uint8_t> a(rows * cols); Device<uint32_t> b(rows * cols, 2);\n"
        "  table<<<(rows + 63) / 64, 64>>>(a, b, cols, rows); b.show();",
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


@pytest.mark.parametrize("slug", ["scan-row", "scan-row-parts"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(4)
def test_rows_are_scanned_by_warps(slug: str, name: str) -> None:
    after = holds(slug, program(*PROGRAMS[name]), (5, 70), (66, 31), (3, 259), relative=1e-5)
    assert "__shfl_up_sync" in after
    assert rewritten(slug, after)[0].refused


REFUSED = {
    "a loop besides that reads what was stored": (
        SUM.replace(
            "        float acc = 0;",
            "        float last = 0;\n        for (int c = 0; c < cols; c++) last += out[r * cols + c];\n"
            "        float acc = last;",
        ),
        "no loop walks",
    ),
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


@pytest.mark.parametrize("slug", ["scan-row", "scan-row-parts"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(slug: str, name: str) -> None:
    code, why = REFUSED[name]
    result, _ = rewritten(slug, program(code, RUN))
    assert not result.edits and why in result.refused


COLUMNS = {
    "in place": (
        """
__global__ void down(unsigned* table, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x < w) {
    unsigned sum = 0;
    for (int y = 0; y < h; ++y) {
      sum += table[(size_t)y * w + x];
      table[(size_t)y * w + x] = sum;
    }
  }
}
""",
        SIZES + "  Device<unsigned> a(rows * cols); down<<<(cols + 63) / 64, 64>>>(a, cols, rows); a.show();",
    ),
    "what is before, and the whole": (
        """
__global__ void offsets(const int* counts, int* first, int* totals, int bins, int n) {
    int i = blockIdx.x * 96 + threadIdx.x;
    if (i >= n) return;
    int running = 5;
    for (int b = 0; b < bins; b++) {
        const int c = counts[b * n + i];
        first[b * n + i] = running;
        running += 2 * c;
    }
    totals[i] = running;
}
""",
        SIZES + "  Device<int> a(rows * cols), b(rows * cols, 2), t(cols, 3);\n"
        "  offsets<<<(cols + 95) / 96, 96>>>(a, b, t, rows, cols); b.show(); t.show();",
    ),
    "products from the second on": (
        """
__global__ void growth(const double* rate, double* value, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  double v = rate[c];
  value[c] = v;
  for (int r = 1; r <= rows - 1; r++) {
    v *= 1.0 + 0.01 * rate[r * cols + c];
    value[r * cols + c] = v;
  }
}
""",
        SIZES + "  Device<double> a(rows * cols), b(rows * cols, 2); const int t = 128;\n"
        "  growth<<<(cols + t - 1) / t, t>>>(a, b, rows, cols); b.show();",
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_scanned_by_stretches(name: str) -> None:
    assert "columns" in rewritten("scan-row", program(*COLUMNS[name]))[0].refused
    after = holds("scan-columns", program(*COLUMNS[name]), (70, 5), (33, 66), (1, 3), (15, 40), relative=1e-5)
    assert "dim3(kColumns, kParts)" in after
    assert rewritten("scan-columns", after)[0].refused


COLUMNS_LEFT = {
    "rows": (SUM, RUN, "columns that are neighbours"),
    "a store before the loop that it reads": (
        COLUMNS["in place"][0].replace("unsigned sum = 0;", "table[x] = 1; unsigned sum = 0;"),
        COLUMNS["in place"][1],
        "beside its loop",
    ),
    "a store behind the loop over what it wrote": (
        COLUMNS["in place"][0].replace("= sum;\n    }", "= sum;\n    }\n    table[x] = 0;"),
        COLUMNS["in place"][1],
        "beside its loop",
    ),
}


@pytest.mark.parametrize("name", COLUMNS_LEFT)
def test_what_is_no_scan_of_columns(name: str) -> None:
    code, run, why = COLUMNS_LEFT[name]
    result, _ = rewritten("scan-columns", program(code, run))
    assert not result.edits and why in result.refused
