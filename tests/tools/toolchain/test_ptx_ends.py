# SPDX-License-Identifier: Apache-2.0
"""Loops keep what ends them, blocks the places that they draw and the order of flags, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_drawn import drawn_in, undrawn
from warplens_tools.toolchain.ptx_ends import Ends, ends_in, gives_up, holds_less
from warplens_tools.toolchain.ptx_order import Order, order_in, unordered

pytestmark = pytest.mark.compiler

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
CLIMBED = """
__global__ void climbed(const int* parent, const int* from, int* out, int deep) {
    KEPT
    int many = 0, v = from[threadIdx.x];
    for (; parent[v] != v; v = parent[v]) { KEEP; }
    int sum = many;
    for (int k = 0; k < many; k++) sum += AGAIN;
    out[threadIdx.x] = sum;
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


TOLD = """
__global__ void told(volatile int* state, volatile int* own, int* out) {
    const int tile = blockIdx.x;
    own[tile] = tile * 3;
    FIRST
    state[tile] = 1;
    if (tile == 0) return;
    while (state[tile - 1] == 0) { }
    THEN
    out[tile] = own[tile - 1];
}
"""
TOGETHER = """
__global__ void told(volatile int2* state, volatile int* own, int* out) {
    const int tile = blockIdx.x;
    state[tile].x = 1 + tile;
    if (tile == 0) return;
    int seen;
    while ((seen = state[tile - 1].x) == 0) { }
    out[tile] = seen - 1;
}
"""


def made(text: str, **words: str) -> str:
    """The PTX of a text, its words in capitals replaced."""
    for word, value in words.items():
        text = text.replace(word, value)
    return nvcc_made("k.ptx", text, "-arch=sm_90", "-ptx").read_text()


def test_a_search_that_data_end_does_not_end_after_rounds() -> None:
    was = ends_in(made(FOUND, LIMIT=""))
    assert "fixed number of rounds" in gives_up(was, ends_in(made(FOUND, LIMIT="tries < 96")))
    assert "fixed number of rounds" in gives_up(was, ends_in(made(FLAGGED)))
    assert gives_up(was, was) == gives_up(was, ends_in(made(CHUNKED))) == ""
    assert gives_up(was, ends_in(made(FOUND, LIMIT="tries <= mask"))) == ""


def test_a_loop_that_halves_what_is_left_may_have_as_many_rounds_as_there_are_bits() -> None:
    was, now = (ends_in(made(HALVED, LIMIT=limit)) for limit in ("", "turn < 32"))
    (one,) = was.values()
    assert (one.by_data, one.halves) == (1, True)
    assert gives_up(was, now) == ""


def test_a_block_that_waits_does_so_for_places_that_are_drawn() -> None:
    drawn, numbered = (made(DRAWN, PLACE=place) for place in ("turn", "blockIdx.x"))
    known, new = (drawn_in(drawn), ends_in(drawn)), (drawn_in(numbered), ends_in(numbered))
    assert "without the places" in undrawn(*known, *new)
    assert undrawn(*known, *known) == undrawn(*new, *known) == undrawn(*new, *new) == ""


def test_a_stack_stays_as_deep_and_a_table_as_long_as_one_likes() -> None:
    deep, shallow = (ends_in(made(STACKED, DEPTH=depth)) for depth in ("96", "20"))
    assert "has 80 bytes, the kernel 384" in holds_less(deep, shallow)
    assert holds_less(deep, deep) == holds_less(shallow, deep) == ""
    assert holds_less(*(ends_in(made(TABLED, DEPTH=depth)) for depth in ("64", "32"))) == ""


@pytest.mark.parametrize(
    "kept", ["int line[64];", "__shared__ int lines[32][64]; int* line = lines[threadIdx.x];"]
)
def test_what_data_lengthen_is_asked_for_before_it_is_kept(kept: str) -> None:
    def ends(keep: str) -> dict[str, Ends]:
        return ends_in(made(CLIMBED, KEPT=kept, KEEP=keep, AGAIN="line[k & 63]"))

    was = ends_in(made(CLIMBED, KEPT="", KEEP="many++", AGAIN="parent[k]"))
    assert "whether there is room" in holds_less(was, ends("line[many++] = v"))
    assert "whether there is room" in holds_less(was, ends("line[many] = v; many += parent[v] & 1"))
    full = ends("line[many++] = v")
    # as the kernel does, in a ring, as far as there is room, and one place alone
    assert holds_less(full, full) == holds_less(was, ends("line[many++ & 63] = v")) == ""
    assert holds_less(was, ends("if (many < 64) line[many] = v; many++")) == ""
    assert holds_less(was, ends("line[v & 63] = many++")) == ""


TILED = """__global__ void k(const float4* x, float* out, int rows) {
    __shared__ float tile[128 * 65];
    int at = blockIdx.x * 128, have = min(128, rows - at);
#pragma unroll 8
    for (int i = threadIdx.x; i < 128 * 16; i += 128) {
        int r = i / 16, q = i % 16;
        if (r < have) { float4 f = __ldg(x + at * 16 + i); float* to = tile + r * 65 + 4 * q;
            to[0] = f.x; to[1] = f.y; to[2] = f.z; to[3] = f.w; }
    }
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x * 65];
}
"""


def test_a_tile_that_is_filled_to_a_number_of_the_text_has_room() -> None:
    plain = "__global__ void k(const float4* x, float* out, int rows) { out[threadIdx.x] = x[rows].x; }\n"
    assert holds_less(ends_in(made(plain)), ends_in(made(TILED))) == ""


def test_a_fence_stands_between_a_flag_and_what_it_stands_for() -> None:
    fence = "__threadfence();"
    known = order_in(made(TOLD, FIRST=fence, THEN=fence))
    assert list(known.values()) == [Order(waits=True)]
    first, then = (order_in(made(TOLD, FIRST=a, THEN=b)) for a, b in (("", fence), (fence, "")))
    assert "what it writes and the flag" in unordered(known, first)
    assert "what it then reads" in unordered(known, then)
    assert unordered(known, known) == unordered(first, first) == unordered(then, known) == ""


def test_a_flag_that_is_the_number_itself_needs_no_fence() -> None:
    (order,) = order_in(made(TOGETHER)).values()
    assert order == Order(waits=True)
