# SPDX-License-Identifier: Apache-2.0
"""Launches in host loops, and how long one lasts."""

from __future__ import annotations

import msgspec
from tests.tools.machine.kernels import COPY, view_of

from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.evidence import LaunchTiming

LOOP = COPY.replace("{ k<<<1024", "{ for (int s = 0; s < 1000; ++s) k<<<1").replace("262144); }", "256); }")


def test_a_short_kernel_in_a_loop_is_bound_by_its_launches() -> None:
    launching = view_of(LOOP).launching
    assert launching.repeated is not None
    assert launching.duration is not None
    assert SHORTEST_KERNEL_NS <= launching.duration < launching.costs.launch_ns
    assert "launching it costs" in launching.bounds


def test_a_few_iterations_do_not_count_and_a_measured_duration_does() -> None:
    assert view_of(LOOP.replace("1000", "4")).launching.repeated is None
    assert view_of(COPY).launching.repeated is None
    view = view_of(LOOP)
    timing = LaunchTiming("CUPTI", 1, (1, 1, 1), (256, 1, 1), 0, 50_000.0, 49_000.0, 51_000.0)
    slow = msgspec.structs.replace(view, evidence=msgspec.structs.replace(view.evidence, timing=timing))
    assert slow.launching.duration == 50_000.0
    assert slow.launching.duration_origin == ("timing", "CUPTI")
    assert slow.launching.bounds == ""
