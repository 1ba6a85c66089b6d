# SPDX-License-Identifier: Apache-2.0
"""What every policy of the search shares: versions, sources of steps, memory, and what is expected of a step.

A policy is driven by ask and tell. `ask` hands out candidates, several at a time if wished; `tell` takes the verdict
of each, in any order. The same seed and the same sequence of asks and tells give the same candidates, also when the
beginning of the sequence was read back from a journal (`restore`), as long as the sources do as they did.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Protocol

from warplens.agent.memory import Memory, summed
from warplens.agent.moves import Idea, Move, subject
from warplens.agent.search_settings import SearchSettings
from warplens.agent.versions import Ask, Node, Space, Versions, state_of
from warplens.measure.verdict import Verdict
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText

#: Versions whose next steps are worked out before those of the ones that wait for a verdict: a search grows the few
#: best.
_LIKELY = 8


class Searcher(Protocol):
    """A search driven by ask and tell, whatever its policy."""

    versions: Versions
    memory: Memory | None
    #: Nothing is left to ask or to wait for.
    exhausted: bool
    #: The baseline's time over the roof's; None where that is not known.
    headroom: float | None
    #: The last batch was ended for the sake of the verdicts on it, of which none has come: what is asked now is asked
    #: without them.
    holds: bool

    def ask(self, count: int = 1, task: Task = UNATTENDED) -> list[Ask]:
        """Up to `count` new candidates."""

    def tell(self, candidate: str, verdict: Verdict) -> None:
        """Take the verdict of a candidate; a second one for the same is ignored."""

    def restore(self, ask: Ask) -> None:
        """Enter a candidate that an earlier process handed out."""

    def prepare(self) -> bool:
        """Do some milliseconds' work of asks to come; False where there is none. Nothing that is asked changes."""


class Policy:
    """The shared half of a searcher; a policy says which step comes next (`next`)."""

    def __init__(
        self,
        baseline: SourceText,
        *,
        path: str,
        kernel: str,
        space: Space,
        settings: SearchSettings | None = None,
        seed: int = 0,
        headroom: float | None = None,
    ) -> None:
        self.versions = Versions(baseline, path=path, kernel=kernel, space=space)
        self.settings = settings or SearchSettings()
        self.seed = seed
        self.headroom = headroom
        self.exhausted = self.holds = False
        self.memory = Memory(self.settings) if self.settings.memory else None
        self._preparing: Iterator[None] | None = None
        #: Versions all of whose steps were worked out beforehand.
        self._prepared: set[str] = set()
        self.begin()

    def begin(self) -> None:
        """Called once, when the original is all that there is."""

    def next(self, task: Task) -> Node | None:
        """A new version; None where nothing more can be asked before a verdict comes."""
        raise NotImplementedError

    def ask(self, count: int = 1, task: Task = UNATTENDED) -> list[Ask]:
        """Up to `count` new candidates; fewer where nothing more can be asked before a verdict comes."""
        asks: list[Ask] = []
        self.holds = False
        while len(asks) < count:
            node = self.next(task)
            if node is None:
                self.exhausted = not self.versions.waiting()
                break
            self.asked(node)
            self._preparing = None
            asks.append(node.ask)
            self.holds = self.waits(asks)
            if self.holds:
                break
        return asks

    def waits(self, asks: list[Ask]) -> bool:
        """Whether verdicts on these candidates are worth more than further ones beside them."""
        del asks
        return False

    def tell(self, candidate: str, verdict: Verdict) -> None:
        """Take the verdict of a candidate that was handed out; a second one for the same is ignored."""
        node = self.versions.tell(candidate, verdict)
        if node is None:
            return
        self.holds = False
        self._preparing = None
        if self.memory is not None:
            self.memory.told(node)
        self.learned(node)

    def restore(self, ask: Ask) -> None:
        """Enter a candidate that an earlier process handed out; its `tell` follows, if it got that far."""
        self.asked(self.versions.add(ask))

    def prepare(self) -> bool:
        """Work out one of the steps that may come next; False where all are, until something is asked or told."""
        if self._preparing is None:
            self._preparing = self._upcoming()
        return next(self._preparing, self) is None

    def _upcoming(self) -> Iterator[None]:
        """Works out a step each time that it is gone on with: of the best versions first, then of those that wait for a
        verdict, the most promising first.
        """
        works = sorted(
            (n for n in self.versions.by_id.values() if n.works), key=lambda n: -(n.speedup or 0.0)
        )
        waiting = sorted(self.versions.waiting(), key=self.promised, reverse=True)
        for node in (*works[:_LIKELY], *waiting, *works[_LIKELY:]):
            name = node.ask.candidate.id
            if name in self._prepared or node.depth >= self.settings.max_depth:
                continue
            for idea in self.promising(node):
                if idea.ahead is not None and idea.ahead():
                    yield
            self._prepared.add(name)

    def promised(self, node: Node) -> float:
        """Expected log2 of a version's speedup."""
        if node.parent is None:
            return 0.0
        gain = math.log2(node.parent.speedup) if node.parent.speedup is not None else 0.0
        return max(gain, 0.0) + max(self.expectation(node.parent, node.ask.move), 0.0)

    def asked(self, node: Node) -> None:
        """A version was handed out, now or in an earlier process."""
        for source in self.versions.space.sources:
            source.asked(node)

    def learned(self, node: Node) -> None:
        """A version's verdict is known, and remembered."""

    def promising(self, node: Node) -> list[Idea]:
        """Steps to try on a version, the best expectation first; none that failed wherever it was tried."""
        memory = self.memory
        untried = [i for i in self.versions.untried(node) if memory is None or not memory.fails(i.move)]
        waiting = [_number(child.ask.move) for child in node.children if not child.told]

        def promise(idea: Idea) -> float:
            expected = self.expectation(node, idea.move, noisy=True)
            others = waiting.count(number) if (number := _number(idea.move)) else 0
            return expected * self.settings.beside_waiting**others if expected > 0 else expected

        return sorted(untried, key=promise, reverse=True)

    def expectation(self, node: Node, move: Move, *, noisy: bool = False) -> float:
        """Expected log2 gain of a step on this version, from its prior and all verdicts so far."""
        state = state_of(node)
        replaced = [state[subject(change)] for change in move.changes if subject(change) in state]
        expected = summed(self.memory, move.changes, replaced, self._prior(move))
        if noisy:
            # Less is known of what was seldom tried, so it gets the wider draw.
            seen = sum(map(self.memory.seen, move.changes)) if self.memory is not None else 0
            name = f"{self.seed}/{node.ask.candidate.text_hash}/{move.changes}"
            # What promises little is not drawn far up: there is much of it, and a verdict costs seconds.
            most = min(self.settings.draw_noise, self._least_noise(move) + 2.0 * abs(expected))
            expected += random.Random(name).gauss(0.0, most / math.sqrt(1 + seen))
        return expected

    def _least_noise(self, move: Move) -> float:
        return self.settings.least_noise if move.tunes else self.settings.rewrite_noise

    def grow(self, node: Node, idea: Idea, task: Task) -> Node | None:
        """The version that an idea makes; None where it comes to nothing new."""
        for _ in range(1 if idea.free else self.settings.makings):
            proposal = idea.make(task)
            child = self.versions.grow(node, proposal) if proposal is not None else None
            if child is not None or proposal is None:
                return child
        return None

    def _prior(self, move: Move) -> Move:
        return move if self.settings.priors else Move(move.changes, move.rule, move.title)


def _number(move: Move) -> str:
    """The number that a step gives another value; "" for what changes more than one, or code."""
    return subject(move.changes[0]) if len(move.changes) == 1 and move.tunes else ""
