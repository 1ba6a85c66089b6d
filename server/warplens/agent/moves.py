# SPDX-License-Identifier: Apache-2.0
"""Steps from one version of a file to the next: what they change, what is expected of them, their edits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from warplens.measure.verdict import State
from warplens_tools.process.task import Task
from warplens_tools.text import TextEdit

#: What a step changes that gives all numbers other values, before it is known which.
TOGETHER = "template"


class Move(msgspec.Struct, frozen=True):
    """A step a version may take, and what is expected of it."""

    #: What it changes, equal for the same idea on another version: "pad-shared-tile", "block.x=128".
    changes: tuple[str, ...]
    #: What hit rates are kept under: a rewrite's slug, "parameter:<kind>", or "model:<role>"; "" for company.
    rule: str
    title: str
    #: Expected speedup factor if it works.
    gain: float = 1.0
    #: Expected chance that it is right and faster, 0 to 1.
    probability: float = 0.5
    #: Codes of the findings it answers.
    answers: tuple[str, ...] = ()
    #: How results may change; "" if they cannot.
    caveat: str = ""
    #: The rules of the steps it joins.
    parts: tuple[str, ...] = ()
    #: Verdicts that it may mend: only such steps are taken from a version that failed.
    repairs: tuple[State, ...] = ()
    #: Where its expectation comes from, in a few words for people; "" if from nowhere in particular.
    why: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules it applies."""
        return (*((self.rule,) if self.rule else ()), *self.parts)

    @property
    def subjects(self) -> frozenset[str]:
        """What it changes, without the values."""
        return frozenset(map(subject, self.changes))

    @property
    def tunes(self) -> bool:
        """Whether it gives numbers other values and changes nothing else."""
        return all("=" in change or change == TOGETHER for change in self.changes)

    @property
    def expected(self) -> float:
        """Expected log2 of the speedup."""
        return self.probability * math.log2(max(self.gain, 1.0))

    @property
    def origin(self) -> str:
        """What made it, as candidates name it."""
        if not self.rule:
            return "chain"
        if self.rule.startswith("model:"):
            return self.rule
        return "parameters" if self.rule.startswith("parameter:") else f"rewrite:{self.rule}"


class Proposal(msgspec.Struct, frozen=True):
    """A move with its edits, against the text of the version it is proposed for."""

    move: Move
    edits: tuple[TextEdit, ...]


class Idea(msgspec.Struct, frozen=True):
    """A step that a source could make: what is expected of it, and its making.

    Where making it costs nothing, `text_hash` is that of the text it leads to, so that no text is asked twice.
    """

    move: Move
    #: Makes the step; None where that came to nothing. What takes time or money happens here, and heeds the task.
    make: Callable[[Task], Proposal | None]
    text_hash: str = ""
    #: Making it takes milliseconds and no money, and gives the same each time.
    free: bool = False
    #: Works out beforehand what `make` will need; False where that is done. Nothing that is asked changes by it.
    ahead: Callable[[], bool] | None = None

    @property
    def made(self) -> bool:
        """Whether its edits are there already."""
        return bool(self.text_hash)


def subject(change: str) -> str:
    """What is changed: "block.x" of "block.x=128"."""
    return change.split("=")[0]


def joined(proposals: Sequence[Proposal], edits: tuple[TextEdit, ...]) -> Proposal:
    """Several steps as one. It belongs to no rule, so that no hit rate is credited with company."""
    if len(proposals) == 1:
        return Proposal(proposals[0].move, edits)
    moves = [proposal.move for proposal in proposals]
    move = Move(
        changes=tuple(change for move in moves for change in move.changes),
        rule="",
        title="; ".join(move.title for move in moves),
        gain=math.prod(move.gain for move in moves),
        probability=min(move.probability for move in moves),
        answers=tuple(dict.fromkeys(code for move in moves for code in move.answers)),
        caveat="; ".join(dict.fromkeys(move.caveat for move in moves if move.caveat)),
        parts=tuple(dict.fromkeys(rule for move in moves for rule in move.rules)),
    )
    return Proposal(move, edits)
