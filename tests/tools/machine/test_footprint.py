# SPDX-License-Identifier: Apache-2.0
"""Sectors that lanes touch, and the bytes that are wanted of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.machine.footprint import filled_sectors, footprint, merged, stride_of


@pytest.mark.parametrize(
    ("stride", "sectors", "whole"), [(4, 4, 4), (8, 8, 0), (32, 32, 0), (0, 1, 0), (16, 16, 0)]
)
def test_floats_at_a_stride(stride: int, sectors: int, whole: int) -> None:
    found = footprint([n * stride for n in range(32)], [(0, 4)])
    assert (len(found.sectors), found.whole) == (sectors, whole)
    assert found.wanted == (128 if stride else 4)


@given(st.lists(st.integers(0, 4096), min_size=1, max_size=32))
def test_what_is_wanted_lies_in_the_sectors(starts: list[int]) -> None:
    found = footprint(starts, [(0, 4), (8, 4)])
    assert found.wanted <= 32 * len(found.sectors)
    assert found.whole <= len(found.sectors)
    assert found.wanted == len({s + b for s in starts for b in (0, 1, 2, 3, 8, 9, 10, 11)})


def test_ranges_across_a_border_fill_two_sectors() -> None:
    assert filled_sectors([(30, 34)], 32) == {0: 2, 1: 2}
    assert merged([[(0, 4)], [(4, 4), (0, 4)]]) == ((0, 4), (4, 4))
    assert stride_of([0, 4, 8]) == 4
    assert stride_of([0, 4, 12]) is None
