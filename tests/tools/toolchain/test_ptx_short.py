# SPDX-License-Identifier: Apache-2.0
"""Whole numbers keep all of their bits, loops their ends and blocks the places that they draw, by what nvcc makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.process.run import run
from warplens_tools.toolchain.locate import resolve_toolchain
from warplens_tools.toolchain.ptx_drawn import drawn_in, undrawn
from warplens_tools.toolchain.ptx_ends import ends_in, gives_up, holds_less
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
FOUND = """
__global__ void found(const int* slots, const int* keys, int* out, int mask) {
    const int key = keys[threadIdx.x];
    int at = key & mask, place = -1;
    for (int tries = 0; LIMIT; tries++) {
        if (slots[at] == key) { place = at; break; }
        if (slots[at] == 0) break;
        at = at + 1 & mask;
    }
    out[threadIdx.x] = place;
}
"""
FLAGGED = """
__global__ void found(const int* slots, const int* keys, int* out, int mask) {
    const int key = keys[threadIdx.x];
    int at = key & mask, place = -1;
    bool over = false;
#pragma unroll 1
    for (int tries = 0; tries < 50; tries++) {
        if (!over && slots[at] == key) { place = at; over = true; }
        if (slots[at] == 0) over = true;
        at = at + 1 & mask;
    }
    out[threadIdx.x] = place;
}
"""
CHUNKED = """
__global__ void found(const int* slots, const int* keys, int* out, int mask) {
    const int key = keys[threadIdx.x];
    int at = key & mask, place = -1;
    bool over = false;
    while (!over) {
#pragma unroll 1
        for (int tries = 0; tries < 8; tries++) {
            if (slots[at] == key) { place = at; over = true; break; }
            if (slots[at] == 0) { over = true; break; }
            at = at + 1 & mask;
        }
    }
    out[threadIdx.x] = place;
}
"""
HALVED = """
__global__ void halved(const int* sorted, const int* keys, int* out, int n) {
    int low = 0, high = n;
    for (int turn = 0; LIMIT; turn++) {
        if (low >= high) break;
        const int middle = low + ((high - low) >> 1);
        if (sorted[middle] < keys[threadIdx.x]) low = middle + 1; else high = middle;
    }
    out[threadIdx.x] = low;
}
"""
STACKED = """
__global__ void stacked(const int2* nodes, int* out) {
    int stack[DEPTH], top = 0, many = 0;
    stack[top++] = threadIdx.x;
    while (top > 0) {
        const int2 node = nodes[stack[--top]];
        if (node.x < 0) { many++; continue; }
        stack[top++] = node.x;
        stack[top++] = node.y;
    }
    out[threadIdx.x] = many;
}
"""
TABLED = """
__global__ void tabled(const int* in, int* out, int n) {
    int table[DEPTH];
    for (int i = 0; i < DEPTH; i++) table[i] = in[i];
    for (int i = 0; i < n; i++) table[in[i] & DEPTH - 1]++;
    for (int i = 0; i < DEPTH; i++) out[i] = table[i];
}
"""
DRAWN = """
__global__ void drawn(const int* in, volatile int* told, int* ticket, int* out) {
    __shared__ int turn;
    if (threadIdx.x == 0) turn = atomicAdd(ticket, 1);
    __syncthreads();
    const int tile = PLACE;
    if (threadIdx.x == 0) {
        if (tile > 0) while (told[tile - 1] == 0) { }
        __threadfence();
        told[tile] = 1;
    }
    __syncthreads();
    out[tile * 32 + threadIdx.x] = in[tile * 32 + threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> Ptx:
    nvcc = resolve_toolchain().find("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    return Ptx(str(nvcc.path), tmp_path_factory.mktemp("short"))


class Ptx:
    """What nvcc makes of a text."""

    def __init__(self, nvcc: str, folder: Path) -> None:
        self._nvcc, self._folder = nvcc, folder
        self._known: dict[str, str] = {}

    def of(self, text: str, **words: str) -> str:
        """With its words in capitals replaced."""
        for word, value in words.items():
            text = text.replace(word, value)
        if text not in self._known:
            source, made = self._folder / "k.cu", self._folder / "k.ptx"
            source.write_text(text)
            run([self._nvcc, "-arch=sm_90", "-ptx", str(source), "-o", str(made)], timeout=120)
            self._known[text] = made.read_text()
        return self._known[text]


def short(ptx: Ptx, text: str, before: str, after: str) -> str:
    return shortened(*(short_in(ptx.of(text, TYPE=kind)) for kind in (before, after)))


@pytest.mark.parametrize("kind", ["unsigned short", "unsigned char", "short"])
def test_a_loaded_number_that_is_kept_in_fewer_bits_is_told(ptx: Ptx, kind: str) -> None:
    assert "behind parameter 1 have" in short(ptx, KEPT, "int", kind)
    assert short(ptx, KEPT, kind, "int") == short(ptx, KEPT, "int", "int") == ""


def test_a_digit_of_a_loaded_number_may_be_kept_in_as_many_bits_as_it_has(ptx: Ptx) -> None:
    assert short(ptx, DIGIT, "unsigned", "unsigned char") == ""


def test_whole_numbers_are_not_added_up_as_floats_but_in_double(ptx: Ptx) -> None:
    assert "adds up as floats" in short(ptx, SUMMED, "int", "float")
    assert short(ptx, SUMMED, "float", "float") == short(ptx, SUMMED, "int", "double") == ""


def test_a_search_that_data_end_does_not_end_after_rounds(ptx: Ptx) -> None:
    was = ends_in(ptx.of(FOUND, LIMIT=""))
    assert "fixed number of rounds" in gives_up(was, ends_in(ptx.of(FOUND, LIMIT="tries < 96")))
    assert "fixed number of rounds" in gives_up(was, ends_in(ptx.of(FLAGGED)))
    assert gives_up(was, was) == gives_up(was, ends_in(ptx.of(CHUNKED))) == ""
    assert gives_up(was, ends_in(ptx.of(FOUND, LIMIT="tries <= mask"))) == ""


def test_a_loop_that_halves_what_is_left_may_have_as_many_rounds_as_there_are_bits(ptx: Ptx) -> None:
    made = [ends_in(ptx.of(HALVED, LIMIT=limit)) for limit in ("", "turn < 32")]
    (one,) = made[0].values()
    assert (one.by_data, one.halves) == (1, True)
    assert gives_up(*made) == ""


def test_a_block_that_waits_does_so_for_places_that_are_drawn(ptx: Ptx) -> None:
    drawn, numbered = (ptx.of(DRAWN, PLACE=place) for place in ("turn", "blockIdx.x"))
    known, new = (drawn_in(drawn), ends_in(drawn)), (drawn_in(numbered), ends_in(numbered))
    assert "without the places" in undrawn(*known, *new)
    assert undrawn(*known, *known) == undrawn(*new, *known) == undrawn(*new, *new) == ""


def test_a_stack_stays_as_deep_and_a_table_as_long_as_one_likes(ptx: Ptx) -> None:
    deep, shallow = (ends_in(ptx.of(STACKED, DEPTH=depth)) for depth in ("96", "20"))
    assert "has 80 bytes, the kernel 384" in holds_less(deep, shallow)
    assert holds_less(deep, deep) == holds_less(shallow, deep) == ""
    assert holds_less(*(ends_in(ptx.of(TABLED, DEPTH=depth)) for depth in ("64", "32"))) == ""
