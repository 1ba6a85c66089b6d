# SPDX-License-Identifier: Apache-2.0
"""The random-search baseline: the same space searched at random, at the same budget and through the same calls."""

from __future__ import annotations

import random

from warplens.agent.edits import compose
from warplens.agent.search_settings import SearchSettings
from warplens.agent.versions import Ask, Node, Proposal, Space, Versions, joined, speedup_of
from warplens.measure.verdict import Verdict
from warplens_tools.text import SourceText, TextEdit

#: Draws that lead to known versions, in a row, before the space counts as exhausted.
DRAWS = 50


class RandomSearch:
    """Chains of one to `max_depth` steps, each drawn evenly from what the version so far allows.

    A chain changes nothing twice, and only its end is judged. Verdicts do not steer the draws.
    """

    def __init__(
        self,
        baseline: SourceText,
        *,
        path: str,
        kernel: str,
        space: Space,
        settings: SearchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.versions = Versions(baseline, path=path, kernel=kernel, space=space)
        self.settings = settings or SearchSettings()
        self.seed = seed
        #: Nothing is left to ask or to wait for.
        self.exhausted = False

    def ask(self, count: int = 1) -> list[Ask]:
        """Up to `count` new candidates; fewer when draws keep ending in known versions."""
        nodes = [self._draw() for _ in range(count)]
        return [node.ask for node in nodes if node is not None]

    def tell(self, candidate: str, verdict: Verdict) -> None:
        """Take the verdict of a candidate that was handed out."""
        node = self.versions.by_id[candidate]
        node.verdict, node.speedup = verdict, speedup_of(verdict)

    def restore(self, ask: Ask) -> None:
        """Enter a candidate that an earlier process handed out."""
        self.versions.add(ask)

    def _draw(self) -> Node | None:
        draw = random.Random(f"{self.seed}/{len(self.versions.by_id)}")
        for _ in range(DRAWS):
            chain = self._chain(draw, draw.randint(1, self.settings.max_depth))
            node = self.versions.grow(self.versions.root, chain) if chain else None
            if node is not None:
                return node
        self.exhausted = not self.versions.waiting()
        return None

    def _chain(self, draw: random.Random, length: int) -> Proposal | None:
        baseline = self.versions.root.text
        text, edits, steps = baseline, tuple[TextEdit, ...](), list[Proposal]()
        changed: set[str] = set()
        for _ in range(length):
            proposals = [p for p in self.versions.space.propose(text) if changed.isdisjoint(p.move.subjects)]
            if not proposals:
                break
            step = draw.choice(proposals)
            edits = compose(baseline, edits, step.edits)
            text = text.apply(list(step.edits))
            steps.append(step)
            changed |= step.move.subjects
        return joined(steps, edits) if edits else None
