# SPDX-License-Identifier: Apache-2.0
"""A search's answer as an edit to offer, with its proof as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens.agent.result import Offer as Unproven
from warplens.agent.result import OptimizeResult, Proof, Tried
from warplens.lsp.markdown import flat, table, unknown_list
from warplens.lsp.proposals import Offer
from warplens.measure.verdict import SPANS, Conditions, Interval, State, Timing
from warplens_tools.errors import MissingToolError
from warplens_tools.finding import Fix


def offer_of(result: OptimizeResult) -> Offer:
    """What a search comes to; no edits where nothing faster was found.

    Raises:
        MissingToolError: nothing could be measured, and there is no edit to offer.
    """
    if result.outcome == "unproven":
        return _unproven(result)
    if result.proof is None:
        return Offer(result.kernel, _nothing(result), "same", (), _page(result))
    return Offer(result.kernel, _gain(result.kernel, result.proof), "faster", result.edits, _page(result))


def offer_of_fix(result: OptimizeResult, fix: Fix) -> Offer:
    """What judging one fix comes to: the fix itself, whatever the verdict."""
    if result.proof is not None:
        return offer_of(result)
    state: State = result.tried[0].state if result.tried else "unproven"
    # Faster in one visit and not when measured again is not faster.
    state = "unproven" if state == "faster" else state
    title = f"{fix.title}: {state.replace('_', ' ')}"
    return Offer(result.kernel, title, state, fix.edits, _page(result))


def _unproven(result: OptimizeResult) -> Offer:
    if not result.offers:
        raise MissingToolError(result.reason, remedy=result.remedy)
    first = result.offers[0]
    why = f"**Unproven:** {result.reason.rstrip('.')}."
    remedy = f"To have it measured: {result.remedy}." if result.remedy else ""
    caveat = f"Results may change: {first.caveat}." if first.caveat else ""
    parts = [why, remedy, _expected(first), caveat, _others(result.offers[1:])]
    proof = "\n\n".join(part for part in parts if part)
    return Offer(first.kernel, f"{first.title} (unproven)", "unproven", first.edits, proof)


def _expected(offer: Unproven) -> str:
    if not offer.answers:
        return "No finding asks for it, so nothing is known of its gain."
    answers = f"It answers {', '.join(offer.answers)}."
    if not offer.promises:
        return f"{answers} The model sees no gain in it; a measurement may."
    return f"{answers} If it works, about {offer.gain:.2f}× is expected."


def _others(offers: Sequence[Unproven]) -> str:
    gains = [f": about {o.gain:.2f}× if it works" if o.promises else "" for o in offers]
    lines = [f"- {o.title} ({o.kernel}){gain}" for o, gain in zip(offers, gains, strict=True)]
    return "Other edits that a measurement would try:\n\n" + "\n".join(lines) if lines else ""


def _gain(kernel: str, proof: Proof) -> str:
    timings = proof.verdict.timings
    if proof.verdict.outside is not None:
        kernel = f"{kernel}'s program, judged from outside"
    return f"{kernel}: {timings[0].speedup.median:.2f}× faster" if timings else f"{kernel}: faster"


def _nothing(result: OptimizeResult) -> str:
    name = f" for {result.kernel}" if result.kernel else ""
    return f"Nothing faster was found{name}: {result.reason}"


def _page(result: OptimizeResult) -> str:
    parts = [result.reason]
    if result.proof is not None:
        parts += _proof(result, result.proof)
    parts += [_conditions(result), _tried(result.tried), unknown_list(result.unknown)]
    return "\n\n".join(part for part in parts if part)


def _proof(result: OptimizeResult, proof: Proof) -> Iterator[str]:
    if proof.verdict.outside is not None:
        first, *more = proof.verdict.outside.sentences()
        yield f"**{first[0].upper()}{first[1:]}.**"
        yield "\n".join(f"- {flat(line)}" for line in more)
    further = proof.verdict.further.sentences() if proof.verdict.further is not None else ()
    lines = [*map(_timing, proof.verdict.timings), *map(flat, further)]
    yield "\n".join(f"- {line}" for line in lines)
    if result.baseline is not None and result.baseline.share is not None:
        yield f"The kernel takes {result.baseline.share:.0%} of the program's kernel time."
    if proof.program is not None:
        before, after = proof.program.baseline_seconds.median, proof.program.candidate_seconds.median
        yield f"Whole program: {before:.3f} s before, {after:.3f} s after, {_factor(proof.program.speedup)}."
    if proof.answers:
        yield f"It answers {', '.join(proof.answers)}."
    if proof.caveat:
        yield f"Results may change: {proof.caveat}."
    rows = [
        (change.metric, f"{change.before:g} {change.unit}".strip(), f"{change.after:g} {change.unit}".strip())
        for change in proof.changes
    ]
    yield table(("metric", "before", "after"), rows) if rows else ""


def _timing(timing: Timing) -> str:
    cache = "cache as the program leaves it" if timing.cache == "program" else "L2 flushed"
    return (
        f"{_time(timing.baseline_ns, timing)} before, {_time(timing.candidate_ns, timing)} after: "
        f"{_factor(timing.speedup)}; noise {timing.noise:.2%}, {timing.rounds} rounds, "
        f"{SPANS.get(timing.span, cache)}"
    )


def _time(of: Interval, timing: Timing) -> str:
    return f"{of.median / 1e3:.2f} µs" if timing.span == "launch" else f"{of.median / 1e6:.3f} ms"


def _factor(speedup: Interval) -> str:
    return f"{speedup.median:.3f}× (95 %: {speedup.low:.3f} to {speedup.high:.3f})"


def _conditions(result: OptimizeResult) -> str:
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


def _tried(tried: Sequence[Tried]) -> str:
    rows = [
        (
            flat(row.title),
            row.state.replace("_", " "),
            f"{row.speedup.median:.3f}×" if row.speedup is not None else flat(row.reason),
        )
        for row in tried
    ]
    return table(("tried", "verdict", "speedup, or why"), rows) if rows else ""
