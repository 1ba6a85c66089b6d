# SPDX-License-Identifier: Apache-2.0
"""Neighbouring accesses of one thread, each by an instruction of its own."""

from __future__ import annotations

import pytest

from warplens_tools.sass.adjacent import Run, _chains


def test_what_follows_one_another_is_one_chain_and_a_gap_begins_another() -> None:
    # four bytes each, at 0, 4, 8, then at 20 and 24, in any order of instructions
    group = {8: 2, 0: 5, 4: 1, 24: 9, 20: 7}
    assert list(_chains(group, 4)) == [[5, 1, 2], [7, 9]]
    assert list(_chains({}, 4)) == []


@pytest.mark.parametrize(
    ("count", "width", "vector", "spared"),
    [(4, 4, 16, (1, 2, 3)), (5, 4, 8, (1, 3)), (8, 1, 4, (1, 2, 3, 5, 6, 7)), (3, 4, 16, ())],
)
def test_a_vector_spares_all_but_its_first_access(
    count: int, width: int, vector: int, spared: tuple[int, ...]
) -> None:
    assert Run(tuple(range(count)), True, width, vector).spared == spared
