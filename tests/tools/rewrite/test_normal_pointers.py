# SPDX-License-Identifier: Apache-2.0
"""Pointers that a kernel moves, as pointers that stand still: the same results, and what may not be taken for one."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

KERNEL = """
__global__ void walk(const float* a, const float* b, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* p = a + row * cols;
  const float* q = b;
  float sum = 0.0f;
  HEAD
  out[row] = sum;
}
"""
MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]);
  Device<float> a(rows * cols), b(rows * cols, 2), out(rows, 3);
  walk<<<(rows + 63) / 64, 64>>>(a, b, out, rows, cols);
  out.show();
"""
#: What walks the row.
WALKS = {
    "in the loop's head": "for (int j = 0; j < cols; j++, p++, ++q) sum += *p * *q;",
    "in the expression": "for (int j = 0; j < cols; ++j) sum += *p++ * *q++;",
    "in the last statement": "for (int j = 0; j < cols; ++j) { sum += p[0] * q[row]; p++; }",
    "by a variable": "const int by = rows / rows; for (int j = 0; j < cols; ++j) { sum += *p + *(p + 0); p += by; }",
    "from another first": "for (int j = 1; j < cols; ++j, ++p) { sum += p[1] - *p; }",
}


def plain(code: str) -> str | None:
    text = SourceText(code)
    found = plainly(text, "k.cu", parse(text, "k.cu").kernels[0])
    return found.text if found is not None else None


@pytest.mark.compiler
@pytest.mark.parametrize("name", WALKS)
@pytest.mark.sampled(2)
def test_a_walked_pointer_is_indexed(name: str) -> None:
    before = program(KERNEL.replace("HEAD", WALKS[name]), MAIN)
    after = plain(before)
    assert (
        after is not None and "p[j" in after.replace("(j", "j") and "p++" not in after and "++p" not in after
    )
    same_results(before, after, "37", "21", orders=(1,))
    holds("warp-per-row", before, (37, 71), (5, 3), relative=1e-4, absolute=1e-4)


@pytest.mark.parametrize(
    "kept",
    [
        "for (int j = 0; j < cols; ++j) { if (j % 2) sum += *p++; }",  # not in every iteration
        "for (int j = 0; j < cols; ++j) { if (j == 3) continue; sum += *p; p++; }",
        "for (int j = 0; j < cols; ++j) sum += *p++; sum += *p;",  # used behind the loop
        "for (int i = 0; i < 2; ++i) { for (int j = 0; j < cols; ++j) sum += *p++; }",  # walks on
        "for (int j = 0; j < cols; j += 2, ++p) sum += *p;",  # another step
        "for (int j = 0; j < cols; ++j, p += j) sum += *p;",  # a step that changes
        "for (int j = 0; j < cols && *p != 9.0f; ++j, ++p) sum += *p;",  # the loop's end reads it
        "for (int j = 0; j < cols; ++j, ++p) sum += p[(int)p[0]];",  # its elements say where
        "int b = 0; for (int j = b; j < cols; ++j, ++p) { sum += *p; b = 1; }",  # a start that changes
    ],
)
def test_a_pointer_that_moves_otherwise_stays(kept: str) -> None:
    after = plain(KERNEL.replace("HEAD", kept))
    assert after is None or "p[j" not in after


BATCH = """
__global__ void add(float* __restrict__ x, const float *y, int n, int half) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x += blockIdx.y * n;
  y = y + (half ? 0 : blockIdx.y * n);
  if (i < n) x[i] += 2.0f * y[i];
}
"""
BATCH_MAIN = """
  int n = atoi(argv[1]);
  Device<float> x(3 * n), y(3 * n, 2);
  add<<<dim3((n + 31) / 32, 3), 32>>>(x, y, n, n % 2);
  x.show();
"""


@pytest.mark.compiler
def test_a_parameter_that_is_advanced_begins_a_pointer() -> None:
    before = program(BATCH, BATCH_MAIN)
    after = plain(before)
    assert after is not None
    assert "float* x_slice = x + blockIdx.y * n;" in after and "x_slice[i] += 2.0f * y_slice[i];" in after
    for n in ("70", "33"):
        same_results(before, after, n, orders=(1,))


@pytest.mark.parametrize(
    "change",
    [("if (i < n) x", "x += 1; if (i < n) x"), ("x += blockIdx", "if (i) x += blockIdx"),
     ("x += b", "x[0] = 1; x += b")],
)  # fmt: skip
def test_a_parameter_that_moves_otherwise_stays(change: tuple[str, str]) -> None:
    after = plain(BATCH.replace(*change))
    assert after is None or "x_slice" not in after


@pytest.mark.parametrize(
    "inner",
    ["for (int k : {0, 1}) sum += *p++;", "{ for (int k : {0, 1}) sum += *p++; }", "if (j % 2) sum += *p++;"],
)
def test_a_pointer_that_does_not_move_once_in_each_turn_stays(inner: str) -> None:
    after = plain(KERNEL.replace("HEAD", f"for (int j = 0; j < cols; ++j) {inner}"))
    assert after is None or "p++" in after


ADDRESSED = """
__global__ void product(const float* A, const float* B, float* C, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  const float* a = &A[y * n];
  const float* b = &B[x];
  float sum = 0.0f;
  for (int k = 0; k < n; ++k, b += n) sum += a[k] * *b;
  C[y * n + x] = sum;
}
"""


@pytest.mark.compiler
def test_pointers_may_begin_at_an_elements_address() -> None:
    main = (
        "  int n = atoi(argv[1]); Device<float> a(n * n), b(n * n, 2), c(n * n, 3);\n"
        "  product<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(a, b, c, n); c.show();"
    )
    text = program(ADDRESSED, main)
    holds("register-tile", text, (70,), (9,))
    assert "const float* a = A + y * n;" in (plain(text) or "")
    assert "A + (y << 3);" in (plain(program(ADDRESSED.replace("&A[y * n]", "&A[y << 3]"), main)) or "")


MEANS = """
__global__ void means(const float* x, float* y, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  float s = 0.0f;
  const float* p = x + (long long)i * cols;
  for (const float* q = p; q < p + cols; ++q) s += *q;
  y[i] = s / cols;
}
"""
HEAD_OF_Q = "const float* q = p; q < p + cols; ++q"
MEANS_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]); Device<float> x(rows * cols), y(rows, 2);
  means<<<(rows + 63) / 64, 64>>>(x, y, rows, cols); y.show();
"""


@pytest.mark.compiler
@pytest.mark.parametrize(
    "head",
    [HEAD_OF_Q, "const float* q = p; q != end; q++", "const float *q = p, *last = p + cols; q < last; ++q"],
)
def test_a_loop_over_a_pointer_counts(head: str) -> None:
    code = MEANS.replace(HEAD_OF_Q, head)
    if "end" in head:
        code = code.replace("  for", "  const float* const end = p + cols;\n  for")
    if "last" in head:
        assert "int t = 0" not in (plain(code) or "")
        return
    holds("warp-per-row", program(code, MEANS_MAIN), (70, 33), (3, 1), relative=1e-4)
    assert "for (int t = 0; t < cols; ++t) s += p[t];" in (plain(code) or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [("s += *q", "s += *q + (q - p)"), ("++q", "q += 2"), ("s += *q", "s += *q++"), ("s += *q", "s += q[1]"),
     ("q < p + cols", "q < x + cols"), ("s += *q", "{ s += *q; p += 1; }")],
)  # fmt: skip
def test_other_loops_over_pointers_stay(old: str, new: str) -> None:
    code = MEANS.replace(old, new)
    assert "int t = 0" not in (plain(code) or "")
