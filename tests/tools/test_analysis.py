# SPDX-License-Identifier: Apache-2.0
"""Which tools run on a kernel, and how long a launch takes by each tier."""

from __future__ import annotations

import msgspec
import pytest

from warplens_tools.analysis import relevant_tools
from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence, KernelEvidence
from warplens_tools.finding import Bottleneck, BottleneckClass, Vote
from warplens_tools.kernel import KernelView
from warplens_tools.micro import low_ilp, misaligned_access, sfu_bound
from warplens_tools.testing import odd_evidence, views

KERNEL = "__global__ void k(float *a) { a[threadIdx.x] = 1; }"
TOOLS = (misaligned_access.MisalignedAccess, sfu_bound.SfuBound, low_ilp.LowIlp)


def viewed(analytic: BottleneckClass, measured: BottleneckClass | None) -> KernelView:
    """A compiled kernel with these votes; the measured one counts."""
    (view,) = views(KERNEL, evidence={"k": odd_evidence("k")})
    seen = None if measured is None else Vote(measured, "high", "it was so", ())
    told = Bottleneck(
        measured or analytic, "high", "so", analytic=Vote(analytic, "high", "so", ()), measured=seen
    )
    return msgspec.structs.replace(view, bottleneck=told)


@pytest.mark.parametrize(
    ("analytic", "measured", "run"),
    [
        ("compute", None, {"sfu-bound", "low-ilp"}),
        ("memory", None, {"misaligned-access", "low-ilp"}),
        ("compute", "latency", {"misaligned-access", "sfu-bound", "low-ilp"}),
        ("memory", "memory", {"misaligned-access", "low-ilp"}),
        ("memory", "mixed", {"misaligned-access", "sfu-bound", "low-ilp"}),
    ],
)
def test_the_tools_of_both_votes_run(
    analytic: BottleneckClass, measured: BottleneckClass | None, run: set[str]
) -> None:
    assert {tool.slug for tool in relevant_tools(viewed(analytic, measured), TOOLS)} == run


def test_a_counted_duration_is_that_of_a_launch_with_cold_caches() -> None:
    counters = CounterEvidence("ncu 2025.3", "k", "", "9.0", (1, 1, 1), (32, 1, 1), {names.DURATION: 5_000.0})
    (view,) = views(KERNEL, evidence={"k": KernelEvidence(counters=counters)})
    assert view.launching.duration == 5_000.0 - view.gpu.costs.cold_ns
    assert view.launching.duration_origin[0] == "counters"
    short = msgspec.structs.replace(counters, metrics={names.DURATION: 1_000.0})
    (view,) = views(KERNEL, evidence={"k": KernelEvidence(counters=short)})
    assert view.launching.duration == SHORTEST_KERNEL_NS
