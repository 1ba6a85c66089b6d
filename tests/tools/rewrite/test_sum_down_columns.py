# SPDX-License-Identifier: Apache-2.0
"""Sums of columns by atomics: each thread goes down several rows of its column first."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int rows = atoi(argv[1]), cols = atoi(argv[2]);\n"
PLANE = """
__global__ void gradients(const float* dy, const float* gate, float* dx, float* dbias, int* many, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float share = gate[col];
  float grad = dy[row * cols + col] * share;
  dx[row * cols + col] = grad;
  atomicAdd(&dbias[col], grad);
  if (grad > 0.0f) atomicMax(&many[col + 1], row);
}
"""
PLANE_RUN = SIZES + (
    "  Device<float> dy(rows * cols), gate(cols, 2), dx(rows * cols, 3), dbias(cols, 4);\n"
    "  Device<int> many(cols + 1, 5);\n"
    "  gradients<<<dim3((cols + 31) / 32, (rows + 7) / 8), dim3(32, 8)>>>(dy, gate, dx, dbias, many, rows, cols);\n"
    "  dx.show(); dbias.show(); many.show();"
)
FLAT = """
__global__ void gradients(const __half* x, const __half* dy, __half* dx, float* dbias, int rows, int cols) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (size_t)rows * cols) return;
  int col = i % cols;
  float grad = __half2float(dy[i]) * (1.0f - __half2float(x[i]));
  dx[i] = __float2half(grad);
  atomicAdd(&dbias[col], grad);
}
"""
FLAT_RUN = SIZES + (
    "  Device<__half> x(rows * cols), dy(rows * cols, 2), dx(rows * cols, 3); Device<float> dbias(cols, 4);\n"
    "  gradients<<<(rows * cols + 127) / 128, 128>>>(x, dy, dx, dbias, rows, cols); dbias.show();"
)
SHORT = PLANE.replace("  if (grad > 0.0f) atomicMax(&many[col + 1], row);\n", "").replace(
    "  atomicAdd(&dbias[col], grad);", "  if (col < rows) atomicAdd(&many[col], row);"
)
SHORT_RUN = PLANE_RUN.replace("many(cols + 1, 5)", "many(rows < cols ? rows : cols, 5)")
SIZES_RUN = ((70, 40), (300, 33), (5, 7))


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("slug", "kernel", "main"),
    [
        ("sum-down-columns", PLANE, PLANE_RUN),
        ("sum-down-columns", SHORT, SHORT_RUN),
        ("axes-sum-columns", FLAT, FLAT_RUN),
    ],
)
def test_columns_are_summed_in_registers_first(slug: str, kernel: str, main: str) -> None:
    after = holds(slug, program(kernel, main), *SIZES_RUN, relative=1e-4, absolute=1e-5)
    assert "+= blockDim.y * gridDim.y" in after
    assert "kItemsPerThread" in after


def test_a_place_that_a_condition_keeps_from_is_left_to_it() -> None:
    assert (
        "if (partial != 0) atomicAdd(&many[col], partial);"
        in rewritten("sum-down-columns", program(SHORT, SHORT_RUN))[1]
    )


def test_what_is_loaded_for_a_column_waits_for_the_test_that_it_is_there() -> None:
    after = rewritten("sum-down-columns", program(PLANE, PLANE_RUN))[1]
    assert (
        after.index("if (col >= cols) return;")
        < after.index("share = gate[col]")
        < after.index("for (int row")
    )


REFUSED = {
    "a place of the row": PLANE.replace("&dbias[col]", "&dbias[row]"),
    "one place for all": PLANE.replace("&dbias[col]", "&dbias[0]"),
    "a place that data say": PLANE.replace("&dbias[col]", "&dbias[many[col]]"),
    "an old value that is used": PLANE.replace("  atomicAdd(", "  dx[col] = atomicAdd("),
    "sums that it reads": PLANE.replace("* share;", "* share + dbias[col];"),
    "no rows": PLANE.replace("int row = blockIdx.y * blockDim.y + threadIdx.y", "int row = blockIdx.y"),
    "threads that work together": PLANE.replace("  float share", "  __syncthreads();\n  float share"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_atomics_are_left_alone(name: str) -> None:
    assert rewritten("sum-down-columns", program(REFUSED[name], PLANE_RUN))[0].refused
