# SPDX-License-Identifier: Apache-2.0
"""What was measured of a kernel tells which steps have no room."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warplens.agent.priors import busy_shares, masked
from warplens_tools.collect import metrics
from warplens_tools.collect.ncu_csv import require_csv
from warplens_tools.collect.profiled import counter_evidence
from warplens_tools.rewrite import float_literals, restrict_const

RAW = Path(__file__).parents[2] / "data/reports/saxpy_transpose.raw.csv"


def test_a_recorded_kernel_says_how_busy_each_resource_was() -> None:
    launch = next(x for x in require_csv(RAW.read_text("utf-8"), name="raw") if "saxpy" in x.kernel)
    busy = busy_shares(counter_evidence(launch, launches=1))
    assert set(busy) == {"dram", "l2", "sm"}
    assert all(0 < share <= 1 for share in busy.values())
    assert busy["sm"] == min(busy.values()), "a copy kernel waits on memory"


def test_what_warplens_collects_itself_is_enough() -> None:
    launch = next(x for x in require_csv(RAW.read_text("utf-8"), name="raw") if "saxpy" in x.kernel)
    counters = counter_evidence(launch, launches=1)
    asked = {name for need in metrics.NEEDS.values() for name in need}
    own = {name: amount for name, amount in counters.metrics.items() if name in asked}
    found = busy_shares(msgspec.structs.replace(counters, metrics=own))
    assert found["dram"] == pytest.approx(busy_shares(counters)["dram"])


def test_counters_that_were_not_read_mask_nothing() -> None:
    assert busy_shares(None) == {}
    assert not masked(float_literals.REWRITE.useless_at, {})
    assert masked(float_literals.REWRITE.useless_at, {"dram": 0.95})
    assert not masked(restrict_const.REWRITE.useless_at, {"dram": 0.95})
