# SPDX-License-Identifier: Apache-2.0
"""Places of the group of a lane's group are told from places of its own."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.group_numbers import is_of_group

BODY = """\
int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
const int p = part[i], q = part[i + n];
const int w = whole[p], v = whole[q];
int twice = whole[p];
twice = i;
"""


@pytest.mark.parametrize(
    ("place", "few"),
    [
        ("&o[w]", True),
        ("o + (y + n * w)", True),
        ("&o[whole[part[i]]]", True),
        ("&o[p]", False),  # of one table: most often an element of its own
        ("&o[w * n + v]", False),  # a pair of groups is most often the lane's own
        ("&o[w * n + i]", False),
        ("&o[twice]", False),
        ("&o[y]", False),
    ],
)
def test_a_place_is_of_a_group_where_one_chain_of_two_tables_leads_there(place: str, few: bool) -> None:
    assert is_of_group(BODY, place) == few
