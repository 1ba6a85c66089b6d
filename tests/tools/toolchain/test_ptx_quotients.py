# SPDX-License-Identifier: Apache-2.0
"""Quotients by a reciprocal of few bits are told, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import ptx_of_each
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_quotients import (
    by_reciprocals,
    lost_elsewhere,
    quotients_in,
    reciprocals_in,
)

pytestmark = pytest.mark.compiler

KERNEL = """
__global__ void rows(const float* in, float* out, int n, unsigned width) {
    BEFORE
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const unsigned row = QUOTIENT;
        out[i] = in[row] + in[i - row * width];
    }
}
"""
MADE = {
    "divided": ("", "i / width"),
    "by a constant": ("", "i / 7u"),
    "a part of a constant": ("const unsigned tile = 4096u / width;", "i / width + (i >> 4) % tile"),
    "by 20 bits": ("const unsigned share = (1u << 20) / width + 1u;", "i * share >> 20"),
    "by 16 bits where it may": (
        "const unsigned share = width < 65536u ? 65536u / width + 1u : 0u;",
        "i * share >> 16",
    ),
    "by 32 bits in 64": (
        "const unsigned long long share = (1ull << 32) / width + 1;",
        "(unsigned)(i * share >> 32)",
    ),
    "by 64 bits": ("const unsigned long long share = ~0ull / width + 1;", "(unsigned)__umul64hi(share, i)"),
    "by the upper half": ("const unsigned share = ~0u / width + 1u;", "__umulhi(i, share)"),
    "by the upper half, of few": ("const unsigned share = ~0u / width + 1u;", "__umulhi(i & 0xffffu, share)"),
    "put right": (
        "const unsigned share = ~0u / width;",
        "__umulhi(i, share) + (i - __umulhi(i, share) * width >= width)",
    ),
}
TOLD = frozenset({"by 20 bits", "by 16 bits where it may", "by 32 bits in 64", "by the upper half"})


@pytest.fixture(scope="module")
def compiled() -> dict[str, frozenset[str]]:
    texts = {
        name: KERNEL.replace("BEFORE", before).replace("QUOTIENT", quotient)
        for name, (before, quotient) in MADE.items()
    }
    return {name: reciprocals_in(ptx) for name, ptx in ptx_of_each(texts, "rows").items()}


@pytest.mark.parametrize("name", MADE)
def test_quotients_by_few_bits_are_told(compiled: dict[str, frozenset[str]], name: str) -> None:
    said = by_reciprocals(compiled["divided"], compiled[name])
    assert ("a reciprocal of few bits" in said) == (name in TOLD) == bool(said)
    assert by_reciprocals(compiled[name], compiled[name]) == ""


BLENDED = """
template <class T>
__global__ void blended(const T* a, const T* b, const unsigned char* mask, T* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned m = mask[i], sum = a[i] * m + b[i] * (255u - m);
    out[i] = (T)(SHARE);
}
template __global__ void blended<unsigned char>(const unsigned char*, const unsigned char*, const unsigned char*,
                                                unsigned char*, int);
template __global__ void blended<unsigned short>(const unsigned short*, const unsigned short*, const unsigned char*,
                                                 unsigned short*, int);
"""


def test_a_quotient_that_another_instantiation_loses_is_told() -> None:
    def said(share: str, judged: str) -> str:
        before, after = (quotients_in(made(BLENDED, SHARE=how)) for how in ("(sum + 127u) / 255u", share))
        return lost_elsewhere(before, after, next(name for name in after if judged in name))

    shifts = "(sum + 128u + (sum + 128u >> 8)) >> 8"
    assert "blended<unsigned short>" in said(shifts, "<unsigned char>")
    assert said("(sum + 127u + 0u) / 255u", "<unsigned char>") == ""
