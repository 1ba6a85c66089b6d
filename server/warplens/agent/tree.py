# SPDX-License-Identifier: Apache-2.0
"""Monte Carlo tree search over versions of a kernel.

A pending candidate counts as a visit, so that parallel asks spread out. A text that two ways lead to is
one version with two parents: what is learned below it counts for both.
"""

from __future__ import annotations

import math

from warplens.agent.moves import Idea, Proposal, joined
from warplens.agent.search_settings import SearchSettings
from warplens.agent.searcher import Policy
from warplens.agent.versions import Ask, Node, speedup_of
from warplens.measure.verdict import State, Verdict
from warplens_tools.process.task import Task


class SearchTree(Policy):
    """The tree. `headroom` is the baseline's time over the roof's, where that is known."""

    def begin(self) -> None:
        """The original alone is counted."""
        self._count_all()

    def asked(self, node: Node) -> None:
        """A virtual visit, here and above, until the verdict comes."""
        super().asked(node)
        self._pend(node, 1)

    def waits(self, asks: list[Ask]) -> bool:
        """Whether the last candidate promises so much less than the best that its place is better kept for a step on
        that one.
        """
        promised = [self.promised(self.versions.by_id[ask.candidate.id]) for ask in asks]
        return promised[-1] < self.settings.batch_share * max(promised)

    def learned(self, node: Node) -> None:
        """A visit with its reward, here and above."""
        assert node.verdict is not None
        self._pend(node, -1)
        if node.parent is not None:
            node.parent.spent = False
        self._link(node)
        if self._scale() != self._cap:
            self._count_all()
        else:
            self._count(node)

    def reward(self, verdict: Verdict) -> float:
        """What a verdict is worth, 0 to 1."""
        speedup = speedup_of(verdict)
        if speedup is None:
            return _failure_reward(verdict.state, self.settings)
        same = self.settings.reward_same
        share = max(-1.0, min(1.0, math.log(speedup) / math.log(self._scale())))
        least = self.settings.reward_wrong
        return same + share * (1 - same) if share > 0 else max(least, same + share * (same - least))

    def _scale(self) -> float:
        """The speedup that earns the full reward: the headroom, or what was reached beyond it."""
        best = max((n.speedup or 0.0 for n in self.versions.by_id.values()), default=0.0)
        return max(self.headroom or self.settings.cap, self.settings.least_cap, best)

    def _count(self, node: Node) -> None:
        assert node.verdict is not None
        reward = self.reward(node.verdict) if node.parent is not None else self.settings.reward_same
        for at in (node, *node.ancestors):
            at.visits += 1
            at.reward_sum += reward
            at.reward_best = max(at.reward_best, reward)

    def _count_all(self) -> None:
        """Count every verdict anew, by the scale of now."""
        self._cap = self._scale()
        for node in self.versions.by_id.values():
            node.visits, node.reward_sum, node.reward_best = 0, 0.0, 0.0
        for node in self.versions.by_id.values():
            if node.told:
                self._count(node)

    def next(self, task: Task) -> Node | None:
        """Descend to the most promising open node that may widen, and widen it."""
        root = self.versions.root
        while not root.closed:
            node: Node | None = self._to_repair() or root
            while node is not None and not self._widens(node):
                node = self._best_child(node)
            if node is None:
                node = self._most_promising_unfinished()
            if node is None:
                return None
            child = self._widen(node, task)
            if child is not None:
                return child
        return None

    def _to_repair(self) -> Node | None:
        """A version that failed and that somebody would mend who was paid for it: before new ideas are bought."""
        for node in self.versions.by_id.values():
            failed = node.told and not (node.works or node.closed or node.children)
            if failed and self._may_widen(node) and not all(i.made for i in self.versions.untried(node)):
                return node
        return None

    def _widens(self, node: Node) -> bool:
        """Whether a new child of this version promises more than its best one."""
        if not self._may_widen(node):
            return False
        rival = self._best_child(node)
        if rival is None or not self.settings.competing:
            return True
        ideas = self.promising(node)
        if not ideas or node.speedup is None:
            return True
        expected = math.log2(node.speedup) + max(self.expectation(node, ideas[0].move), 0.0)
        share = max(-1.0, min(1.0, expected / math.log2(self._cap)))
        visits = node.visits + node.pending
        bonus = math.sqrt(math.log(visits + 1)) / (1 + len(node.children))
        value = self.settings.reward_same * (1 + share) + self.settings.exploration * bonus
        return value >= self._score(rival, node)

    def _may_widen(self, node: Node) -> bool:
        limit = self._child_limit(node)
        room = node.told and not node.spent and len(node.children) < limit
        return room and self.versions.is_open(node)

    def _child_limit(self, node: Node) -> float:
        if node.depth >= self.settings.max_depth:
            return 0
        if not node.works and self.settings.asymmetric:
            return self.settings.failed_children
        if not self.settings.progressive:
            return math.inf
        visits = node.visits + node.pending
        return max(1.0, self.settings.widening * math.pow(visits, self.settings.widening_power))

    def _best_child(self, node: Node) -> Node | None:
        """The open child to descend into; None where all wait for verdicts or are closed."""
        below = [*node.children, *node.links]
        for child in below:
            self._close_if_dead(child)
        open_children = [c for c in below if c.told and not c.closed]
        self._close_if_dead(node)
        return max(open_children, key=lambda c: self._score(c, node), default=None)

    def _score(self, child: Node, parent: Node) -> float:
        visits = child.visits + child.pending
        share = self.settings.best_share
        mean = child.reward_sum / visits
        bonus = math.sqrt(math.log(parent.visits + parent.pending + 1) / visits)
        return share * child.reward_best + (1 - share) * mean + self.settings.exploration * bonus

    def _link(self, node: Node) -> None:
        """Enter a version that was told under all others that a step leads to it from, and those it leads to under it.

        Done with its verdict, so that a restored search has the same links.
        """
        if not self.settings.transpositions or not node.works:
            return
        for idea in self.versions.ideas(node):
            child = self.versions.known(idea)
            if child is not None and child.told:
                self._join(node, child)
        key = node.ask.candidate.text_hash
        for other in [*self.versions.told(), self.versions.root]:
            if other.works and any(idea.text_hash == key for idea in self.versions.ideas(other)):
                self._join(other, node)

    def _join(self, parent: Node, child: Node) -> None:
        if child not in (parent, *parent.children, *parent.links) and child not in parent.ancestors:
            parent.links.append(child)
            child.others.append(parent)

    def _most_promising_unfinished(self) -> Node | None:
        """Where widening is used up everywhere: the best version that still has untried steps.

        Without this a small tree would wait for verdicts that a parallel ask could use better.
        """
        nodes = [
            n
            for n in self.versions.by_id.values()
            if n.works and not (n.closed or n.spent) and n.depth < self.settings.max_depth
        ]
        return max(nodes, key=lambda n: (n.reward_sum / n.visits) / (1 + len(n.children)), default=None)

    def _widen(self, node: Node, task: Task) -> Node | None:
        """Take first a leap, or else the untried step with the best expectation; None if nothing new came of it."""
        leap = self._leap(node, task)
        child = self.versions.grow(node, leap) if leap is not None else None
        if child is not None:
            return child
        for idea in self.promising(node):
            child = self.grow(node, idea, task)
            if child is not None:
                return child
        node.spent = True
        self._close_if_dead(node)
        return None

    def _leap(self, node: Node, task: Task) -> Proposal | None:
        """All steps at once that other versions were found to gain by, one for each subject.

        One step a verdict would take as many visits as there are steps; taken together they cost one.
        """
        memory = self.memory
        if memory is None or not self.settings.leaps or not node.works:
            return None
        helpful: list[tuple[float, Idea]] = []
        for idea in self.versions.ideas(node):
            if idea.made and all(map(memory.seen, idea.move.changes)):
                gain = self.expectation(node, idea.move)
                if gain >= self.settings.leap_gain:
                    helpful.append((gain, idea))
        chosen: list[Proposal] = []
        taken: set[str] = set()
        for _, idea in sorted(helpful, key=lambda pair: (-pair[0], pair[1].move.changes)):
            proposal = idea.make(task) if taken.isdisjoint(idea.move.subjects) else None
            if proposal is not None:
                taken |= idea.move.subjects
                chosen.append(proposal)
        if len(chosen) < 2:
            return None
        return joined(chosen, tuple(edit for proposal in chosen for edit in proposal.edits))

    def _pend(self, node: Node, by: int) -> None:
        weight = self.settings.virtual_visits
        for at in (node, *node.ancestors):
            at.pending += by * weight

    def _close_if_dead(self, node: Node) -> None:
        """Close a version below which nothing is left, and what that makes dead above it."""
        at: Node | None = node
        while at is not None and at.told and not at.closed:
            spent = at.spent or at.depth >= self.settings.max_depth or not self.versions.is_open(at)
            if not at.works:
                spent = spent or len(at.children) >= self.settings.failed_children
            if not (spent and all(child.closed for child in at.children)):
                return
            at.closed = True
            at = at.parent


def _failure_reward(state: State, settings: SearchSettings) -> float:
    if state in ("refused", "not_built", "illegal"):
        return settings.reward_not_built
    if state in ("crashed", "hung"):
        return settings.reward_crashed
    return settings.reward_wrong
