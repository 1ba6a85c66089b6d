# SPDX-License-Identifier: Apache-2.0
"""The policies of the search by name; all share versions, sources, memory, judge and journal.

The tree has a module of its own; greedy search and the random one that policies are held against stand here.
"""

from __future__ import annotations

import random
from typing import Literal

from warplens.agent.moves import Proposal, joined
from warplens.agent.searcher import Policy
from warplens.agent.tree import SearchTree
from warplens.agent.versions import Node
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task

#: Draws that lead to known versions, in a row, before the space counts as exhausted.
DRAWS = 50


class GreedySearch(Policy):
    """Takes the most promising step on the fastest version, and never goes back; where it has none left, on the next
    fastest.
    """

    def next(self, task: Task) -> Node | None:
        """The most promising step of the fastest version that has one."""
        working = [n for n in self.versions.by_id.values() if n.told and n.works and not n.closed]
        for node in sorted(working, key=lambda n: -(n.speedup or 0.0)):
            for idea in self.promising(node):
                child = self.grow(node, idea, task)
                if child is not None:
                    return child
            node.closed = not self.versions.waiting()
        return None


class RandomSearch(Policy):
    """The baseline: the same space searched at random, at the same budget and through the same calls.

    Chains of one to `max_depth` steps, each drawn evenly from what the version so far allows.

    A chain changes nothing twice, and only its end is judged. Verdicts do not steer the draws, and only steps are
    drawn whose making costs nothing.
    """

    def next(self, task: Task) -> Node | None:
        """The end of a chain that leads to a new version."""
        draw = random.Random(f"{self.seed}/{len(self.versions.by_id)}")
        for _ in range(DRAWS):
            node = self._drawn(draw, draw.randint(1, self.settings.max_depth), task)
            if node is not None:
                return node
        return None

    def _drawn(self, draw: random.Random, length: int, task: Task) -> Node | None:
        root = self.versions.root
        at, steps, changed = root, list[Proposal](), set[str]()
        for _ in range(length):
            ideas = [i for i in self.versions.ideas(at) if i.made and changed.isdisjoint(i.move.subjects)]
            step = None
            while ideas and step is None:
                step = ideas.pop(draw.randrange(len(ideas))).make(task)
            if step is None:
                break
            try:
                at = self.versions.sketch(at, step)
            except InputError:  # its edits touch the same place
                break
            if self.versions.space.illegal(at.text):
                return None
            steps.append(step)
            changed |= step.move.subjects
        return self.versions.grow(root, joined(steps, at.ask.candidate.edits)) if steps else None


PolicyName = Literal["mcts", "greedy", "random"]
POLICIES: dict[PolicyName, type[Policy]] = {
    "mcts": SearchTree,
    "greedy": GreedySearch,
    "random": RandomSearch,
}
