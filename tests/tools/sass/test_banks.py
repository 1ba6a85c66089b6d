# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts from lane addresses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.arch.gpu import Limits
from warplens_tools.sass.banks import conflict_degree, warp_lanes, wavefronts

LIMITS = cast(Limits, SimpleNamespace(shared_banks=32, shared_bank_bytes=4))


@pytest.mark.parametrize(
    ("stride_words", "degree"),
    [(0, 1), (1, 1), (2, 2), (3, 1), (8, 8), (16, 16), (32, 32), (33, 1), (64, 32)],
)
def test_a_strided_word_access(stride_words: int, degree: int) -> None:
    addresses = [4 * stride_words * lane for lane in range(32)]
    assert conflict_degree(addresses, 4, LIMITS) == degree


def test_wide_accesses_are_served_in_halves_and_quarters() -> None:
    assert wavefronts([16 * lane for lane in range(32)], 16, LIMITS) == 4
    assert conflict_degree([16 * lane for lane in range(32)], 16, LIMITS) == 1.0
    assert conflict_degree([8 * lane for lane in range(32)], 8, LIMITS) == 1.0


def test_a_block_narrower_than_a_warp_spreads_a_warp_over_rows() -> None:
    lanes = warp_lanes((8, 8, 1))
    assert lanes[:9] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
        (3, 0, 0),
        (4, 0, 0),
        (5, 0, 0),
        (6, 0, 0),
        (7, 0, 0),
        (0, 1, 0),
    ]
    assert len(warp_lanes((16, 1, 1))) == 16


@given(st.lists(st.integers(0, 1 << 14).map(lambda word: 4 * word), min_size=1, max_size=32))
def test_degree_is_bounded_by_lanes_and_ignores_a_common_offset(addresses: list[int]) -> None:
    degree = conflict_degree(addresses, 4, LIMITS)
    assert 1 <= degree <= 32
    assert conflict_degree([a + 128 for a in addresses], 4, LIMITS) == degree
