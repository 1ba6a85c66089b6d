# SPDX-License-Identifier: Apache-2.0
"""Monte Carlo tree search over versions of a kernel, driven by ask and tell.

`ask` hands out candidates, several at a time if wished (a pending one counts as a visit without reward,
so that parallel asks spread out); `tell` takes the verdict of each, in any order. The same seed and the
same sequence of asks and tells give the same candidates, also when the beginning of the sequence was
read back from a journal (`restore`).
"""

from __future__ import annotations

import math
import random

from warplens.agent.effects import Effects
from warplens.agent.search_settings import SearchSettings
from warplens.agent.versions import (
    Ask,
    Move,
    Node,
    Proposal,
    Space,
    Versions,
    joined,
    speedup_of,
    state_of,
    subject,
)
from warplens.measure.verdict import State, Verdict
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText


class SearchTree:
    """The tree. `headroom` is the baseline's time over the roof's, where that is known."""

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
        #: Nothing is left to ask or to wait for.
        self.exhausted = False
        self._effects = Effects(self.settings.prior_trials)
        root = self.versions.root
        root.visits, root.reward_sum = 1, self.settings.reward_same
        root.reward_best = self.settings.reward_same

    def ask(self, count: int = 1) -> list[Ask]:
        """Up to `count` new candidates; fewer where nothing more can be asked before a verdict comes."""
        asks: list[Ask] = []
        while len(asks) < count:
            node = self._next()
            if node is None:
                self.exhausted = not self.versions.waiting()
                break
            _pend(node, 1)
            asks.append(node.ask)
        return asks

    def tell(self, candidate: str, verdict: Verdict) -> None:
        """Take the verdict of a candidate that was handed out; a second one for the same is ignored."""
        node = self.versions.by_id[candidate]
        if node.told:
            return
        node.verdict, node.speedup = verdict, speedup_of(verdict)
        _pend(node, -1)
        reward = self.reward(verdict)
        at: Node | None = node
        while at is not None:
            at.visits += 1
            at.reward_sum += reward
            at.reward_best = max(at.reward_best, reward)
            at = at.parent
        self._remember(node)

    def restore(self, ask: Ask) -> None:
        """Enter a candidate that an earlier process handed out; its `tell` follows, if it got that far."""
        _pend(self.versions.add(ask), 1)

    def reward(self, verdict: Verdict) -> float:
        """What a verdict is worth, 0 to 1."""
        speedup = speedup_of(verdict)
        if speedup is None:
            return _failure_reward(verdict.state, self.settings)
        cap = max(self.headroom or self.settings.cap, self.settings.least_cap)
        same = self.settings.reward_same
        share = max(-1.0, min(1.0, math.log(speedup) / math.log(cap)))
        least = self.settings.reward_wrong
        return same + share * (1 - same) if share > 0 else max(least, same + share * (same - least))

    def _next(self) -> Node | None:
        """Descend to the most promising open node that may widen, and widen it."""
        root = self.versions.root
        while not root.closed:
            node: Node | None = root
            while node is not None and not self._may_widen(node):
                node = self._best_child(node)
            if node is None:
                node = self._most_promising_unfinished()
            if node is None:
                return None
            child = self._widen(node)
            if child is not None:
                return child
        return None

    def _may_widen(self, node: Node) -> bool:
        limit = self._child_limit(node)
        return node.told and len(node.children) < limit and bool(self.versions.untried(node))

    def _child_limit(self, node: Node) -> float:
        if node.depth >= self.settings.max_depth:
            return 0
        if not node.works:
            return self.settings.failed_children
        visits = node.visits + node.pending
        return max(1.0, self.settings.widening * math.pow(visits, self.settings.widening_power))

    def _best_child(self, node: Node) -> Node | None:
        """The open child to descend into; None where all wait for verdicts or are closed."""
        for child in node.children:
            self._close_if_dead(child)
        open_children = [c for c in node.children if c.told and not c.closed]
        self._close_if_dead(node)
        return max(open_children, key=lambda c: self._score(c, node), default=None)

    def _score(self, child: Node, parent: Node) -> float:
        visits = child.visits + child.pending
        share = self.settings.best_share
        mean = child.reward_sum / visits
        best = child.reward_best * child.visits / visits
        bonus = math.sqrt(math.log(parent.visits + parent.pending + 1) / visits)
        return share * best + (1 - share) * mean + self.settings.exploration * bonus

    def _most_promising_unfinished(self) -> Node | None:
        """Where widening is used up everywhere: the best version that still has untried steps.

        Without this a small tree would wait for verdicts that a parallel ask could use better.
        """
        nodes = [
            n
            for n in self.versions.by_id.values()
            if n.works and not n.closed and n.depth < self.settings.max_depth and self.versions.untried(n)
        ]
        return max(nodes, key=lambda n: (n.reward_sum / n.visits) / (1 + len(n.children)), default=None)

    def _widen(self, node: Node) -> Node | None:
        """Take the untried step with the best expectation, or first a leap; None if it leads nowhere new."""
        leap = self._leap(node)
        child = self.versions.grow(node, leap) if leap is not None else None
        if child is not None:
            return child
        untried = self.versions.untried(node)
        best = max(untried, key=lambda p: self._expectation(node, p, noisy=True))
        child = self.versions.grow(node, best)
        self._close_if_dead(node)
        return child

    def _leap(self, node: Node) -> Proposal | None:
        """All steps at once that other versions were found to gain by, one for each subject.

        One step a verdict would take as many visits as there are steps; taken together they cost one.
        """
        helpful = {
            p: gain
            for p in self.versions.steps(node).values()
            if all(self._effects.seen(change) for change in p.move.changes)
            and (gain := self._expectation(node, p)) >= self.settings.leap_gain
        }
        chosen: list[Proposal] = []
        taken: set[str] = set()
        for proposal in sorted(helpful, key=lambda p: (-helpful[p], p.move.changes)):
            if taken.isdisjoint(proposal.move.subjects):
                taken |= proposal.move.subjects
                chosen.append(proposal)
        if len(chosen) < 2:
            return None
        edits = tuple(edit for proposal in chosen for edit in proposal.edits)
        try:
            node.text.apply(list(edits))
        except InputError:  # two of them touch the same place
            return None
        return joined(chosen, edits)

    def _expectation(self, node: Node, proposal: Proposal, *, noisy: bool = False) -> float:
        """Expected log2 gain of a step on this version, from its prior and all verdicts so far."""
        state, expected, seen = state_of(node), 0.0, 0
        for change in proposal.move.changes:
            expected += self._effects.of(change, _prior(proposal.move))
            replaced = state.get(subject(change))
            expected -= self._effects.of(replaced, 0.0) if replaced is not None else 0.0
            seen += self._effects.seen(change)
        if noisy:
            # Less is known of what was seldom tried, so it gets the wider draw.
            name = f"{self.seed}/{node.ask.candidate.text_hash}/{proposal.move.changes}"
            width = self.settings.draw_noise / math.sqrt(1 + seen)
            expected += random.Random(name).gauss(0.0, width)
        return expected

    def _remember(self, node: Node) -> None:
        gain = self.settings.failure_gain if node.speedup is None else math.log2(node.speedup)
        self._effects.add(state_of(node).values(), max(-1.0, min(2.0, gain)))

    def _close_if_dead(self, node: Node) -> None:
        """Close a version below which nothing is left, and what that makes dead above it."""
        at: Node | None = node
        while at is not None and at.told and not at.closed:
            spent = not self.versions.untried(at) or at.depth >= self.settings.max_depth
            if not at.works:
                spent = spent or len(at.children) >= self.settings.failed_children
            if not (spent and all(child.closed for child in at.children)):
                return
            at.closed = True
            at = at.parent


def _prior(move: Move) -> float:
    return move.probability * math.log2(max(move.gain, 1.0))


def _pend(node: Node, by: int) -> None:
    at: Node | None = node
    while at is not None:
        at.pending += by
        at = at.parent


def _failure_reward(state: State, settings: SearchSettings) -> float:
    if state in ("refused", "not_built", "illegal"):
        return settings.reward_not_built
    if state in ("crashed", "hung"):
        return settings.reward_crashed
    return settings.reward_wrong
