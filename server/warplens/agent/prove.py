# SPDX-License-Identifier: Apache-2.0
"""*Fix and prove*: one edit through the same judge, journal and proof as a search."""

from __future__ import annotations

import sqlite3

import msgspec

from warplens import __version__
from warplens.agent.edits import text_hash
from warplens.agent.judging import JudgeSession
from warplens.agent.limits import confirmed
from warplens.agent.report import Win, proven_by, tried_candidate
from warplens.agent.result import OptimizeResult
from warplens.agent.versions import WORKING, speedup_of
from warplens.measure.verdict import Candidate, Verdict
from warplens.store.rates import SubjectKind, Trial, record_trials
from warplens_tools.arch.gpu import Limits
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText


def prove(
    text: SourceText,
    candidate: Candidate,
    judge: JudgeSession,
    store: sqlite3.Connection,
    *,
    name: str,
    caveat: str,
    limits: Limits,
    task: Task = UNATTENDED,
) -> OptimizeResult:
    """Judge one candidate; where it is faster, confirm it and give its proof.

    Raises:
        MissingToolError, InputError, CompileError, CancelledError: as the judge.
    """
    baseline = judge.baseline(task=task)
    task.say(f"judging: {candidate.title}", None)
    (verdict,) = judge.judge([candidate], task=task)
    record_trials(store, None, _trials(candidate, verdict, baseline.compiled.arch))
    result = OptimizeResult(
        version=1,
        tool=f"warplens {__version__}",
        path=candidate.path,
        kernel=baseline.kernel,
        outcome="nothing",
        reason=f"{candidate.title}: {_said(verdict)}",
        baseline_hash=text_hash(text),
        name=name,
        baseline=baseline.timing,
        conditions=baseline.conditions,
        tried=(tried_candidate(candidate, verdict),),
        unknown=baseline.unknown,
    )
    if verdict.state != "faster":
        return result
    again = confirmed(judge, candidate, task)
    if again.verdict.state != "faster":
        reason = f"{candidate.title}: measured again it is {_said(again.verdict)}"
        return msgspec.structs.replace(result, reason=reason)
    win = Win(candidate, candidate.title, caveat, _rules(candidate))
    return proven_by(result, text, win, again, baseline, limits)


def _said(verdict: Verdict) -> str:
    state = verdict.state.replace("_", " ")
    return f"{state}, {verdict.reason}" if verdict.reason else state


def _rules(candidate: Candidate) -> tuple[str, ...]:
    """What the candidate counts for; a version that somebody wrote counts for no rule."""
    return () if candidate.origin == "user" else (candidate.origin.removeprefix("rewrite:"),)


def _trials(candidate: Candidate, verdict: Verdict, arch: str) -> list[Trial]:
    subjects: list[tuple[SubjectKind, str]] = [
        *(("rule", rule) for rule in _rules(candidate)),
        *(("tool", c) for c in candidate.answers),
    ]
    measured = speedup_of(verdict) if verdict.state in WORKING else None
    hit = verdict.state == "faster"
    return [Trial(kind, subject, verdict.state, None, measured, hit, arch) for kind, subject in subjects]
