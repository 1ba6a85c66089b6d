# SPDX-License-Identifier: Apache-2.0
"""What a winner's fresh processes and its comparison on all inputs come to together."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens.measure.fresh import heard_together, not_compared
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
    joined = heard_together([fresh, fresh], VisitResult(result, baseline, fresh.opened))
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


def test_what_any_process_compared_is_in_the_proof_and_not_among_what_is_unknown() -> None:
    fresh = _heard()

    def with_cases(*cases: str, skipped: tuple[str, ...] = (), ratio: float | None = 0.0) -> VisitResult:
        baseline = msgspec.structs.replace(fresh.baseline, cases=cases, skipped=skipped)
        result = msgspec.structs.replace(fresh.result, error_ratio=ratio)
        return msgspec.structs.replace(fresh, baseline=baseline, result=result)

    first, second = with_cases("own", "negated", ratio=0.75), with_cases("own", "spikes")
    compared = with_cases("own", "noise", skipped=("negated", "ties"), ratio=0.25)
    joined = heard_together([first, second], compared)
    assert joined.baseline.cases == ("own", "noise", "negated", "spikes")
    assert joined.result.error_ratio == 0.75
    (unknown,) = not_compared(compared, [first, second])
    assert unknown.why == "1 sets: ties"
    assert heard_together([with_cases("own", ratio=None)], compared).result.error_ratio is None
