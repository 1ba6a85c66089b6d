# SPDX-License-Identifier: Apache-2.0
"""Remainders that are put off behind a loop are told, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_reduced import put_off, reduced_in

pytestmark = pytest.mark.compiler

CHECKED = """
typedef unsigned long long u64;
__global__ void checked(const unsigned char* data, const unsigned* words, unsigned* out, int length, unsigned modulus) {
    const unsigned char* row = data + (size_t)threadIdx.x * length;
    SUM
    out[threadIdx.x] = a;
}
"""
CONSTANT = "unsigned a = 1; for (int k = 0; k < length; ++k) a = (a + row[k]) % 65521u;"
GIVEN = "unsigned a = 1; for (int k = 0; k < length; ++k) a = (a * 31u + row[k]) % modulus;"
PRODUCTS = (
    "u64 b = 0; for (int k = 0; k < length; ++k) b = (b + (u64)words[k] * row[k] * words[k + 1]) % 1000003u;"
)
PRODUCTS += " unsigned a = b;"


def _said(kernel: str, edit: str) -> str:
    return put_off(*(reduced_in(made(CHECKED, SUM=how)) for how in (kernel, edit)))


@pytest.mark.parametrize(
    ("kernel", "edit"),
    [
        (CONSTANT, "unsigned a = 1; for (int k = 0; k < length; ++k) a += row[k]; a %= 65521u;"),
        (GIVEN, "unsigned a = 1; for (int k = 0; k < length; ++k) a = a * 31u + row[k]; a %= modulus;"),
        (PRODUCTS, "u64 b = 0; for (int k = 0; k < length; ++k) b += (u64)words[k] * row[k] * words[k + 1];"
                   " unsigned a = b % 1000003u;"),
    ],
)  # fmt: skip
def test_what_is_put_off_is_told(kernel: str, edit: str) -> None:
    assert "behind a loop" in _said(kernel, edit)


@pytest.mark.parametrize(
    ("kernel", "edit"),
    [
        (CONSTANT, "unsigned a = 1; for (int k = 0; k < length;) { const int stop = min(length - k, 5552) + k;"
                   " for (; k < stop; ++k) a += row[k]; a %= 65521u; }"),
        # bytes in 64 bits
        (CONSTANT, "u64 b = 1; for (int k = 0; k < length; ++k) b += row[k]; unsigned a = b % 65521u;"),
        (CONSTANT, "unsigned a = 1; for (int k = 0; k < length; ++k) { a += row[k]; if (a >= 65521u) a -= 65521u; }"),
        ("unsigned a = 1; for (int k = 0; k < length; ++k) a += row[k]; a %= 65521u;",
         "unsigned a = 1; for (int k = length - 1; k >= 0; --k) a += row[k]; a %= 65521u;"),
    ],
)  # fmt: skip
def test_what_is_taken_in_time_is_not(kernel: str, edit: str) -> None:
    assert _said(kernel, edit) == ""
