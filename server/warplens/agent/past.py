# SPDX-License-Identifier: Apache-2.0
"""A run as its journal tells it: what was tried on what, why, and what came of it. Needs no file and no card."""

from __future__ import annotations

import json
import sqlite3

import msgspec

from warplens.agent.moves import Move, subject
from warplens.agent.versions import ROOT, Ask, speedup_of
from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens.store.runs import Run, read_run, read_steps
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText, unified_diff


class PastVersion(msgspec.Struct):
    """One version of the run."""

    ask: Ask
    #: The changes that make it up, by subject.
    state: dict[str, str]
    depth: int
    verdict: Verdict | None = None
    #: When its verdict was known, in seconds since the run began.
    at: float = 0.0

    @property
    def candidate(self) -> Candidate:
        """What was judged."""
        return self.ask.candidate

    @property
    def move(self) -> Move:
        """The step that made it."""
        return self.ask.move

    @property
    def speedup(self) -> float | None:
        """Over the user's version; None where it failed or was not judged."""
        return speedup_of(self.verdict) if self.verdict is not None else None


class PastRun(msgspec.Struct):
    """One run. `text` is what it began with, "" for runs of before that was kept."""

    run: Run
    text: str = ""
    baseline: Baseline | None = None
    versions: dict[str, PastVersion] = {}
    confirmations: list[Confirmation] = []

    @property
    def told(self) -> list[PastVersion]:
        """Versions with a verdict, in the order of their verdicts."""
        return sorted((v for v in self.versions.values() if v.verdict is not None), key=lambda v: v.at)

    @property
    def best(self) -> PastVersion | None:
        """The confirmed version; else the fastest that was judged faster."""
        for again in self.confirmations:
            if again.verdict.state == "faster" and again.verdict.candidate in self.versions:
                return self.versions[again.verdict.candidate]
        faster = [v for v in self.told if v.verdict is not None and v.verdict.state == "faster"]
        return max(faster, key=lambda v: v.speedup or 0.0, default=None)

    def diff(self, version: PastVersion, name: str = "") -> str:
        """A unified diff from the user's version; "" where the text was not kept."""
        if not self.text:
            return ""
        before = SourceText(self.text)
        return unified_diff(
            before, before.apply(list(version.candidate.edits)), path=name or self.run.target.path.lstrip("/")
        )


def read_past(store: sqlite3.Connection, number: int) -> PastRun:
    """A run of the store.

    Raises:
        InputError: there is none of that number.
    """
    run = read_run(store, number)
    if run is None:
        raise InputError(f"there is no run {number}", remedy="warplens history runs lists them")
    past = PastRun(run)
    for step in read_steps(store, number):
        if step.kind == "baseline":
            past.text = json.loads(step.payload).get("text", "")
            past.baseline = from_json(step.payload, Baseline)
        elif step.kind == "ask":
            ask = from_json(step.payload, Ask)
            parent = past.versions.get(ask.candidate.parent)
            state = {**(parent.state if parent is not None else {})}
            state |= {subject(change): change for change in ask.move.changes}
            depth = parent.depth + 1 if parent is not None and ask.candidate.parent != ROOT else 1
            past.versions[step.candidate] = PastVersion(ask, state, depth)
        elif step.kind == "tell" and step.candidate in past.versions:
            version = past.versions[step.candidate]
            version.verdict = from_json(step.payload, Verdict)
            version.at = max(step.at - run.started_at, 0.0)
        elif step.kind == "confirm":
            past.confirmations.append(from_json(step.payload, Confirmation))
    return past
