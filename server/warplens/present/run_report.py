# SPDX-License-Identifier: Apache-2.0
"""A run as a Markdown report: the diff, its proof, the findings it answers, and what did not help."""

from __future__ import annotations

from collections.abc import Iterator

from warplens.agent.past import PastRun, PastVersion
from warplens.present.proof import timing_words


def run_report(past: PastRun) -> str:
    """The report; all of it can be read without Warplens."""
    run = past.run
    return "\n".join(
        [
            f"# {run.target.kernel} in {run.target.path}",
            "",
            f"Run {run.id}, {run.target.strategy}, seed {run.target.seed}, on {run.gpu or 'an unknown card'}: "
            f"{_outcome(past)}. {len(past.told)} versions were judged.",
            "",
            *_winner(past),
            *_did_not_help(past),
            "",
        ]
    )


def verdict_words(version: PastVersion) -> str:
    """A verdict in a few words."""
    if version.verdict is None:
        return "not judged"
    state = version.verdict.state.replace("_", " ")
    if version.speedup is not None:
        return f"{state}, {version.speedup:.3f}x"
    return f"{state}: {version.verdict.reason}" if version.verdict.reason else state


def steps_words(past: PastRun, version: PastVersion) -> list[str]:
    """The steps that lead to a version, the first first."""
    found: list[str] = []
    at: PastVersion | None = version
    while at is not None:
        found.append(at.move.title + (f" ({at.move.why})" if at.move.why else ""))
        at = past.versions.get(at.candidate.parent)
    return found[::-1]


def _outcome(past: PastRun) -> str:
    run = past.run
    if run.outcome == "faster" and run.speedup is not None:
        return f"{run.speedup:.2f}x as fast, confirmed"
    return {"nothing": "nothing faster was found", "": "not finished"}.get(run.outcome, run.outcome)


def _winner(past: PastRun) -> Iterator[str]:
    best = past.best
    if best is None:
        return
    confirmed = next((c for c in past.confirmations if c.verdict.candidate == best.candidate.id), None)
    yield "## The version" if confirmed is not None else "## The best version, not confirmed"
    yield ""
    yield from (f"{number}. {step}" for number, step in enumerate(steps_words(past, best), start=1))
    if best.candidate.answers:
        yield ""
        yield f"It answers {', '.join(best.candidate.answers)}."
    diff = past.diff(best)
    if diff:
        yield from ("", "```diff", diff.rstrip("\n"), "```")
    verdict = confirmed.verdict if confirmed is not None else best.verdict
    if verdict is not None:
        yield from ("", "## The proof" if confirmed is not None else "## Its verdict", "")
        yield from (f"- {timing_words(timing)}" for timing in verdict.timings)
        if verdict.error_ratio is not None:
            yield f"- largest difference of a result: {verdict.error_ratio:.2g} of its bound"
        if verdict.further is not None:
            yield from (f"- {sentence}" for sentence in verdict.further.sentences())
    yield ""


def _did_not_help(past: PastRun) -> Iterator[str]:
    best = past.best
    rest = [v for v in past.told if v is not best and (v.verdict is None or v.verdict.state != "faster")]
    if not rest:
        return
    yield from ("## Tried, and did not help", "", "| Step | On | Verdict |", "| --- | --- | --- |")
    for version in rest:
        cells = (version.move.title, version.candidate.parent, verdict_words(version))
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
