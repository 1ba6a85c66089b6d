# SPDX-License-Identifier: Apache-2.0
"""Loops that end at a number of the edit's own."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.short_loops import why_cut_off
from warplens_tools.tunable.source import File

SUMS = "    for (int k = 0; k < many; ++k) sum += in[first + k];\n"
PROGRAM = f"""
constexpr int kHeld = 24;
__global__ void polled(const int* in, const int* begins, int* out) {{
    const int first = begins[blockIdx.x], many = begins[blockIdx.x + 1] - first;
    int sum = 0;
{SUMS}    for (int k = 0; k < many; ++k) out[first + k] = sum;
}}
"""


def _why(sums: str) -> str:
    before, after = (
        File(one, parse(one, "k.cu")) for one in map(SourceText, (PROGRAM, PROGRAM.replace(SUMS, sums)))
    )
    return why_cut_off(before, after)


@pytest.mark.parametrize(
    "sums",
    [
        "const int all = min(many, 24); for (int k = 0; k < all; ++k) sum += in[first + k];",
        "const int all = std::min<int>(kHeld, many); for (int k = 0; k < all; ++k) sum += in[first + k];",
        "const int all = many < 24 ? many : 24; for (int k = 0; k < all; ++k) sum += in[first + k];",
        "const int all = many > kHeld ? kHeld : many; for (int k = 0; k < all; ++k) sum += in[first + k];",
        "for (int k = 0; k < min(many, 24); ++k) sum += in[first + k];",
        "for (int k = 0; k < min(many + 1, 24u); ++k) sum += in[first + k];",
        "for (int k = 0; k < many && k < kHeld; ++k) sum += in[first + k];",
        "int k = 0; while (k < 24 && k < many) sum += in[first + k++];",
    ],
)
def test_what_goes_no_further_than_a_number_is_told(sums: str) -> None:
    assert "in polled, which goes up to `many`" in _why(sums)


@pytest.mark.parametrize(
    "sums",
    [
        "int k = 0; for (; k < many && k < 24; ++k) sum += in[first + k]; for (; k < many; ++k) sum += in[first + k];",
        "for (int b = 0; b < many; b += 8) { int to = min(many - b, 8); for (int k = 0; k < to; ++k) sum += in[k]; }",
        "#pragma unroll 4\n for (int k = 0; k < many; ++k) sum += in[first + k];",
        "for (int k = many - 1; k >= 0; --k) sum += in[first + k];",
        "int to = many / 4 * 4, k = 0; for (; k < to; ++k) sum += in[k]; for (; k < many; ++k) sum += in[first + k];",
    ],
)  # fmt: skip
def test_what_does_the_rest_or_all_is_not(sums: str) -> None:
    assert _why(sums) == ""
