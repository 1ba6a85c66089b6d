# SPDX-License-Identifier: Apache-2.0
"""The proof of a faster version in words: what was compared, times, what changed, under which conditions."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from warplens.agent.result import Offer, OptimizeResult, Proof
from warplens.measure.verdict import SPANS, Conditions, Interval, Timing
from warplens.present.words import gain

#: What a verdict means, for whoever doubts it.
_MEANING = "https://github.com/warplens/warplens/blob/main/docs/judge.md"


class ProofWords(msgspec.Struct, frozen=True):
    """The parts of a proof, each in sentences; a front end lays them out."""

    #: Empty unless the program was judged from outside: first that it was, then what that leaves open.
    outside: tuple[str, ...]
    timings: tuple[str, ...]
    #: What follows for the program, which findings it answers, and what may change; each ends with a full stop.
    facts: tuple[str, ...]
    #: Metric, before, after; those that changed.
    changes: tuple[tuple[str, str, str], ...]


def proof_words(result: OptimizeResult, proof: Proof) -> ProofWords:
    """A proof in words."""
    verdict = proof.verdict
    further = verdict.further.sentences() if verdict.further is not None else ()
    return ProofWords(
        outside=tuple(verdict.outside.sentences()) if verdict.outside is not None else (),
        timings=(*map(timing_words, verdict.timings), *further),
        facts=tuple(_facts(result, proof)),
        changes=tuple(
            (change.metric, _with_unit(change.before, change.unit), _with_unit(change.after, change.unit))
            for change in proof.changes
            if change.before != change.after
        ),
    )


def _facts(result: OptimizeResult, proof: Proof) -> Iterator[str]:
    if result.baseline is not None and result.baseline.share is not None:
        yield f"The kernel takes {result.baseline.share:.0%} of the program's kernel time."
    if proof.program is not None:
        before, after = proof.program.baseline_seconds.median, proof.program.candidate_seconds.median
        yield f"Whole program: {before:.3f} s before, {after:.3f} s after, {factor(proof.program.speedup)}."
        if proof.program.energy is not None:
            yield proof.program.energy.words()
    if proof.answers:
        yield f"It answers {', '.join(proof.answers)}."
    if proof.caveat:
        yield f"Results may change: {proof.caveat}."
    yield f"What was compared, and what is not: {_MEANING}"


def timing_words(timing: Timing) -> str:
    """ "42.00 µs before, 30.00 µs after: 1.400× (95 %: 1.390 to 1.410); noise 0.40%, 40 rounds, L2 flushed"."""
    cache = "cache as the program leaves it" if timing.cache == "program" else "L2 flushed"
    return (
        f"{_time(timing.baseline_ns, timing)} before, {_time(timing.candidate_ns, timing)} after: "
        f"{factor(timing.speedup)}; noise {timing.noise:.2%}, {timing.rounds} rounds, "
        f"{SPANS.get(timing.span, cache)}"
    )


def factor(speedup: Interval) -> str:
    """A measured speedup with its interval."""
    return f"{speedup.median:.3f}× (95 %: {speedup.low:.3f} to {speedup.high:.3f})"


def conditions_words(result: OptimizeResult) -> str:
    """On which card, with which driver, at which clocks; "" where nothing was measured."""
    conditions: Conditions | None = (
        result.proof.verdict.conditions if result.proof else None
    ) or result.conditions
    if conditions is None:
        return ""
    clocks = [
        f"{name} {value:.0f} MHz"
        for name, value in (("SM", conditions.sm_clock_mhz), ("memory", conditions.memory_clock_mhz))
        if value is not None
    ]
    throttled = [f"throttled: {', '.join(conditions.throttling)}"] if conditions.throttling else []
    parts = [conditions.gpu, f"driver {conditions.driver}", f"CUDA {conditions.cuda}", *clocks, *throttled]
    return f"Measured on {', '.join(parts)}."


def expected_words(offer: Offer) -> str:
    """What is known of an unproven edit: which findings ask for it, and the gain if it works."""
    if not offer.answers:
        return "No finding asks for it, so nothing is known of its gain."
    answers = f"It answers {', '.join(offer.answers)}."
    if offer.expected is None or not offer.promises:
        return f"{answers} The model sees no gain in it; a measurement may."
    return f"It answers {', '.join(offer.answers)}: {gain(offer.expected)} if it works."


def _with_unit(value: float, unit: str) -> str:
    return f"{value:g} {unit}".strip()


def _time(of: Interval, timing: Timing) -> str:
    return f"{of.median / 1e3:.2f} µs" if timing.span == "launch" else f"{of.median / 1e6:.3f} ms"
