# SPDX-License-Identifier: Apache-2.0
"""Whole numbers keep all of their bits, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made, ptx_of_each

from warplens_tools.toolchain.ptx_floats import through_floats, through_floats_in
from warplens_tools.toolchain.ptx_short import short_in, shortened

pytestmark = pytest.mark.compiler

KEPT = """
__global__ void kept(const int* in, const unsigned char* bytes, unsigned* out, int n) {
    __shared__ TYPE held[64];
    held[threadIdx.x] = (TYPE)in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[63 - threadIdx.x] == in[n] ? bytes[n] : 0;
}
"""
DIGIT = """
__global__ void digit(const unsigned* keys, unsigned* out, int shift) {
    __shared__ TYPE held[64];
    held[threadIdx.x] = (TYPE)(keys[threadIdx.x] >> shift & 255);
    __syncthreads();
    out[threadIdx.x] = held[63 - threadIdx.x];
}
"""
SUMMED = """
__global__ void summed(const signed char* a, const signed char* b, int* out, int n) {
    TYPE sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum += (TYPE)a[i] * (TYPE)b[i];
    out[threadIdx.x] = (int)sum;
}
"""
COUNTED = """
__global__ void counted(const int* in, int* out, int n) {
    TYPE run = 0;
    for (int i = threadIdx.x; i < n; i += 32) if (in[i] == in[0]) run++; else out[run]++, run = 0;
    out[threadIdx.x] = run;
}
"""


def made(text: str, **words: str) -> str:
    """The PTX of a text, its words in capitals replaced."""
    for word, value in words.items():
        text = text.replace(word, value)
    return nvcc_made("k.ptx", text, "-arch=sm_90", "-ptx").read_text()


def short(text: str, before: str, after: str) -> str:
    return shortened(*(short_in(made(text, TYPE=kind)) for kind in (before, after)))


@pytest.mark.parametrize("kind", ["unsigned short", "unsigned char", "short"])
def test_a_loaded_number_that_is_kept_in_fewer_bits_is_told(kind: str) -> None:
    assert "behind parameter 1 have" in short(KEPT, "int", kind)
    assert short(KEPT, kind, "int") == short(KEPT, "int", "int") == ""


def test_a_digit_of_a_loaded_number_may_be_kept_in_as_many_bits_as_it_has() -> None:
    assert short(DIGIT, "unsigned", "unsigned char") == ""


def test_whole_numbers_are_not_added_up_as_floats_but_in_double() -> None:
    assert "adds up as floats" in short(SUMMED, "int", "float")
    assert short(SUMMED, "float", "float") == short(SUMMED, "int", "double") == ""


@pytest.mark.parametrize("kind", ["unsigned char", "short"])
def test_what_a_loop_counts_keeps_its_bits(kind: str) -> None:
    assert "counts over a loop" in short(COUNTED, "int", kind)
    assert (
        short(COUNTED, kind, "int") == short(COUNTED, kind, kind) == short(COUNTED, "int", "long long") == ""
    )


ASKED = """
#include <cuda_fp16.h>
__global__ void asked(const int* in, const int* other, int* out, int n, int least) {
    int count = 0;
    for (int i = threadIdx.x; i < n; i += 32) if (ASKS) ++count;
    out[threadIdx.x] = count;
}
"""


WHOLE = "in[i] < least"
CUT = (
    "(short)in[i] < (short)least",
    "in[i] << 12 < least << 12",
    "(in[i] & 0xfffff) < least",
    "(int)__byte_perm(in[i], 0, 0x4210) < least",
    "(float)in[i] < (float)least",
    "__mul24(in[i], 1) < least",
    "(short)(in[i] - in[0]) < least",
)
OTHER = ("in[i] * 4 < least", "in[i] / 4 < least", "other[in[i] << 10] < least")


@pytest.fixture(scope="module")
def asked() -> dict[str, str]:
    """The PTX by what it asks."""
    return ptx_of_each({asks: ASKED.replace("ASKS", asks) for asks in (WHOLE, *CUT, *OTHER)}, "asked")


@pytest.mark.parametrize("asks", CUT)
def test_a_loaded_number_that_is_compared_in_fewer_bits_is_told_however_they_are_cut(
    asked: dict[str, str], asks: str
) -> None:
    whole, cut = short_in(asked[WHOLE]), short_in(asked[asks])
    assert "behind parameter 1 have" in shortened(whole, cut)
    assert shortened(cut, whole) == shortened(cut, cut) == ""


@pytest.mark.parametrize("asks", OTHER)
def test_what_is_multiplied_or_divided_or_leads_elsewhere_is_whole(asked: dict[str, str], asks: str) -> None:
    assert shortened(short_in(asked[WHOLE]), short_in(asked[asks])) == ""


HALVED = """
#include <cuda_fp16.h>
__global__ void counted(const int* in, int* out, int n, int least) {
    TYPE count = START;
    for (int i = threadIdx.x; i < n; i += 32) if (in[i] < least) count = count + ONE;
    out[threadIdx.x] = (int)(float)count;
}
"""


def test_counts_in_half_precision_are_sums_of_floats() -> None:
    whole = short_in(made(HALVED, TYPE="int", START="0", ONE="1"))
    half = short_in(made(HALVED, TYPE="__half", START="__half(0.0f)", ONE="__half(1.0f)"))
    assert "adds up as floats" in shortened(whole, half)


PLACED = """
#include <cuda_fp16.h>
__global__ void placed(const int* in, int* out, int n) {
    int best = 0;
    TYPE at = FROM(0);
    for (int i = threadIdx.x; i < n; i += 32) if (in[i] > best) best = in[i], at = FROM(i);
    out[threadIdx.x] = BACK(at);
}
"""


def test_places_that_go_through_halves_are_told() -> None:
    whole = through_floats_in(made(PLACED, TYPE="int", FROM="int", BACK="int"))
    half = through_floats_in(made(PLACED, TYPE="__half", FROM="__int2half_rn", BACK="__half2int_rn"))
    assert "halves: 2^11" in through_floats(whole, half)
    assert through_floats(half, half) == ""


FLAGGED = """
__global__ void flagged(const float4* boxes, const float2* places, int n, unsigned char* out) {
    __shared__ float4 held[128];
    const float2 p = places[threadIdx.x];
    bool looks = true;
    int at = 0, on = 0;
    for (int from = 0; from < n; from += 128) {
        __syncthreads();
        for (int k = threadIdx.x; k < 128 && from + k < n; k += blockDim.x) held[k] = boxes[from + k];
        __syncthreads();
        const int to = min(128, n - from) + from;
        for (int d = from; looks && d < to; ++d) {
            const float4 box = held[d - from];
            if (p.x < box.x || p.y < box.y || p.x > box.z || p.y > box.w) continue;
            on = p.x == box.x ? 2 : 1;
            at += 3;
            looks = false;
        }
    }
    out[threadIdx.x] = (unsigned char)KEPT;
}
"""


def test_a_flag_that_begins_as_a_loops_counter_does_is_no_sum() -> None:
    found = {
        kept: short_in(nvcc_made("k.ptx", FLAGGED.replace("KEPT", kept), "-arch=sm_90", "-ptx").read_text())
        for kept in ("on", "at")
    }
    assert {kept: [one.keeps for one in of.values()] for kept, of in found.items()} == {
        "on": [False],
        "at": [True],
    }
