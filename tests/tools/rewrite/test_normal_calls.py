# SPDX-License-Identifier: Apache-2.0
"""Calls of a file's own functions that are written out in the kernel: the same results, and what stays a call."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

MATRIX = """
struct Matrix { int width, height; float* cells; };
__device__ float get(const Matrix m, int r, int c) { return m.cells[r * m.width + c]; }
__device__ inline void set(Matrix m, int r, int c, float v) { m.cells[r * m.width + c] = v; }
__global__ void multiply(Matrix A, Matrix B, Matrix C) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row > A.height - 1 || col > B.width - 1) return;
  float value = 0;
  for (int e = 0; e < A.width; ++e) value += get(A, row, e) * get(B, e, col + 0);
  C.cells[row * C.width + col] = value;
}
"""
MATRIX_MAIN = """
  int m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]);
  Device<float> a(m * k), b(k * n, 2), c(m * n, 3);
  Matrix A{k, m, a}, B{n, k, b}, C{n, m, c};
  multiply<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(A, B, C); c.show();
"""
ROWS = """
template <typename T>
__device__ float row_max(const T* p, int n) {
  float best = p[0];
  for (int i = 1; i < n; i++) {
    best = fmaxf(best, p[i]);
  }
  return best;
}
__device__ __forceinline__ float norm(const float* v, int count)
{
    float s = 0.f;
    for (int i = 0; i < count; ++i)
        s += v[i] * v[i];
    return sqrtf(s);
}
__device__ float at(const unsigned char* p, int i) { return p[i]; }
__global__ void scale(const float* x, const unsigned char* w, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float m = row_max(x + r * cols, cols);
  const float l = norm(x + r * cols, cols);
  for (int c = 0; c < cols; ++c) y[r * cols + c] = (x[r * cols + c] + m) / l + at(w, c) / 3;
}
"""
ROWS_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]);
  Device<float> x(rows * cols), y(rows * cols, 3); Device<unsigned char> w(cols, 2);
  scale<<<(rows + 63) / 64, 64>>>(x, w, y, rows, cols); y.show();
"""


def plain(code: str) -> str | None:
    text = SourceText(code)
    found = plainly(text, "k.cu", parse(text, "k.cu").kernels[0])
    return found.text if found is not None else None


@pytest.mark.compiler
def test_an_element_that_a_function_finds() -> None:
    before = program(MATRIX, MATRIX_MAIN)
    after = plain(before)
    assert after is not None
    assert "value += A.cells[row * A.width + e] * B.cells[e * B.width + (col + 0)];" in after
    same_results(before, after, "17", "21", "9", orders=(1,))
    after = holds("register-tile", before, (65, 33, 17), (7, 70, 40), relative=1e-5, absolute=1e-4)
    assert "row < A.height &&" in after


@pytest.mark.compiler
def test_a_loop_that_a_function_does() -> None:
    before = program(ROWS, ROWS_MAIN)
    after = plain(before)
    assert after is not None and "float m = (x + r * cols)[0];" in after
    assert "const float l = sqrtf(s);" in after and "(float)(w[c])" in after
    same_results(before, after, "37", "21", orders=(1,))
    for slug in ("warp-per-row", "warp-row-kept", "block-per-row"):
        after = holds(slug, before, (37, 71), (3, 500), relative=1e-3, absolute=1e-4)
        assert "row_max(x" not in after


@pytest.mark.parametrize(
    "change",
    [
        ("row_max(x + r * cols, cols)", "row_max(x + r++ * cols, cols)"),  # a step that would be taken twice
        ("  return best;", "  if (best > 9) return 9;\n  return best;"),  # it returns early
        ("row_max(x + r * cols, cols)", "row_max(x + atomicAdd(&count, 1) * cols, cols)"),
        ("    best = fmaxf", "    n = n - 1;\n    best = fmaxf"),  # it changes what it was given
        ("    best = fmaxf", "    n >>= 1;\n    best = fmaxf"),
        ("int r = blockIdx", "float best = 0; int r = blockIdx"),  # a name that the kernel has
        ("float m = row_max", "float m; m = row_max"),  # no declaration to stand in for
    ],
)
def test_a_function_that_does_more_stays_a_call(change: tuple[str, str]) -> None:
    code = ROWS.replace(*change)
    assert code != ROWS
    after = plain(program(code, ROWS_MAIN))
    if change[1].startswith("float best"):
        assert after is not None and "float m = (x" in after  # renamed: it is what the kernel calls m
    else:
        assert after is None or "row_max(x" in after


AT = """
__constant__ int width = 4;
__device__ float at(const float* a, TYPE row, int k) { return a[row * width + k]; }
__global__ void copy(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = at(in, i, n);
}
"""


@pytest.mark.parametrize(
    ("kind", "row"), [("int", "i"), ("size_t", "((size_t)(i))"), ("short", "((short)(i))")]
)
def test_numbers_keep_the_size_that_a_function_gives_them(kind: str, row: str) -> None:
    after = plain(AT.replace("TYPE", kind))
    assert after is not None and f"out[i] = in[{row} * width + n];" in after


def test_a_name_that_means_another_in_the_kernel_stays_behind_its_call() -> None:
    assert (
        plain(AT.replace("TYPE", "int").replace("int n)", "int width)").replace("i, n)", "i, width)")) is None
    )


KEPT = """
__host__  /* a note, as long as it takes to stand further before the name than anybody would look back */  __device__
float kept(float* a, float by) {
  float was = a[0];
  a[0] = 2.0f;
  float sum = was + by;
  return sum;
}
__global__ void change(float* a, const float* b, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float got = kept(a + i, GIVEN);
  out[i] = got;
}
"""


@pytest.mark.parametrize(("given", "stays"), [("a[i]", True), ("*(a + i)", True), ("2.0f * i", False)])
def test_what_a_function_stores_is_not_read_again_for_it(given: str, stays: bool) -> None:
    after = plain(KEPT.replace("GIVEN", given))
    assert (after is None or "kept(a + i" in after) == stays


STORED = MATRIX.replace("C.cells[row * C.width + col] = value;", "set(C, row, col, value);").replace(
    "Matrix A, Matrix B, Matrix C", "const Matrix A, const Matrix B, Matrix C"
)


@pytest.mark.compiler
def test_a_store_that_a_function_does_and_structures_that_are_const() -> None:
    after = plain(program(STORED, MATRIX_MAIN))
    assert after is not None and "  C.cells[row * C.width + col] = value;" in after
    holds(
        "register-tile", program(STORED, MATRIX_MAIN), (65, 33, 17), (7, 70, 40), relative=1e-5, absolute=1e-4
    )


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        (("float v)", "int v)"), "= ((int)(value));"),
        (("float v)", "double v)"), "= ((double)(value));"),
        (("= v; }", "= v; m.cells[0] = 1.0f; }"), ""),  # more than one store
        (("set(C, row, col, value)", "set(C, row++, col, value)"), ""),
        (("m.cells[r * m.width + c] = v", "if (v > 0) m.cells[r * m.width + c] = v"), ""),
    ],
)
def test_a_function_that_stores_otherwise(change: tuple[str, str], becomes: str) -> None:
    code = STORED.replace(*change)
    assert code != STORED
    after = plain(program(code, MATRIX_MAIN)) or ""
    assert (f"C.cells[row * C.width + col] {becomes}" in after) if becomes else "set(C, row" in after
