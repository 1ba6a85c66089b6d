# SPDX-License-Identifier: Apache-2.0
"""Local accesses and what their removal is worth."""

from __future__ import annotations

from tests.tools.machine.kernels import COPY, view_of

from warplens_tools.machine.local_memory import local_gain

SPILLS = ".L:\nLDL R4, [R1+0x8]\nFADD R4, R4, R5\nSTL [R1+0x8], R4\n@P0 BRA `(.L)\nEXIT"


def test_spills_of_a_large_frame_go_through_the_l2() -> None:
    small, large = (view_of(COPY, SPILLS, (4,) * 5, stack_bytes=n) for n in (64, 4096))
    gains = [local_gain(v, [0, 2], v.traffic.cycles()) for v in (small, large)]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[1].estimate > gains[0].estimate >= 1.0
    assert local_gain(small, [], {}) is None


def test_words_that_each_lane_chooses_cost_more_than_those_side_by_side() -> None:
    chosen = SPILLS.replace("[R1+0x8]", "[R9]").replace(".L:", "S2R R9, SR_TID.X\n.L:")
    together = view_of(COPY, SPILLS, (4,) * 5, stack_bytes=256)
    apart = view_of(COPY, chosen, (4,) * 6, stack_bytes=256)
    one, other = local_gain(together, [0, 2], {}), local_gain(apart, [1, 3], {})
    assert one is not None
    assert other is not None
    assert other.estimate > one.estimate
