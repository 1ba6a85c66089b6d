# SPDX-License-Identifier: Apache-2.0
"""Whole numbers that are added up, or counted, as floats are told, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_totals import in_floats, totals_in

pytestmark = pytest.mark.compiler

PRODUCT = """
__global__ void product(const signed char* a, const TYPE* b, const float* scales, float* out, int length) {
    const signed char* x = a + (size_t)blockIdx.x * length;
    const TYPE* y = b + (size_t)threadIdx.x * length;
    SUM
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum * scales[threadIdx.x];
}
"""
WHOLE = "int sum = 0; for (int k = 0; k < length; ++k) sum += x[k] * y[k];"
LONG = "long long sum = 0; for (int k = 0; k < length; ++k) sum += (long long)x[k] * y[k];"
COUNT = "int sum = 0; for (int k = 0; k < length; ++k) if (x[k] != y[k]) ++sum;"


def _said(kernel: str, edit: str, kind: str = "signed char") -> str:
    return in_floats(*(totals_in(made(PRODUCT, SUM=how, TYPE=kind)) for how in (kernel, edit)))


@pytest.mark.parametrize(
    ("kernel", "edit"),
    [
        (WHOLE, "float sum = 0; for (int k = 0; k < length; ++k) sum += (float)x[k] * (float)y[k];"),
        (WHOLE, "float sum = 0; for (int k = 0; k < length; ++k) sum = fmaf(x[k], y[k], sum);"),
        (WHOLE, "float sum = 0; for (int k = 0; k < length; ++k) sum += (float)(x[k] * y[k]);"),
        (LONG, "double sum = 0; for (int k = 0; k < length; ++k) sum += (double)((long long)x[k] * y[k]);"),
        (COUNT, "float sum = 0; for (int k = 0; k < length; ++k) sum += x[k] != y[k] ? 1.f : 0.f;"),
    ],
)  # fmt: skip
def test_what_is_added_up_as_floats_is_told(kernel: str, edit: str) -> None:
    assert "the edit" in _said(kernel, edit)


@pytest.mark.parametrize(
    ("kernel", "edit", "kind"),
    [
        (WHOLE, "int e = 0, f = 0, k = 0;"
                " for (; k + 1 < length; k += 2) { e += x[k] * y[k]; f += x[k + 1] * y[k + 1]; }"
                " if (k < length) e += x[k] * y[k]; const int sum = e + f;", "signed char"),
        # a double holds all that 32 bits do
        (WHOLE, "double sum = 0; for (int k = 0; k < length; ++k) sum += (double)(x[k] * y[k]);", "signed char"),
        # terms that were floats before
        (WHOLE.replace("int sum", "float sum"), "float sum = 0; for (int k = 0; k < length; ++k) sum += x[k] * y[k];",
         "float"),
        (COUNT, "int sum = 0; for (int k = 0; k < length; ++k) sum += x[k] != y[k];", "signed char"),
    ],
)  # fmt: skip
def test_what_is_as_exact_is_not(kernel: str, edit: str, kind: str) -> None:
    assert _said(kernel, edit, kind) == ""
