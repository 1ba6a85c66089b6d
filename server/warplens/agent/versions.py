# SPDX-License-Identifier: Apache-2.0
"""Versions of one file as a search knows them: the user's text, and what steps made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from warplens.agent.edits import compose, text_hash
from warplens.agent.moves import Idea, Move, Proposal, subject
from warplens.agent.priors import Cause
from warplens.measure.verdict import TIMED, Candidate, Verdict
from warplens_tools.arch.gpu import Limits
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText
from warplens_tools.tunable.parameter import Geometry

ROOT = "baseline"
#: States in which a version ran, was right as far as it was compared, and was timed.
WORKING = frozenset(TIMED)


class ProposalSource(Protocol):
    """One origin of steps: rewrites, parameters, a model. All sources of a search grow one tree.

    The search alone decides which idea of which source is tried on which version; a source says what it could do
    and what it expects of that. What is asked is written to the journal with its edits, so a source need not
    repeat itself when a run is resumed: it is given the earlier versions and verdicts instead.
    """

    @property
    def name(self) -> str:
        """For people: "rewrites", "idioms", "parameters", "model"."""

    def ideas(self, version: Node) -> Sequence[Idea]:
        """Steps this version may take, in no particular order; none where it has nothing to offer.

        Asked often, so it must answer at once (see `tests/server/agent/test_space.py`): work belongs into `Idea.make`.
        A version that failed is asked too, for `Move.repairs`.
        """

    def asked(self, version: Node) -> None:
        """A version was handed out, of a step of this source or of another, now or in an earlier process."""

    def told(self, version: Node) -> None:
        """Its verdict is known, of a step of this source or of another, now or in an earlier process."""


class Space(Protocol):
    """What may be tried, and what of it cannot run."""

    @property
    def sources(self) -> Sequence[ProposalSource]:
        """Where steps come from."""

    def geometry(self, text: SourceText) -> Geometry:
        """The launch geometry of this version where it differs from the baseline's."""

    def illegal(self, text: SourceText) -> str:
        """Why this version could not run on the card, as far as its text tells; "" if nothing speaks for that."""


class SearchedSpace(Space, Protocol):
    """A space as a search from baseline to proof needs it."""

    @property
    def limits(self) -> Limits:
        """Of the card that it is searched for."""

    @property
    def features(self) -> Mapping[str, float]:
        """Of the user's version, by which earlier searches are likened to it."""

    def learn(self, causes: Sequence[Cause], busy: Mapping[str, float]) -> None:
        """Expect from here on what these findings and resources say; nothing of them leaves it as it is."""


class Ask(msgspec.Struct, frozen=True):
    """A candidate that was handed out, with the step that made it; what a journal keeps of an ask."""

    candidate: Candidate
    move: Move


class Node(msgspec.Struct, eq=False):
    """One version and its place in the tree. Counts include the versions below it."""

    ask: Ask
    text: SourceText
    parent: Node | None = None
    #: Versions from which another step leads to the same text.
    others: list[Node] = []
    depth: int = 0
    verdict: Verdict | None = None
    #: Over the user's version; None until told, and where it failed.
    speedup: float | None = None
    children: list[Node] = []
    #: Versions that one of its steps leads to, and that grew elsewhere.
    links: list[Node] = []
    visits: int = 0
    pending: int = 0
    reward_sum: float = 0.0
    reward_best: float = 0.0
    #: None of its steps leads to anything new, for now; and nothing is left below it either.
    spent: bool = False
    closed: bool = False

    @property
    def told(self) -> bool:
        """Whether its verdict is known."""
        return self.verdict is not None

    @property
    def works(self) -> bool:
        """Whether it ran, was right, and was timed."""
        return self.speedup is not None

    @property
    def ancestors(self) -> Iterator[Node]:
        """All versions above it, by any way, each once."""
        seen, waiting = {self.ask.candidate.id}, [self.parent, *self.others]
        while waiting:
            at = waiting.pop()
            if at is not None and at.ask.candidate.id not in seen:
                seen.add(at.ask.candidate.id)
                yield at
                waiting += [at.parent, *at.others]


class Versions:
    """All versions of one file in a search, by id, without duplicates."""

    def __init__(self, baseline: SourceText, *, path: str, kernel: str, space: Space) -> None:
        candidate = Candidate(ROOT, path, kernel, (), text_hash=text_hash(baseline))
        self.root = Node(Ask(candidate, Move((), "", "")), baseline, speedup=1.0)
        self.root.verdict = Verdict(ROOT, "same", "the user's version")
        self.by_id: dict[str, Node] = {ROOT: self.root}
        self.space = space
        #: By the hash of its text; None for a text that nobody need ask about.
        self._known: dict[str, Node | None] = {candidate.text_hash: self.root}

    def grow(self, parent: Node, proposal: Proposal) -> Node | None:
        """The version that a step makes; None where that text is known already, or cannot run on the card."""
        try:
            text = parent.text.apply(list(proposal.edits))
        except InputError:  # its edits touch the same place
            return None
        key = text_hash(text)
        if key in self._known:
            return None
        if self.space.illegal(text):
            self._known[key] = None
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
            origin=proposal.move.origin,
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
        self._known[ask.candidate.text_hash] = node
        return node

    def sketch(self, parent: Node, proposal: Proposal) -> Node:
        """What a step makes, for asking what could be done next; it is not entered."""
        text = parent.text.apply(list(proposal.edits))
        edits = compose(self.root.text, parent.ask.candidate.edits, proposal.edits)
        candidate = msgspec.structs.replace(
            parent.ask.candidate, id="", edits=edits, text_hash=text_hash(text)
        )
        return Node(Ask(candidate, proposal.move), text, parent=parent, depth=parent.depth + 1)

    def tell(self, candidate: str, verdict: Verdict) -> Node | None:
        """Take the verdict of a candidate and pass it on to the sources; None for a second one, which is ignored."""
        node = self.by_id[candidate]
        if node.told:
            return None
        node.verdict, node.speedup = verdict, speedup_of(verdict)
        for source in self.space.sources:
            source.told(node)
        return node

    def ideas(self, node: Node) -> list[Idea]:
        """All steps that a version may take, those included that lead to known texts."""
        return list(self._ideas(node))

    def untried(self, node: Node) -> list[Idea]:
        """Steps that lead to a text nobody asked about yet, as far as that is known before they are made."""
        return list(self._untried(node))

    def is_open(self, node: Node) -> bool:
        """Whether there are any such steps: asked of many versions again and again, and mostly said by the first."""
        return next(self._untried(node), None) is not None

    def _untried(self, node: Node) -> Iterator[Idea]:
        return (idea for idea in self._ideas(node) if idea.text_hash not in self._known)

    def _ideas(self, node: Node) -> Iterator[Idea]:
        verdict = node.verdict
        mended = None if verdict is None or node.works else verdict.state
        for source in self.space.sources:
            for idea in source.ideas(node):
                if mended is None or mended in idea.move.repairs:
                    yield idea

    def reconsider(self) -> None:
        """What sources offer, or expect, has changed: versions without steps may have some now."""
        for node in self.by_id.values():
            node.spent = False

    def known(self, idea: Idea) -> Node | None:
        """The version that a step leads to, where another step has made it."""
        return self._known.get(idea.text_hash)

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
