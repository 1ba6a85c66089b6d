# SPDX-License-Identifier: Apache-2.0
"""Whole parts and quotients keep their digits, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_whole import Whole, coarser_fractions, less_whole, whole_in

pytestmark = pytest.mark.compiler

TURNS = """
__global__ void turned(const float* hz, float* out, double seconds) {
    TYPE turns = (TYPE)seconds * hz[threadIdx.x];
    turns -= WHOLE;
    out[threadIdx.x] = (float)turns;
}
"""
SHARES = """
__global__ void shares(const unsigned* upto, unsigned char* out, unsigned LONG all) {
    out[threadIdx.x] = (unsigned char)(QUOTIENT);
}
"""
MODULO = """
__global__ void left(const unsigned* in, unsigned* out, unsigned by, double inverse) {
    out[threadIdx.x] = in[threadIdx.x] % by;
}
"""
REMAINDERS = """
__global__ void left(const unsigned* in, unsigned* out, unsigned by, double inverse) {
    const unsigned whole = (unsigned)(in[threadIdx.x] * inverse), rest = in[threadIdx.x] - whole * by;
    out[threadIdx.x] = rest >= by ? rest - by : rest;
}
"""


def made(text: str, **words: str) -> dict[str, Whole]:
    for word, value in words.items():
        text = text.replace(word, value)
    return whole_in(nvcc_made("k.ptx", text, "-arch=sm_90", "-ptx").read_text())


def test_fractions_of_doubles_stay_so() -> None:
    known = made(TURNS, TYPE="double", WHOLE="floor(turns)")
    floats = made(TURNS, TYPE="float", WHOLE="floorf(turns)")
    assert "fractions of no doubles" in coarser_fractions(known, floats)
    assert coarser_fractions(known, known) == coarser_fractions(floats, known) == ""
    long = made(TURNS, TYPE="double", WHOLE="(long long)turns")
    assert coarser_fractions(known, long) == less_whole(known, long) == ""


@pytest.mark.parametrize("whole", ["(int)turns", "(unsigned)(long long)turns"])
def test_whole_parts_of_doubles_are_not_held_in_32_bits(whole: str) -> None:
    known = made(TURNS, TYPE="double", WHOLE="floor(turns)")
    assert "in 32 bits" in less_whole(known, made(TURNS, TYPE="double", WHOLE=whole))


def test_whole_numbers_are_divided_as_such_or_put_right() -> None:
    known = made(SHARES, LONG="long long", QUOTIENT="upto[threadIdx.x] * 255ull / all")
    shifted = made(SHARES, LONG="long long", QUOTIENT="upto[threadIdx.x] * (255.0 / all) + 2e-8")
    assert "does not put the quotient right" in less_whole(known, shifted)
    assert less_whole(known, known) == less_whole(shifted, known) == ""
    short = made(SHARES, LONG="", QUOTIENT="upto[threadIdx.x] / all")
    assert less_whole(short, made(SHARES, LONG="", QUOTIENT="(double)upto[threadIdx.x] / all")) == ""
    modulo = made(MODULO)
    assert less_whole(modulo, made(REMAINDERS)) == ""
