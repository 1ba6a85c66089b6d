# SPDX-License-Identifier: Apache-2.0
"""What whole warps gain is what there are warps for: few of them last as long as one."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import view_of

from warplens_tools.micro.partial_warps import PartialWarps

#: A chain of results, in blocks of four.
CHAIN = """\
__global__ void k(float *a, int n)
{
    for (int i = 0; i < n; i++)
        a[threadIdx.x] = a[threadIdx.x] * 2.0f;
}
"""
LISTING = ".L:\n" + "FFMA R0, R0, R1, R2\n" * 8 + "@P0 BRA `(.L)\nEXIT"


def gained(launch: str) -> float:
    """Expected of blocks of 32 threads instead of four."""
    host = f"void f(float *a) {{ {launch} }}\n" if launch else ""
    view = view_of(CHAIN + host, LISTING, (4,) * 8 + (3, 5))
    return PartialWarps(view)._gain(8.0).estimate


def test_as_much_as_lanes_were_idle_where_warps_fill_the_card() -> None:
    assert gained("k<<<1 << 20, 4>>>(a, 9);") == pytest.approx(8.0, rel=0.05)
    assert gained("") == pytest.approx(8.0)


def test_nothing_where_each_scheduler_has_a_warp_at_most() -> None:
    assert gained("k<<<264, 4>>>(a, 9);") == pytest.approx(1.0)


def test_more_the_more_warps_there_are() -> None:
    some, more = gained("k<<<132 * 16, 4>>>(a, 9);"), gained("k<<<132 * 64, 4>>>(a, 9);")
    assert 1.0 <= some < more <= 8.0


def test_what_waits_for_a_counter_weighs_its_share() -> None:
    """A block of work once in 64 steps neither fills the pipes nor holds up the warp at each of them."""
    steps = ".L:\nIADD3 R5, R5, 0x1, RZ\nISETP.NE.AND P1, PT, R5, {}, PT\n@P1 BRA `(.M)\n"
    listing = steps + "FFMA R0, R0, R1, R2\n" * 64 + ".M:\n@P0 BRA `(.L)\nEXIT"
    lines = (4,) * 67 + (3, 5)
    seldom, always = (view_of(CHAIN, listing.format(at), lines) for at in ("0x40", "R9"))
    alone = [v.waiting.single_warp_cycles for v in (seldom, always)]
    assert alone[0] < alone[1] / 8
    assert seldom.sass.cycles["issue"] < always.sass.cycles["issue"] / 8
