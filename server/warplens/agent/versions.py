# SPDX-License-Identifier: Apache-2.0
"""Versions of one file as a search knows them: the user's text, and what steps made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import msgspec

from warplens.agent.edits import compose, text_hash
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.tunable.parameter import Geometry

ROOT = "baseline"
#: States in which a version ran, was right, and was timed.
WORKING = frozenset({"slower", "same", "faster"})


class Move(msgspec.Struct, frozen=True):
    """A step a version may take, and what is expected of it."""

    #: What it changes, equal for the same idea on another version: "pad-shared-tile", "block.x=128".
    changes: tuple[str, ...]
    #: What hit rates are kept under: a rewrite's slug, or "parameter:<kind>".
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
    #: The rules of the steps it joins; `rule` alone where it is one step.
    parts: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules it applies."""
        return (self.rule,) if self.rule else self.parts

    @property
    def subjects(self) -> frozenset[str]:
        """What it changes, without the values."""
        return frozenset(map(subject, self.changes))


def subject(change: str) -> str:
    """What is changed: "block.x" of "block.x=128"."""
    return change.split("=")[0]


class Proposal(msgspec.Struct, frozen=True):
    """A move with its edits, against the text of the version it is proposed for."""

    move: Move
    edits: tuple[TextEdit, ...]


class Space(Protocol):
    """What may be tried: a pure function of a version's text."""

    def propose(self, text: SourceText) -> Sequence[Proposal]:
        """Steps that this version may take, in no particular order."""

    def geometry(self, text: SourceText) -> Geometry:
        """The launch geometry of this version where it differs from the baseline's."""


class Ask(msgspec.Struct, frozen=True):
    """A candidate that was handed out, with the step that made it; what a journal keeps of an ask."""

    candidate: Candidate
    move: Move


class Node(msgspec.Struct):
    """One version and its place in the tree. Counts include the versions below it."""

    ask: Ask
    text: SourceText
    parent: Node | None = None
    depth: int = 0
    verdict: Verdict | None = None
    #: Over the user's version; None until told, and where it failed.
    speedup: float | None = None
    children: list[Node] = []
    #: Its steps by the hash of the text each makes; None until they were asked for.
    steps: dict[str, Proposal] | None = None
    visits: int = 0
    pending: int = 0
    reward_sum: float = 0.0
    reward_best: float = 0.0
    closed: bool = False

    @property
    def told(self) -> bool:
        """Whether its verdict is known."""
        return self.verdict is not None

    @property
    def works(self) -> bool:
        """Whether it ran, was right, and was timed."""
        return self.speedup is not None


class Versions:
    """All versions of one file in a search, by id, without duplicates."""

    def __init__(self, baseline: SourceText, *, path: str, kernel: str, space: Space) -> None:
        candidate = Candidate(ROOT, path, kernel, (), text_hash=text_hash(baseline))
        self.root = Node(Ask(candidate, Move((), "", "")), baseline, speedup=1.0)
        self.root.verdict = Verdict(ROOT, "same", "the user's version")
        self.by_id: dict[str, Node] = {ROOT: self.root}
        self.space = space
        self._hashes = {candidate.text_hash}

    def grow(self, parent: Node, proposal: Proposal) -> Node | None:
        """The version that a step makes, or None where another step already made the same text."""
        text = parent.text.apply(list(proposal.edits))
        key = text_hash(text)
        if key in self._hashes:
            return None
        base = self.root.ask.candidate
        geometry = self.space.geometry(text)
        answers = (*parent.ask.candidate.answers, *proposal.move.answers)
        candidate = Candidate(
            id=f"c{len(self.by_id)}",
            path=base.path,
            kernel=base.kernel,
            edits=compose(self.root.text, parent.ask.candidate.edits, proposal.edits),
            parent=parent.ask.candidate.id,
            origin=_origin(proposal.move),
            title=proposal.move.title,
            text_hash=key,
            answers=tuple(dict.fromkeys(answers)),
            grid=geometry.grid,
            block=geometry.block,
            dynamic_shared_bytes=geometry.dynamic_shared_bytes,
            asks_program=not geometry.known,
        )
        return self.add(Ask(candidate, proposal.move))

    def add(self, ask: Ask) -> Node:
        """Enter a version that was handed out, now or in an earlier process."""
        parent = self.by_id[ask.candidate.parent]
        text = self.root.text.apply(list(ask.candidate.edits))
        node = Node(ask, text, parent=parent, depth=parent.depth + 1)
        parent.children.append(node)
        self.by_id[ask.candidate.id] = node
        self._hashes.add(ask.candidate.text_hash)
        return node

    def steps(self, node: Node) -> dict[str, Proposal]:
        """All steps a version may take, by the hash of the text they make."""
        if node.steps is None:
            proposals = self.space.propose(node.text)
            node.steps = {text_hash(node.text.apply(list(p.edits))): p for p in proposals}
        return node.steps

    def reconsider(self) -> None:
        """Ask the space anew for every version's steps."""
        for node in self.by_id.values():
            node.steps = None

    def untried(self, node: Node) -> list[Proposal]:
        """Steps that lead to a text nobody asked about yet."""
        return [p for key, p in self.steps(node).items() if key not in self._hashes]

    def told(self) -> list[Node]:
        """Versions with a verdict, without the user's own, in the order they were handed out."""
        return [node for node in self.by_id.values() if node.told and node is not self.root]

    def waiting(self) -> list[Node]:
        """Versions handed out whose verdict is not known."""
        return [node for node in self.by_id.values() if not node.told]


def moves_of(node: Node) -> tuple[Move, ...]:
    """The steps that lead from the user's text to a version."""
    return () if node.parent is None else (*moves_of(node.parent), node.ask.move)


def state_of(node: Node) -> dict[str, str]:
    """The changes that make up a version, by subject: of two to the same subject, the later."""
    return {subject(change): change for move in moves_of(node) for change in move.changes}


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
        parts=tuple(dict.fromkeys(move.rule for move in moves)),
    )
    return Proposal(move, edits)


def speedup_of(verdict: Verdict) -> float | None:
    """Median speedup of a version that ran right and was timed, as the program leaves the cache.

    Where only a flushed timing was taken, that one; None where the version failed.
    """
    if verdict.state not in WORKING or not verdict.timings:
        return None
    timing = next((t for t in verdict.timings if t.cache == "program"), verdict.timings[0])
    return timing.speedup.median if timing.speedup.median > 0 else None


def best_first(nodes: Sequence[Node]) -> list[Node]:
    """Versions judged faster, best first; those the noise cannot tell from the best, shortest diff first."""
    faster = [n for n in nodes if n.verdict is not None and n.verdict.state == "faster" and n.speedup]
    faster.sort(key=lambda n: -(n.speedup or 0.0))
    if not faster:
        return []
    bar = _low(faster[0])
    tied = [n for n in faster if (n.speedup or 0.0) >= bar]
    tied.sort(key=lambda n: (len(n.ask.candidate.edits), -(n.speedup or 0.0)))
    return [*tied, *faster[len(tied) :]]


def _low(node: Node) -> float:
    timings = node.verdict.timings if node.verdict is not None else ()
    return min((t.speedup.low for t in timings), default=0.0)


def _origin(move: Move) -> str:
    if not move.rule:
        return "chain"
    return "parameters" if move.rule.startswith("parameter:") else f"rewrite:{move.rule}"
