# SPDX-License-Identifier: Apache-2.0
"""Next elements that are read always, and not where data say so, are told, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_beyond import beyond_in, reads_beyond

pytestmark = pytest.mark.compiler

UNPACKED = """
__global__ void unpacked(const unsigned* words, const int* widths, unsigned* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, width = widths[blockIdx.x], bit = i * width;
    if (i >= n) return;
    READ
    out[i] = both >> (bit & 31);
}
"""
WHERE_NEEDED = (
    "unsigned long long both = words[bit >> 5];"
    "if ((bit & 31) + width > 32) both |= (unsigned long long)words[(bit >> 5) + 1] << 32;"
)


def _said(read: str) -> str:
    return reads_beyond(*(beyond_in(made(UNPACKED, READ=how)) for how in (WHERE_NEEDED, read)))


@pytest.mark.parametrize(
    "read",
    [
        "const unsigned long long both = words[bit >> 5] | (unsigned long long)words[(bit >> 5) + 1] << 32;",
        "const unsigned both = __funnelshift_r(words[bit >> 5], words[(bit >> 5) + 1], bit) << (bit & 31);",
    ],
)
def test_what_is_read_always_is_told(read: str) -> None:
    assert "behind parameter 1 always" in _said(read)


@pytest.mark.parametrize(
    "read",
    [
        WHERE_NEEDED.replace("> 32", ">= 33"),
        "const unsigned upper = (bit & 31) + width > 32 ? words[(bit >> 5) + 1] : 0;"
        "const unsigned long long both = words[bit >> 5] | (unsigned long long)upper << 32;",
        "const int last = (bit + width - 1) >> 5;"
        "const unsigned long long both = words[bit >> 5] | (unsigned long long)words[last] << 32;",
    ],
)
def test_what_is_read_where_it_has_to_be_is_not(read: str) -> None:
    assert _said(read) == ""
