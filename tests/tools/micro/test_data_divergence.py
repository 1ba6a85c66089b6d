# SPDX-License-Identifier: Apache-2.0
"""A branch on loaded data is information; counters of sleeping lanes make it a warning, of whole warps withdraw it."""

from __future__ import annotations

import msgspec
import pytest
from tests.tools.micro.judging import said_of, view_of

from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence
from warplens_tools.micro import warp_divergence


@pytest.mark.parametrize(("awake", "severity"), [(12.0, "warning"), (26.0, "information"), (31.0, None)])
def test_lanes_awake_decide_what_data_left_open(awake: float, severity: str | None) -> None:
    metrics = {names.THREADS_PER_INSTRUCTION: awake}
    counters = CounterEvidence("ncu 2025.3", "tr", "", "9.0", (1, 1, 1), (32, 1, 1), metrics)
    view = view_of("tr", counters=counters)
    doubted = msgspec.structs.replace(
        said_of(view, warp_divergence.WarpDivergence), severity="information", confidence="low"
    )
    found = warp_divergence.WarpDivergence(view).verify(doubted)
    assert (found.severity if found is not None else None) == severity
