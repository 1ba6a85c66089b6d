# SPDX-License-Identifier: Apache-2.0
"""What a search has paid for, written down as it is known, and read back into a new search."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens.agent.searcher import Searcher
from warplens.agent.versions import Ask, Node, speedup_of
from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.verdict import Verdict
from warplens.store.database import transaction
from warplens.store.rates import SubjectKind, Trial, record_within
from warplens.store.runs import append_step, append_within, read_steps
from warplens_tools.decode import from_json


class Journal:
    """One run's journal. Every method returns only when the step is on disk."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        run: int,
        *,
        arch: str = "",
        features: Mapping[str, float] | None = None,
    ) -> None:
        self._connection = connection
        self.run = run
        self._arch, self._features = arch, dict(features or {})

    def began(self, baseline: Baseline, text: str) -> None:
        """The baseline, a file of that text, was measured."""
        payload = _json({**msgspec.to_builtins(baseline), "text": text})
        append_step(self._connection, self.run, "baseline", payload)

    def asked(self, asks: Sequence[Ask]) -> None:
        """Candidates were handed out."""
        with transaction(self._connection):
            for ask in asks:
                append_within(self._connection, self.run, "ask", _json(ask), candidate=ask.candidate.id)

    def told(self, node: Node, verdict: Verdict) -> None:
        """A verdict is known; the rule and the findings behind the step are credited or not."""
        with transaction(self._connection):
            append_within(self._connection, self.run, "tell", _json(verdict), candidate=verdict.candidate)
            record_within(self._connection, self.run, trials(node, verdict, self._arch, self._features))

    def confirmed(self, confirmation: Confirmation) -> None:
        """A winner was measured again."""
        verdict = confirmation.verdict
        append_step(self._connection, self.run, "confirm", _json(confirmation), candidate=verdict.candidate)

    def replay(self, searcher: Searcher) -> int:
        """Bring a new search to where the journal ends; how many verdicts that saved."""
        told = 0
        for step in read_steps(self._connection, self.run):
            if step.kind == "ask":
                searcher.restore(from_json(step.payload, Ask))
            elif step.kind == "tell":
                searcher.tell(step.candidate, from_json(step.payload, Verdict))
                told += 1
        return told


def trials(
    node: Node, verdict: Verdict, arch: str = "", features: Mapping[str, float] | None = None
) -> Iterator[Trial]:
    """A verdict as a test of the one step that led to it, against the version the step began from."""
    parent, move = node.parent, node.ask.move
    if parent is None or parent.speedup is None or not move.rule:
        return
    own = speedup_of(verdict)
    measured = own / parent.speedup if own is not None else None
    noise = max((timing.noise for timing in verdict.timings), default=0.0)
    hit = measured is not None and measured > 1.0 + noise
    subjects: list[tuple[SubjectKind, str]] = [("rule", move.rule), *(("tool", c) for c in move.answers)]
    for kind, subject in subjects:
        yield Trial(kind, subject, verdict.state, move.gain, measured, hit, arch, features or {})


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
