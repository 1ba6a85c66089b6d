# SPDX-License-Identifier: Apache-2.0
"""Both words of a number count where they do in the kernel, by what nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_words import half_used, words_in

pytestmark = pytest.mark.compiler

TRIED = """
struct Limit { unsigned seed, upper, lower; };
__global__ void tried(const Limit* limits, unsigned long long first, unsigned long long* out) {
    const Limit& limit = limits[blockIdx.x];
    const unsigned long long n = first + threadIdx.x;
    const unsigned upper = (UPPER * limit.seed) ^ 0x9e37u, lower = ((unsigned)n + upper) * 77u;
    if (ASKS) out[threadIdx.x] = n;
}
"""
BOTH = "upper < limit.upper || (upper == limit.upper && lower <= limit.lower)"
OF_EACH = "(unsigned)(n >> 32)"
REDUCED = """
__global__ void reduced(const unsigned long long* in, unsigned long long* out) {
    const unsigned long long p = 0xffffffff00000001ull, x = in[threadIdx.x] * 5;
    out[threadIdx.x] = ASKS ? x - p : x;
}
"""
EQUAL = """
struct Mark { unsigned upper, lower, number; };
__global__ void equal(const unsigned* in, const Mark* marks, unsigned* out) {
    const unsigned x = in[threadIdx.x] * 77u, y = (x ^ x >> 7) * 99u;
    const Mark& mark = marks[threadIdx.x];
    out[threadIdx.x] = ASKS ? mark.number : 0u;
}
"""
SHORT = """
__global__ void reduced(const unsigned* in, unsigned* out) {
    const unsigned p = 0x7fffffffu, x = in[threadIdx.x] * 5u;
    out[threadIdx.x] = ASKS ? x - p : x;
}
"""
ROUNDS = """
__global__ void rounds(unsigned long long first, int n, unsigned* out) {
    BEFORE
    for (int t = threadIdx.x; t < n; t += 64) out[t] = (UPPER * 77u) ^ (unsigned)(first + t);
}
"""
LARGER = """
__global__ void larger(const unsigned long long* one, const unsigned long long* other, int* out) {
    const unsigned long long x = one[threadIdx.x] * 3, y = other[threadIdx.x] * 5;
    out[threadIdx.x] = ASKS;
}
"""


def _said(text: str, before: dict[str, str], after: dict[str, str]) -> str:
    return half_used(*(words_in(made(text, **(before | words))) for words in ({}, after)))


def _tried(**words: str) -> str:
    return _said(TRIED, {"ASKS": BOTH, "UPPER": OF_EACH}, words)


@pytest.mark.parametrize(
    "asks",
    [
        "upper < limit.upper || (upper == limit.upper && limit.lower == ~0u)",
        "upper < limit.upper || (upper == limit.upper && limit.lower > 5u)",
        "upper < limit.upper",
    ],
)
def test_the_lower_word_of_a_limit_is_compared(asks: str) -> None:
    assert "tried(Limit const*" in _tried(ASKS=asks)


@pytest.mark.parametrize(
    "asks",
    [
        BOTH,
        "upper <= limit.upper && (upper != limit.upper || !(lower > limit.lower))",
        "((unsigned long long)upper << 32 | lower) <= ((unsigned long long)limit.upper << 32 | limit.lower)",
        "upper < limit.upper || (upper == limit.upper && (limit.lower == ~0u || lower <= limit.lower))",
    ],
)
def test_how_both_words_are_compared_is_no_matter(asks: str) -> None:
    assert _tried(ASKS=asks) == ""


def test_the_upper_word_of_a_sum_is_each_sums_own() -> None:
    assert "one upper word of parameter 2" in _tried(UPPER="(unsigned)(first >> 32)")
    assert _tried(UPPER="((unsigned)(first >> 32) + ((unsigned)n < (unsigned)first))") == ""


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ("x >> 32 == 0xffffffffull", True),
        ("x > p", True),
        ("__double2hiint(__longlong_as_double(x)) == -1", True),
        ("x > p - 1", False),
        ("p <= x", False),
        ("(x >> 32 == 0xffffffffull && (unsigned)x != 0u)", False),
    ],
)
def test_where_64_bits_end_no_word_is_left_out(asks: str, told: bool) -> None:
    assert bool(_said(REDUCED, {"ASKS": "x >= p"}, {"ASKS": asks})) == told


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ("x >> 32 > y >> 32", True),
        ("y < x", False),
        ("(x >> 32 > y >> 32 || (x >> 32 == y >> 32 && (unsigned)x > (unsigned)y))", False),
    ],
)
def test_two_numbers_are_ordered_by_both_words(asks: str, told: bool) -> None:
    assert bool(_said(LARGER, {"ASKS": "x > y"}, {"ASKS": asks})) == told


def test_both_words_of_a_mark_are_compared() -> None:
    both = {"ASKS": "(mark.upper == x && mark.lower == y)"}
    assert "at byte 4" in _said(EQUAL, both, {"ASKS": "mark.upper == x"})
    assert _said(EQUAL, both, {"ASKS": "((mark.upper ^ x) | (mark.lower ^ y)) == 0"}) == ""


@pytest.mark.parametrize(("asks", "told"), [("x > p", True), ("x >> 31", True), ("!(x < p)", False)])
def test_so_does_where_31_bits_end(asks: str, told: bool) -> None:
    assert bool(_said(SHORT, {"ASKS": "x >= p"}, {"ASKS": asks})) == told


@pytest.mark.parametrize(
    ("before", "upper", "told"),
    [
        ("const unsigned upper = (unsigned)(first + threadIdx.y >> 32);", "upper", True),
        ("const unsigned upper = (unsigned)(first + blockIdx.x >> 32);", "upper", True),
        ("", "((unsigned)(first >> 32) + ((unsigned)first + (unsigned)t < (unsigned)t))", False),
    ],
)
def test_an_upper_word_is_taken_in_each_round(before: str, upper: str, told: bool) -> None:
    words = {"BEFORE": "", "UPPER": "(unsigned)(first + t >> 32)"}
    assert bool(_said(ROUNDS, words, {"BEFORE": before, "UPPER": upper})) == told
