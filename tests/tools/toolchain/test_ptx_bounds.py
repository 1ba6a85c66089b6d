# SPDX-License-Identifier: Apache-2.0
"""Loops over data keep their length and look at everything, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_bounds import Bounds, bounds_in, cut_short

pytestmark = pytest.mark.compiler

PROBED = """
__global__ void probed(const int* table, const int* keys, int* out, int mask, int parts) {
    const int key = keys[threadIdx.x];
    int slot = key * 77 & mask;
    const int most = MOST;
    for (int turn = 0; LIMIT table[slot] >= 0; ++turn) {
        if (table[slot] == key) { out[threadIdx.x] = slot; return; }
        slot = slot + 1 & mask;
    }
    out[threadIdx.x] = -1;
}
"""
COMPARED = """
__global__ void compared(const char* one, const char* other, const int* begins, int* out, int length) {
    const char* left = one + begins[threadIdx.x];
    const char* right = other + begins[threadIdx.x + 32];
    int same = 0;
    while (same < length && left[same] == right[same]) { STEP; }
    out[threadIdx.x] = same == length;
}
"""
HALVED = """
__global__ void compared(const char* one, const char* other, const int* begins, int* out, int length) {
    int low = 0, high = length;
    while (low < high) {
        const int middle = (low + high) >> 1;
        if (one[middle] < other[threadIdx.x]) low = middle + 1; else high = middle;
    }
    out[threadIdx.x] = low;
}
"""


def _bounds(text: str, **words: str) -> dict[str, Bounds]:
    # by one name whatever its parameters are
    (one,) = bounds_in(made(text, **words)).values()
    return {"k": one}


@pytest.mark.parametrize("most", ["(mask >> 7) + 8", "mask / parts", "min(mask, 64)"])
def test_a_search_is_not_bounded_by_a_part(most: str) -> None:
    was = _bounds(PROBED, MOST="0", LIMIT="")
    assert "by a part of a number" in cut_short(was, _bounds(PROBED, MOST=most, LIMIT="turn < most &&"))


def test_a_search_may_be_bounded_by_all_there_is() -> None:
    was = _bounds(PROBED, MOST="0", LIMIT="")
    now = _bounds(PROBED, MOST="mask + 1", LIMIT="turn < most &&")
    assert cut_short(was, now) == cut_short(was, was) == cut_short(now, was) == ""


@pytest.mark.parametrize(
    "step",
    [
        "same = same < 7 ? same + 1 : same == length - 1 ? length : length - 1",
        "same = left[same] == 'a' ? length : same + 1",
    ],
)
def test_a_comparison_does_not_skip(step: str) -> None:
    assert "by steps that follow data" in cut_short(
        _bounds(COMPARED, STEP="++same"), _bounds(COMPARED, STEP=step)
    )


def test_a_comparison_may_go_in_strides_and_a_search_by_halves() -> None:
    was = _bounds(COMPARED, STEP="++same")
    assert cut_short(was, _bounds(COMPARED, STEP="same += 1")) == cut_short(was, was) == ""
    assert cut_short(was, _bounds(HALVED)) == ""


SOUGHT = """
__global__ void sought(const int* slots, const int* keys, int* out, unsigned mask) {
    const int key = keys[threadIdx.x];
    unsigned at = key & mask;
    int place = -1;
    for (unsigned tries = 0; LIMIT; ++tries) {
        if (slots[at] == key) { place = at; break; }
        if (slots[at] == 0) break;
        at = at + 1 & mask;
    }
    out[threadIdx.x] = place;
}
"""


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("tries < min(mask + 1, 64u)", True),
        ("tries < 64", True),
        ("tries <= mask && tries < 64", True),
        ("tries < mask + 1", False),
    ],
)
def test_a_search_goes_as_far_as_it_is_told(limit: str, told: bool) -> None:
    before, after = (bounds_in(made(SOUGHT, LIMIT=how)) for how in ("tries <= mask", limit))
    assert bool(cut_short(before, after)) is told
