# SPDX-License-Identifier: Apache-2.0
"""What a winner's fresh processes and its comparison on all inputs come to together."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens.measure.confirm import _joined
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.gate import verdict_of
from warplens.measure.kernel.visits import VisitResult
from warplens_tools.arch.load import load_architecture
from warplens_tools.evidence import Resources
from warplens_tools.run.probe.records import BaselineRecord, Opened, ResultRecord, read_records


def _heard() -> VisitResult:
    records = read_records(Path(__file__).parent / "recorded" / "affine-visit.jsonl")
    opened = next(r for r in records if isinstance(r, Opened))
    baseline = next(r for r in records if isinstance(r, BaselineRecord))
    slow = next(r for r in records if isinstance(r, ResultRecord) and r.candidate == "slow")
    return VisitResult(slow, baseline, opened)


def test_results_are_as_they_compared_on_all_inputs_and_times_as_fresh_processes_took() -> None:
    fresh = _heard()
    assert fresh.result.bitwise
    baseline = msgspec.structs.replace(fresh.baseline, cases=(*fresh.baseline.cases, "one more"))
    result = msgspec.structs.replace(fresh.result, bitwise=False, lowered=True, error_ratio=0.5, timings=())
    joined = _joined([fresh, fresh], VisitResult(result, baseline, fresh.opened))
    verdict = verdict_of(
        joined,
        gpu=load_architecture("sm_90"),
        settings=MeasureSettings(resamples=200),
        resources=Resources(32),
        baseline_resources=Resources(40),
    )
    values = {o.metric: o.value for o in verdict.evidence}
    assert values["results equal"] == "within a lower precision"
    assert str(values["input sets compared"]).endswith("one more")
    assert "of a lower precision" in verdict.reason
    assert verdict.error_ratio == 0.5
    assert verdict.timings[0].rounds == 2 * len(fresh.result.timings[0].candidate)
