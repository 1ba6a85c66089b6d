# SPDX-License-Identifier: Apache-2.0
"""The answer of `optimize`: a diff with its proof, or edits that nothing has proven, and why."""

from __future__ import annotations

from typing import Literal

import msgspec

from warplens.agent.llm.spending import RoleSpent
from warplens.measure.judge import ProgramGain
from warplens.measure.verdict import Conditions, Interval, State, Verdict
from warplens_tools.evidence import LaunchTiming, Unknown
from warplens_tools.finding import Gain
from warplens_tools.text import TextEdit

#: `faster`    a version was found, judged, and confirmed in fresh processes
#: `nothing`   everything tried was slower, the same, or failed; the user's version stands
#: `unproven`  nothing could be measured here; `offers` are edits to judge elsewhere
Outcome = Literal["faster", "nothing", "unproven"]


class Tried(msgspec.Struct, frozen=True):
    """One candidate and what became of it."""

    id: str
    parent: str
    title: str
    origin: str
    state: State
    reason: str
    #: Over the user's version; None where it was not timed.
    speedup: Interval | None = None


class Change(msgspec.Struct, frozen=True):
    """One metric before and after, so that the reason for a gain is visible."""

    metric: str
    unit: str
    before: float
    after: float


class Proof(msgspec.Struct, frozen=True):
    """Why a version may be called faster."""

    #: Of the confirmation: samples that did not choose the version.
    verdict: Verdict
    #: The whole program, original against rebuilt; None where it was not measured.
    program: ProgramGain | None
    #: Codes of the findings that the version answers.
    answers: tuple[str, ...]
    #: What its steps are counted under: slugs of rewrites, "parameter:<kind>".
    rules: tuple[str, ...]
    changes: tuple[Change, ...]
    #: How results may differ, e.g. "double arithmetic becomes float"; "" if they cannot.
    caveat: str = ""


class Offer(msgspec.Struct, frozen=True):
    """An edit that nothing has proven, with what is expected of it."""

    kernel: str
    title: str
    #: Slug of the rewrite, or "parameter:<kind>".
    rule: str
    diff: str
    edits: tuple[TextEdit, ...]
    answers: tuple[str, ...]
    #: Expected speedup factor if it works, and the chance that it does (0 to 1).
    gain: float
    probability: float
    #: What the findings it answers promise; None where none promises a gain.
    expected: Gain | None = None
    caveat: str = ""
    status: Literal["unproven"] = "unproven"

    @property
    def promises(self) -> bool:
        """Whether `gain` rests on evidence of this kernel: a finding asks for the edit, and its model sees a gain."""
        return bool(self.answers) and self.gain >= 1.01


class Control(msgspec.Struct, frozen=True):
    """The random-search baseline on the same budget."""

    tried: int
    #: Best speedup that was judged faster; None if there was none.
    speedup: Interval | None
    title: str = ""


class Spent(msgspec.Struct, frozen=True):
    """What the search cost, and why it ended."""

    candidates: int
    seconds: float
    #: Verdicts that an earlier, interrupted run had paid for already.
    resumed: int
    stopped: Literal["budget", "time", "roof", "exhausted", ""] = ""


class ModelUse(msgspec.Struct, frozen=True):
    """A language model's part in a search, and what it cost."""

    provider: str
    #: "" where the provider chose.
    model: str
    #: Steps that it proposed and that were judged or could have been.
    proposals: int
    tokens: int
    #: US dollars at the prices of the settings; 0 where these are not known.
    dollars: float
    by_role: tuple[RoleSpent, ...] = ()
    #: Replies and requests that could not be used, by kind.
    troubles: dict[str, int] = {}
    #: Why it was asked no more before the search ended; "" if it was.
    stopped: str = ""


class OptimizeResult(msgspec.Struct, frozen=True):
    """The answer of `optimize`. Times in nanoseconds; lines and columns as everywhere 1-based."""

    version: int
    tool: str
    path: str
    #: Qualified name; "" where no kernel was chosen.
    kernel: str
    outcome: Outcome
    #: One sentence.
    reason: str
    #: SHA-256 of the text that edits and diff are against.
    baseline_hash: str
    #: What to do where nothing could be measured; "" if nothing.
    remedy: str = ""
    #: The file as the diff's header names it: relative to the workspace, so that `patch -p1` finds it there.
    name: str = ""
    diff: str = ""
    edits: tuple[TextEdit, ...] = ()
    proof: Proof | None = None
    baseline: LaunchTiming | None = None
    conditions: Conditions | None = None
    tried: tuple[Tried, ...] = ()
    spent: Spent | None = None
    control: Control | None = None
    #: Null where no model took part.
    model: ModelUse | None = None
    offers: tuple[Offer, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    #: Number of the run in the store.
    run: int | None = None
    seed: int = 0
