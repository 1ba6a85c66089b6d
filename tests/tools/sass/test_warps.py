# SPDX-License-Identifier: Apache-2.0
"""What a launch fixes for the lanes of a warp."""

from __future__ import annotations

import pytest

from warplens_tools.sass import lanes
from warplens_tools.sass.warps import Launch, full_warps, launch_of


def threads(block: tuple[int, int, int] | None, warp: int | None = None) -> list[tuple[int, ...]]:
    launch = launch_of(block, "sm_90", warp)
    assert isinstance(launch, Launch), launch
    return [lanes.lanes_of(v, launch.lanes) for v in launch.threads]


def test_a_row_of_threads_runs_along_x() -> None:
    x, y, _ = threads((64, 4, 1), 2)
    assert (x[0], x[31], y[0], y[31]) == (0, 31, 1, 1)


def test_a_narrow_block_wraps_into_y() -> None:
    x, y, _ = threads((16, 16, 1), 0)
    assert (x[15], x[16], y[15], y[16]) == (15, 0, 0, 1)


def test_an_unknown_block_is_at_least_a_warp_wide() -> None:
    assert threads(None)[0] == tuple(range(32))


def test_odd_blocks_have_no_common_warp() -> None:
    assert "does not fall into equal warps" in str(launch_of((3, 5, 7), "sm_90"))


@pytest.mark.parametrize(("block", "count"), [((256, 1, 1), 8), ((7, 7, 1), 1), ((5, 1, 1), 1)])
def test_full_warps(block: tuple[int, int, int], count: int) -> None:
    assert full_warps(block) == count


@pytest.mark.parametrize(("arch", "place"), [("sm_90", 0), ("sm_100", 0x360)])
def test_the_words_of_the_launch_stand_where_the_architecture_has_them(arch: str, place: int) -> None:
    launch = launch_of((64, 2, 1), arch)
    assert isinstance(launch, Launch)
    assert [launch.constants[0, place + 4 * n].number for n in range(3)] == [64, 2, 1]
