# SPDX-License-Identifier: Apache-2.0
"""From what was heard of a candidate to its verdict."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens.measure.costs import BUILD, COMPARE, LOAD, TIME
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.visits import VisitResult
from warplens.measure.timing import (
    CLOCKS,
    FEWEST_BEHIND,
    FEWEST_ROUNDS,
    change,
    measurable,
    overall,
    timing_of,
)
from warplens.measure.verdict import Conditions, State, Timing, Verdict
from warplens_tools.arch.gpu import Gpu
from warplens_tools.evidence import Observation, Resources
from warplens_tools.run.probe.records import TimingRecord

#: Relative error, of all results together, as a lower precision leaves it: from that of fp16 and tf32
#: averaged over a long sum (2^-15) to that of one rounding to bfloat16 (2^-9).
_LOWER_PRECISION = (2.0**-15, 2.0**-8)

#: Timings on other inputs than the program's, and the cache state that each shares with one on the program's own.
_VARIED = {"varied": "program", "varied flushed": "flushed"}
#: A gain on other inputs that is one by itself where these leave less to do. By judgement: what only knows its own
#: inputs gains nothing on others, or falls back to the kernel as it was.
_CLEAR_GAIN = 1.5
_SETTING = "optimize.lower-precision"
#: What the probe says of results within their bounds that are less precise than the baseline's.
_COARSE = "rounded more coarsely"


def verdict_of(
    heard: VisitResult,
    *,
    gpu: Gpu,
    settings: MeasureSettings,
    resources: Resources,
    baseline_resources: Resources,
    conditions: Conditions | None = None,
    build_seconds: float = 0.0,
) -> Verdict:
    """The verdict on a candidate that was visited once."""
    result = heard.result
    state, reason, timings = _judged(heard, gpu, settings)
    return Verdict(
        candidate=result.candidate,
        state=state,
        reason=reason,
        timings=timings,
        resources=resources,
        baseline_resources=baseline_resources,
        conditions=conditions,
        evidence=_evidence(heard, timings),
        error_ratio=_error_ratio(heard),
        cost={
            BUILD: build_seconds,
            **heard.shared,
            LOAD: result.load_seconds,
            COMPARE: result.right_seconds,
            TIME: result.timing_seconds,
        },
    )


def of_equal_code(found: Verdict) -> Verdict:
    """The verdict where machine code and launch are the kernel's own: whatever differs then, or does not end well, is
    its own doing."""
    if found.state not in ("wrong", "crashed", "hung"):
        return found
    what = {
        "wrong": "the kernel's own results differ from run to run",
        "crashed": "the kernel itself does not always end well",
        "hung": "the kernel itself does not always come back",
    }[found.state]
    return msgspec.structs.replace(
        found, state="unproven", reason=f"{what}, since this is its own machine code: {found.reason}"
    )


def _judged(heard: VisitResult, gpu: Gpu, settings: MeasureSettings) -> tuple[State, str, tuple[Timing, ...]]:
    result = heard.result
    if result.state == "provisional":
        return _provisional(heard, settings)
    if result.state != "right":
        return result.state, _with_precision(heard, settings), ()
    timed = [t for t in map(measurable, result.timings) if len(t.candidate) >= FEWEST_ROUNDS]
    timings = tuple(_timing(t, heard, settings) for t in timed if t.cache not in _VARIED)
    if not timings and not settings.assume_faster:
        return "unproven", "no launch of it could be timed", ()
    if heard.opened.opaque:
        return "unproven", f"the program writes {heard.opened.opaque[0]}, which is not compared", timings
    # A launch that repeats an earlier one changes nothing; its poisoned outputs were compared all the same.
    if heard.baseline.changed_bytes == 0 and heard.baseline.pure_bytes == 0:
        return "unproven", "the kernel changes no memory that could be compared", timings
    if heard.baseline.blind:
        return "unproven", "rounding alone may change the kernel's results by their own size", timings
    if settings.assume_faster:
        return "faster", "taken for faster, not timed", timings
    bound = least_ns(heard.baseline.changed_bytes, gpu)
    fastest = min(t.candidate_ns.median for t in timings)
    if fastest < bound:
        text = f"{fastest:.0f} ns for writing {heard.baseline.changed_bytes} bytes, which take {bound:.0f} ns"
        return "impossible", f"faster than the L2 cache takes its results: {text}", timings
    state, words = overall(timings, settings)
    alone = _on_own_alone(timed, timings, heard, settings) if state == "faster" else ""
    if alone:
        return "same", f"{alone}: {words}", timings
    return state, f"{words}{_lowered(heard)}", timings


def _provisional(heard: VisitResult, settings: MeasureSettings) -> tuple[State, str, tuple[Timing, ...]]:
    """Of a candidate that did not beat its bar, or is not looked at in full for another reason."""
    timed = [t for t in map(measurable, heard.result.timings) if len(t.candidate) >= FEWEST_BEHIND]
    timings = tuple(_timing(t, heard, settings) for t in timed)
    if not timings:
        return "unproven", "no launch of it could be timed", ()
    gain = timings[0].speedup
    words = f"{gain.median:.3f}× [{gain.low:.3f}, {gain.high:.3f}] in {timings[0].rounds} rounds"
    if gain.low > max(heard.bar, 1.0) + timings[0].noise:
        return "provisional", f"{words}: a first look, in which it was not compared in full", timings
    bar = (
        "faster than the original"
        if heard.bar <= 1
        else f"enough above the best so far to beat {heard.bar:.3f}×"
    )
    return "provisional", f"{words}, not {bar}, so that it was not compared in full", timings


def _on_own_alone(
    timed: Sequence[TimingRecord], timings: Sequence[Timing], heard: VisitResult, settings: MeasureSettings
) -> str:
    """How a gain is not there on other inputs than the program's, in the cache state in which it is claimed; "" where
    half of it is, in its logarithm and within the noise, or where they leave both less to do: much of a short launch no
    kernel can save. Of a large gain half in full would ask that input sets cost both versions the same."""
    claimed: dict[str, Timing] = {t.cache: t for t in timings if change(t, settings) == "faster"}
    for record in timed:
        own = claimed.get(_VARIED.get(record.cache, ""))
        if own is None:
            continue
        other = _timing(record, heard, settings)
        shorter = other.candidate_ns.median <= own.candidate_ns.median
        if shorter and other.speedup.low - other.noise >= _CLEAR_GAIN:
            continue
        if other.speedup.high + other.noise < own.speedup.low**0.5:
            gain = f"{other.speedup.median:.3f}× on inputs {record.inputs}"
            return f"faster on the program's own inputs, but {gain}, and a gain on one input alone is none"
    return ""


def _timing(record: TimingRecord, heard: VisitResult, settings: MeasureSettings) -> Timing:
    """One timing; how far the control is from the kernel that it is counts as noise beside the timing's own."""
    clock = CLOCKS.get(heard.baseline.origin, max(CLOCKS.values()))
    timing = timing_of(record, settings, clock)
    for other in map(measurable, heard.control.timings if heard.control is not None else ()):
        if other.cache == record.cache and len(other.candidate) >= FEWEST_ROUNDS:
            apart = timing_of(other, settings, clock).speedup
            distance = max(abs(apart.low - 1), abs(apart.high - 1))
            distance = max(distance, settings.child_noise if heard.children else 0.0)
            timing = msgspec.structs.replace(timing, noise=timing.noise + distance)
    return timing


def least_ns(changed_bytes: int, gpu: Gpu) -> float:
    """The least time in which results of that size can be stored: the L2 cache takes every one of them.

    Half the derived ceiling's time, which leaves room for clocks above the attribute's.
    """
    ceiling = gpu.ceilings.get("l2")
    return 0.0 if ceiling is None else 0.5e9 * changed_bytes / ceiling.value


def _with_precision(heard: VisitResult, settings: MeasureSettings) -> str:
    result = heard.result
    relative = result.relative_error
    if result.state != "wrong" or relative is None or result.nan or result.stray:
        return result.reason
    cure = "" if settings.lower_precision else f", which {_SETTING} would allow"
    if _COARSE in result.reason:
        return f"{result.reason}: a lower precision (relative error {relative:.1e}){cure}"
    low, high = _LOWER_PRECISION
    return f"{result.reason}; the relative error of {relative:.1e} " + (
        f"is as a lower precision leaves it{cure}" if low < relative < high else "is no rounding"
    )


def _lowered(heard: VisitResult) -> str:
    if not heard.result.lowered:
        return ""
    return f"; of a lower precision, which is allowed here (relative error {heard.result.relative_error or 0:.1e})"


def _error_ratio(heard: VisitResult) -> float | None:
    result = heard.result
    compared = result.state in ("right", "wrong", "unproven")
    return result.error_ratio if compared else None


def _evidence(heard: VisitResult, timings: Sequence[Timing]) -> tuple[Observation, ...]:
    def seen(metric: str, value: float | str, unit: str = "") -> Observation:
        return Observation("timing", heard.baseline.origin, metric, value, unit)

    found = []
    for timing in timings:
        found += [
            seen(f"baseline duration, {timing.cache}", timing.baseline_ns.median, "ns"),
            seen(f"candidate duration, {timing.cache}", timing.candidate_ns.median, "ns"),
        ]
    if heard.opened.graph_nodes:
        found.append(seen("nodes of its graph run one by one before it", float(heard.opened.graph_nodes)))
    if heard.result.state in ("right", "provisional"):
        lowered = "within a lower precision" if heard.result.lowered else "within rounding"
        same = "bitwise" if heard.result.bitwise else lowered
        found.append(seen("results equal", same))
        found.append(seen("input sets compared", ", ".join(heard.compared)))
        found.append(seen("timed launches compared", float(sum(t.checked for t in heard.result.timings))))
    return tuple(found)


def pooled(heards: Sequence[VisitResult]) -> tuple[TimingRecord, ...]:
    """Timings of several visits as one, by cache state."""
    states = [t.cache for t in heards[0].result.timings]
    joined = []
    for cache in states:
        parts = [t for h in heards for t in h.result.timings if t.cache == cache]
        joined.append(
            TimingRecord(
                cache=cache,
                baseline=tuple(x for p in parts for x in p.baseline),
                candidate=tuple(x for p in parts for x in p.candidate),
                again=tuple(x for p in parts for x in p.again),
                checked=sum(p.checked for p in parts),
                inputs=", ".join(dict.fromkeys(p.inputs for p in parts)),
            )
        )
    return tuple(joined)
