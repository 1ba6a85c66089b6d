# SPDX-License-Identifier: Apache-2.0
"""Greedy search: always the most promising step on the best version so far, and never back."""

from __future__ import annotations

from warplens.agent.searcher import Policy
from warplens.agent.versions import Node
from warplens_tools.process.task import Task


class GreedySearch(Policy):
    """Takes steps on the fastest version; where it has none left, on the next fastest."""

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
