# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.collect import metrics as names


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1.5, "usecond", (1500.0, "ns")),
        (1.5, "us", (1500.0, "ns")),
        (2.0, "msecond", (2e6, "ns")),
        (3.4, "Tbyte/second", (3.4e12, "byte/s")),
        (3.4, "Gbyte/s", (3.4e9, "byte/s")),
        (1.98, "cycle/nsecond", (1.98e9, "hz")),
        (1.98, "Ghz", (1.98e9, "hz")),
        (1.02, "Kbyte/block", (1020.0, "byte/block")),
        (5.0, "inst", (5.0, "inst")),
        (70.0, "%", (70.0, "%")),
        (16.0, "register/thread", (16.0, "register/thread")),
    ],
)
def test_units(value: float, unit: str, expected: tuple[float, str]) -> None:
    amount, name = names.to_base(value, unit)
    assert amount == pytest.approx(expected[0])
    assert name == expected[1]


def test_every_need_is_made_of_metric_names() -> None:
    for wanted in names.NEEDS.values():
        assert all("_" in name and "," not in name for name in wanted)
        assert len(set(wanted)) == len(wanted)


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        ("stall_long_sb", "long_scoreboard"),
        ("stall_lg", "lg_throttle"),
        ("no_instruction", "no_instructions"),
        ("gmma", "warpgroup_arrive"),
        ("wait", "wait"),
    ],
)
def test_stall_reasons_have_one_name(spelling: str, reason: str) -> None:
    assert names.stall_name(spelling) == reason
    assert reason in names.STALL_REASONS


def test_stall_shares_leave_out_warps_that_issue() -> None:
    shares = names.stall_shares(
        {
            "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": 1.0,
            "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": 3.0,
            "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": 1.0,
        }
    )
    assert shares == {"barrier": 0.75, "wait": 0.25}


def test_tensor_operations_by_type() -> None:
    from warplens_tools.evidence import CounterEvidence

    counters = CounterEvidence(
        "ncu", "k", "", "9.0", (1, 1, 1), (32, 1, 1),
        {
            "sm__ops_path_tensor_src_bf16_dst_fp32.sum": 8e9,
            "sm__ops_path_tensor_src_fp8_sparsity_off.sum": 4e9,
            "sm__ops_path_tensor_src_fp64.sum": 0.0,
        },
    )  # fmt: skip
    assert names.tensor_operations(counters) == {"bf16": 8e9, "fp8": 4e9}


@given(st.floats(0, 1e12), st.text(max_size=12))
def test_unknown_units_are_survived(value: float, unit: str) -> None:
    amount, _ = names.to_base(value, unit)
    assert amount >= 0
