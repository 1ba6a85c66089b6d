# SPDX-License-Identifier: Apache-2.0
"""Places that are drawn and not asked for each are told, and counts that are looked at, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_between import between_in, unseen
from warplens_tools.toolchain.ptx_room import room_in, without_room

pytestmark = pytest.mark.compiler

LISTED = """
__global__ void listed(const int* in, int n, int* list, int* count, int capacity) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || in[i] < 0) return;
    PLACE
}
"""
EACH = "const int place = atomicAdd(count, 1); if (place < capacity) list[place] = in[i];"
WARP = """
    const unsigned mates = __activemask();
    const int lane = threadIdx.x & 31, leader = __ffs(mates) - 1, found = __popc(mates);
    int base = 0;
    if (lane == leader) base = atomicAdd(count, found);
    base = __shfl_sync(mates, base, leader);
    const int rank = __popc(mates & ((1u << lane) - 1));
"""


def _said(place: str) -> str:
    return without_room(*(room_in(made(LISTED, PLACE=how)) for how in (EACH, place)))


@pytest.mark.parametrize(
    "place",
    [
        WARP + "if (base + found <= capacity) list[base + rank] = in[i];",
        WARP + "if (base < capacity) list[base + rank] = in[i];",
        "list[atomicAdd(count, 1)] = in[i];",
    ],
)
def test_what_asks_for_another_place_is_told(place: str) -> None:
    assert "behind parameter 3" in _said(place)


@pytest.mark.parametrize(
    "place",
    [
        WARP + "if (base + rank < capacity) list[base + rank] = in[i];",
        WARP + "const int place = base + rank; if (place >= capacity) return; list[place] = in[i];",
        WARP + "if (rank < capacity - base) list[base + rank] = in[i];",
        "const int place = atomicAdd(count, 1); if (place >= capacity) return; list[place] = in[i] + 0;",
    ],
)
def test_what_asks_for_each_is_not(place: str) -> None:
    assert _said(place) == ""


def test_a_count_that_is_looked_at_is_told() -> None:
    def said(place: str) -> str:
        return unseen(*(between_in(made(LISTED, PLACE=how)) for how in (EACH, place)))

    assert "counting up behind parameter 4" in said(f"if (*(volatile int*)count > capacity) return; {EACH}")
    assert said(WARP + "if (base + rank < capacity) list[base + rank] = in[i];") == ""
