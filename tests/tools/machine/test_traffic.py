# SPDX-License-Identifier: Apache-2.0
"""What a warp's pass moves, from SASS joined with the source's addresses."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import COPY, view_of

from warplens_tools.machine.traffic import l1_bytes


def test_a_coalesced_copy_moves_each_byte_once() -> None:
    moved = view_of().traffic.moved()
    assert (moved.lower, moved.upper, moved.known) == (256.0, 256.0, True)
    assert moved.l2 == 256.0


def test_a_strided_read_moves_whole_sectors_unless_it_counts_as_coalesced() -> None:
    view = view_of(COPY.replace("a[i]", "a[i * 8]"))
    (read,) = [w for w in view.warp_accesses if w.access.reads]
    assert read.sectors == 32
    assert view.traffic.moved().lower > 1024.0
    assert view.traffic.moved(ideal=[read.access.span]).lower == 256.0


def test_what_the_source_does_not_tell_counts_in_the_upper_figure_alone() -> None:
    view = view_of("__device__ int g(int); " + COPY.replace("a[i]", "a[g(i)]"))
    moved = view.traffic.moved()
    assert not moved.known
    assert moved.lower < moved.upper
    assert view.traffic.pessimistic_cycles["dram"] > view.traffic.cycles()["dram"]


def test_clocks_are_bytes_over_an_sms_share_of_the_roof() -> None:
    view = view_of()
    assert view.traffic.cycles()["dram"] == pytest.approx(256.0 / view.gpu.dram_bytes_per_clock)
    assert view.traffic.cycles([0.0] * 4)["dram"] == 0.0
    assert view.traffic.compulsory_shares == (None, 1.0, 1.0, None)


def test_shared_memory_takes_from_the_l1() -> None:
    small, large = view_of(), view_of(shared_bytes=16384)
    assert l1_bytes(small, 4) - l1_bytes(large, 4) == 4 * 16384
    assert small.traffic.l1_misses >= 0.0


def test_a_lane_that_walks_through_sectors_comes_to_a_new_one_once_in_eight() -> None:
    source = """\
__global__ void k(const float *a, float *o, int n)
{
    for (int i = 0; i < n; i++)
        o[i * 64] = a[i];
}
void f(const float *a, float *o) { k<<<1, 1>>>(a, o, 4096); }
"""
    listing = ".L:\nLDG.E R4, desc[UR4][R2.64]\nSTG.E desc[UR4][R6.64], R4\n@P0 BRA `(.L)\nEXIT"
    traffic = view_of(source, listing, (4, 4, 3, 5)).traffic
    assert traffic.compulsory_shares[:2] == (1.0, 1.0)
    assert traffic.fresh_shares[:2] == (0.125, 1.0)
    assert view_of().traffic.fresh_shares == view_of().traffic.compulsory_shares
