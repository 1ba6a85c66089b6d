# SPDX-License-Identifier: Apache-2.0
"""From recorded visits on a card to verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.gate import of_equal_code, pooled, verdict_of
from warplens.measure.kernel.target import choose, shares
from warplens.measure.kernel.visits import VisitResult
from warplens.measure.verdict import State, Verdict
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import InputError
from warplens_tools.evidence import CompiledKernel, Resources
from warplens_tools.run.probe.records import (
    BaselineRecord,
    Begin,
    Opened,
    Record,
    ResultRecord,
    SurveyedShape,
    TimingRecord,
    read_records,
)

RECORDED = Path(__file__).parents[1] / "recorded"
GPU = load_architecture("sm_90")
SETTINGS = MeasureSettings(resamples=200)


def heard(name: str) -> dict[str, VisitResult]:
    records = read_records(RECORDED / f"{name}.jsonl")
    opened = next(r for r in records if isinstance(r, Opened))
    baseline = next(r for r in records if isinstance(r, BaselineRecord))
    return {r.candidate: VisitResult(r, baseline, opened) for r in records if isinstance(r, ResultRecord)}


def verdict(one: VisitResult) -> Verdict:
    return verdict_of(
        one, gpu=GPU, settings=SETTINGS, resources=Resources(32), baseline_resources=Resources(40)
    )


def test_recorded_verdicts() -> None:
    states = {name: verdict(h).state for name, h in heard("affine-visit").items()}
    assert states == {
        "stray": "wrong",
        "fma": "same",
        "slow": "slower",
        "skip": "wrong",
        "block": "illegal",
        "geometry": "same",
    }


def test_what_is_not_better_than_the_best_is_provisional_and_never_faster() -> None:
    ahead = TimingRecord("program", (1500.0, 1510.0), (1000.0, 1000.0), (1500.0, 1490.0), 1)
    one = heard("affine-visit")["fma"]
    result = msgspec.structs.replace(one.result, state="provisional", timings=(ahead,))
    said = verdict(msgspec.structs.replace(one, result=result, bar=2.0))
    assert said.state == "provisional" and said.timings[0].rounds == 2
    assert said.timings[0].speedup.median == pytest.approx(1.5)
    assert said.reason.endswith(
        "not enough above the best so far to beat 2.000×, so that it was not compared in full"
    )
    assert "in 2 rounds" in said.reason
    # a first look beside others may well be ahead of them
    first_look = verdict(msgspec.structs.replace(one, result=result, bar=0.0))
    assert first_look.state == "provisional"
    assert first_look.reason.endswith("a first look, in which it was not compared in full")
    # what it was compared on is all that is claimed
    sets = next(o.value for o in said.evidence if o.metric == "input sets compared")
    assert len(str(sets).split(", ")) <= 3
    untimed = msgspec.structs.replace(one, result=msgspec.structs.replace(result, timings=()))
    assert verdict(untimed).state == "unproven"


def test_a_hang_is_the_last_word_of_its_visit() -> None:
    records = read_records(RECORDED / "affine-visit-hang.jsonl")
    assert isinstance(records[-2], Begin)
    judged = verdict(heard("affine-visit-hang")["hang"])
    assert (judged.state, judged.timings) == ("hung", ())


def test_a_verdict_carries_its_proof() -> None:
    judged = verdict(heard("affine-visit")["slow"])
    program, flushed = judged.timings
    assert (program.cache, flushed.cache) == ("program", "flushed")
    assert program.speedup.high < 1 - program.noise
    assert judged.resources == Resources(32)
    assert judged.error_ratio == 0.0
    assert {"build", "load", "compare", "time"} == set(judged.cost)
    assert "bitwise" in [o.value for o in judged.evidence]


def test_a_launch_reached_inside_a_graph_says_so() -> None:
    metric = "nodes of its graph run one by one before it"
    slow = heard("affine-visit")["slow"]
    assert metric not in [o.metric for o in verdict(slow).evidence]
    inside = verdict(change(slow, opened__graph_nodes=3))
    assert [o.value for o in inside.evidence if o.metric == metric] == [3.0]


def change(one: VisitResult, **changes: object) -> VisitResult:
    parts = {name: getattr(one, name) for name in ("result", "baseline", "opened")}
    for name, value in changes.items():
        part, field = name.split("__")
        parts[part] = msgspec.structs.replace(parts[part], **{field: value})
    return VisitResult(**parts)


def test_what_cannot_be_compared_is_unproven() -> None:
    right = heard("affine-visit")["geometry"]
    assert verdict(change(right, baseline__changed_bytes=0, baseline__pure_bytes=0)).state == "unproven"
    assert verdict(change(right, opened__opaque=("a surface",))).reason.startswith(
        "the program writes a surface"
    )
    assert verdict(change(right, result__timings=())).state == "unproven"
    assert verdict(change(right, baseline__blind=True)).reason.startswith("rounding alone may change")


def test_results_that_an_earlier_launch_left_the_same_were_compared_by_poison() -> None:
    right = heard("affine-visit")["geometry"]
    assert verdict(change(right, baseline__changed_bytes=0)).state == verdict(right).state


def test_faster_than_the_cache_takes_the_results_is_not_believed() -> None:
    right = heard("affine-visit")["geometry"]
    judged = verdict(change(right, baseline__changed_bytes=1 << 40))
    assert judged.state == "impossible"


@pytest.mark.parametrize(
    ("relative", "words"), [(5e-4, "as a lower precision"), (0.5, "is no rounding"), (None, "differ")]
)
def test_a_wrong_result_says_how_far_off_it_is(relative: float | None, words: str) -> None:
    wrong = heard("affine-visit")["skip"]
    changed = change(wrong, result__relative_error=relative, result__reason="results differ")
    assert words in verdict(changed).reason


def test_results_that_are_only_less_precise_are_said_to_be_so() -> None:
    wrong = heard("affine-visit")["skip"]
    words = "results are rounded more coarsely than the kernel's own in the memory of parameter 0 at byte 0"
    said = verdict(change(wrong, result__relative_error=3e-6, result__reason=words)).reason
    allowed = "which optimize.lower-precision would allow"
    assert said == f"{words}: a lower precision (relative error 3.0e-06), {allowed}"


def test_an_allowed_lower_precision_is_named_in_the_verdict() -> None:
    right = heard("affine-visit")["geometry"]
    lowered = verdict(
        change(right, result__lowered=True, result__bitwise=False, result__relative_error=1.5e-3)
    )
    assert lowered.state == verdict(right).state
    assert "of a lower precision, which is allowed here (relative error 1.5e-03)" in lowered.reason
    assert "within a lower precision" in {e.value for e in lowered.evidence}


@pytest.mark.parametrize(
    ("gains", "state"),
    [
        ({"program": 1.0, "flushed": 1.1, "varied": 1.0, "varied flushed": 1.1}, "faster"),
        ({"program": 1.0, "flushed": 1.1, "varied": 1.1, "varied flushed": 1.0}, "same"),
        ({"program": 1.1, "flushed": 1.0, "varied": 1.1, "varied flushed": 1.0}, "faster"),
        ({"program": 1.1, "flushed": 1.1, "varied": 1.0, "varied flushed": 1.1}, "same"),
        ({"program": 30.0, "varied": 14.0}, "faster"),
        ({"program": 30.0, "varied": 4.0}, "same"),
    ],
)
def test_a_gain_holds_on_other_inputs_in_the_cache_state_it_is_claimed_in(
    gains: dict[str, float], state: str
) -> None:
    right = heard("affine-visit")["geometry"]
    base = tuple(1e5 * (1 + 0.001 * (i % 7)) for i in range(30))
    timings = tuple(
        TimingRecord(cache, base, tuple(x / gain for x in base), base[::-1], 1)  # type: ignore[arg-type]
        for cache, gain in gains.items()
    )
    assert verdict(change(right, result__state="right", result__timings=timings)).state == state


@pytest.mark.parametrize(
    ("baseline", "candidate", "state"),
    [
        # less to do there, and twice as fast: what a launch takes is left
        (66_000.0, 30_000.0, "faster"),
        # less to do there, and hardly any gain
        (33_000.0, 30_000.0, "same"),
        # twice as fast, but slower than on the inputs that it may know
        (2_180_000.0, 1_090_000.0, "same"),
    ],
)
def test_a_large_gain_need_not_be_as_large_where_inputs_leave_less_to_do(
    baseline: float, candidate: float, state: str
) -> None:
    one = heard("affine-visit")["fma"]
    spread = tuple(1 + 0.001 * (i % 7) for i in range(30))

    def timing(cache: Literal["program", "varied"], slow: float, fast: float) -> TimingRecord:
        slows = tuple(slow * x for x in spread)
        return TimingRecord(cache, slows, tuple(fast * x for x in spread), slows[::-1], 1)

    timings = (timing("program", 2_180_000.0, 31_000.0), timing("varied", baseline, candidate))
    result = msgspec.structs.replace(one.result, timings=timings)
    assert verdict(msgspec.structs.replace(one, result=result)).state == state


def test_pooling_joins_rounds_by_cache_state() -> None:
    slow = heard("affine-visit")["slow"]
    program, flushed = pooled([slow, slow])
    assert len(program.candidate) == 2 * len(slow.result.timings[0].candidate)
    assert (program.cache, flushed.cache) == ("program", "flushed")


def surveyed(name: str) -> list[SurveyedShape]:
    records: list[Record] = read_records(RECORDED / f"{name}.jsonl")
    return [r for r in records if isinstance(r, SurveyedShape)]


def compiled(mangled: str, name: str) -> CompiledKernel:
    return CompiledKernel(mangled, f"{name}(float*)", name, "sm_90", Resources(16))


def test_the_launch_to_visit_is_chosen() -> None:
    shapes = surveyed("threads-survey")
    found = shares(shapes, {"scale"})
    assert {k.qualified_name: k.in_source for k in found} == {"busy": False, "scale": True}
    assert sum(k.share for k in found) == pytest.approx(1.0)
    units = [compiled("_Z5scalePfif", "scale"), compiled("_Z4busyPfi", "busy")]
    target = choose(shapes, found, units, "")
    assert (target.live, target.launches) == ("_Z5scalePfif", 200)
    assert choose(shapes, found, units, "busy").compiled.qualified_name == "busy"
    with pytest.raises(InputError, match="never launches other; it ran"):
        choose(shapes, found, units, "other")
    with pytest.raises(InputError, match="never launches any kernel of this file; it ran") as told:
        choose(shapes, shares(shapes, set()), units, "")
    assert "open the file that defines one of those" in told.value.remedy
    with pytest.raises(InputError, match="launches no kernel"):
        choose([], (), units, "")
    with pytest.raises(InputError, match="compiled by itself"):
        choose(shapes, found, [], "busy")
    graphs = [msgspec.structs.replace(s, launches=0, captured=3) for s in shapes]
    with pytest.raises(InputError, match=r"only into graphs, .*: no launched graph has it as a node"):
        choose(graphs, found, units, "busy")


def test_a_launch_in_a_graph_is_chosen_where_its_node_can_be_reached() -> None:
    obstacle = "a conditional node before it in its graph cannot be run by itself"
    shapes = [msgspec.structs.replace(s, launches=0, captured=3) for s in surveyed("threads-survey")]
    units = [compiled("_Z5scalePfif", "scale"), compiled("_Z4busyPfi", "busy")]
    reached = [msgspec.structs.replace(s, reachable=7) for s in shapes]
    target = choose(reached, shares(reached, {"scale"}), units, "scale")
    assert (target.shape.visitable, target.launches) == (7, 7)
    blocked = [msgspec.structs.replace(s, obstacle=obstacle) for s in shapes]
    with pytest.raises(InputError, match=obstacle):
        choose(blocked, shares(blocked, {"scale"}), units, "scale")


def test_unit_local_names_match_across_compilations() -> None:
    live = "_ZN49_GLOBAL__N__0a580c4d_20_anonymous_globals_cu_main6reduceEPKfPfi"
    shape = msgspec.structs.replace(surveyed("affine-survey")[0], mangled=live)
    name = "(anonymous namespace)::reduce"
    unit = compiled(live.replace("0a580c4d", "ffffffff"), name)
    assert choose([shape], shares([shape], {name}), [unit], "reduce").compiled == unit


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("wrong", "the kernel's own results differ from run to run, since this is its own machine code: odd"),
        ("hung", "the kernel itself does not always come back, since this is its own machine code: odd"),
    ],
)
def test_equal_machine_code_is_never_called_wrong(state: State, said: str) -> None:
    found = of_equal_code(Verdict("same", state, "odd"))
    assert (found.state, found.reason) == ("unproven", said)
    assert of_equal_code(Verdict("same", "faster", "1.02")).state == "faster"


def test_a_tick_of_the_clock_makes_a_short_kernel_neither_faster_nor_slower() -> None:
    one = heard("affine-visit")["fma"]
    # as an H200 timed a kernel of 1.1 us against itself, with its L2 flushed
    ticking = TimingRecord("flushed", (1088.0, 1120.0) * 30, (1088.0,) * 60, (1120.0,) * 60, checked=3)
    result = msgspec.structs.replace(one.result, timings=(ticking,))
    found = verdict(msgspec.structs.replace(one, result=result))
    assert found.state == "same" and found.timings[0].noise == pytest.approx(32 / 1088)
    by_events = msgspec.structs.replace(one.baseline, origin="CUDA events")
    found = verdict(msgspec.structs.replace(one, result=result, baseline=by_events))
    assert found.timings[0].noise == pytest.approx(500 / 1088)
