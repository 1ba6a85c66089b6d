# SPDX-License-Identifier: Apache-2.0
"""A source of steps that the text of a version alone decides: rewrites, other values of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from warplens.agent.edits import text_hash
from warplens.agent.moves import Idea, Proposal
from warplens.agent.versions import Node
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText

#: Versions whose ideas are kept; a search comes back to the same few parents.
KEPT = 256


class TextSource:
    """Ideas of `propose`, a pure function of a text, kept by text until they are forgotten."""

    def __init__(self, name: str, propose: Callable[[SourceText], Iterable[Proposal]]) -> None:
        self.name = name
        self._propose = propose
        self._kept: dict[str, tuple[Idea, ...]] = {}

    def ideas(self, version: Node) -> Sequence[Idea]:
        """One idea for each proposal, with the hash of the text it leads to."""
        key = version.ask.candidate.text_hash
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = tuple(
                made_idea(*step) for step in with_hashes(version.text, self._propose(version.text))
            )
            while len(self._kept) > KEPT:
                self._kept.pop(next(iter(self._kept)))
        return found

    def asked(self, version: Node) -> None:
        """What is asked changes nothing in what a text allows."""

    def told(self, version: Node) -> None:
        """A verdict changes nothing in what a text allows."""

    def forget(self) -> None:
        """Ask `propose` anew: what it expects has changed."""
        self._kept.clear()


def with_hashes(text: SourceText, proposals: Iterable[Proposal]) -> Iterator[tuple[Proposal, str]]:
    """Steps on a text, each with the hash of the text it leads to; none whose edits touch the same place."""
    for proposal in proposals:
        try:
            after = text.apply(list(proposal.edits))
        except InputError:
            continue
        yield proposal, text_hash(after)


def made_idea(proposal: Proposal, key: str) -> Idea:
    """An idea whose step is there already."""
    return Idea(proposal.move, _Made(proposal), key, free=True)


class _Made:
    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal

    def __call__(self, task: Task) -> Proposal:
        del task
        return self.proposal
