# SPDX-License-Identifier: Apache-2.0
"""What a search has concluded so far, for all branches of its tree: what each change is worth, and what fails.

Effects are an additive model in log2 of the speedup: a version's gain is the sum of the effects of its changes, each
held towards none by a ridge. What changes do only together is left to the tree, which measures combinations. A change
never tried is expected to do what its like did: other values of the same number by their distance, the same rule at
other places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from warplens.agent.moves import Move, subject
from warplens.agent.search_settings import SearchSettings
from warplens.agent.versions import Node, state_of

#: Coordinate descent on a few dozen samples settles to far below the measurement noise in ten sweeps.
SWEEPS = 10
#: Gains beyond these, in log2, tell no more of a change.
LEAST, MOST = -1.0, 4.0


class Memory:
    """Conclusions from all verdicts of one search. Append-only."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings
        self._samples: list[tuple[tuple[str, ...], float]] = []
        #: Samples that have a change, by its name; changes of a subject; subjects by the rule that made them.
        self._having: dict[str, list[int]] = {}
        self._changes: dict[str, list[str]] = {}
        self._subjects: dict[str, list[str]] = {}
        self._worked: dict[str, int] = {}
        self._fitted: dict[str, float] | None = {}

    def told(self, node: Node) -> None:
        """A verdict on a version."""
        gain = self._settings.failure_gain if node.speedup is None else math.log2(node.speedup)
        changes = tuple(state_of(node).values())
        for change in changes:
            self._having.setdefault(change, []).append(len(self._samples))
            _once(self._changes.setdefault(subject(change), []), change)
        move = node.ask.move
        for change in move.changes:
            if move.rule:
                _once(self._subjects.setdefault(move.rule, []), subject(change))
        for change in changes:
            self._worked[change] = self._worked.get(change, 0) + node.works
        self._samples.append((changes, max(LEAST, min(MOST, gain))))
        self._fitted = None

    def seen(self, change: str) -> int:
        """In how many judged versions a change was."""
        return len(self._having.get(change, ()))

    def effect(self, change: str) -> float:
        """The effect of a change in log2; none where no judged version had it."""
        return self._fit().get(change, 0.0)

    def expect(self, change: str, move: Move) -> float:
        """The effect that a change of a step is expected to have, in log2, by its prior and what its like did."""
        prior = move.expected / max(len(move.changes), 1)
        effects = self._fit()
        if change in effects:
            return effects[change]
        next_to_best = self._next_to_best(change, effects)
        if next_to_best is not None:
            return next_to_best
        total, weight = prior * self._settings.prior_trials, self._settings.prior_trials
        for other, likeness in self._like(change, move).items():
            total, weight = total + likeness * effects[other], weight + likeness
        return total / weight

    def _next_to_best(self, change: str, effects: Mapping[str, float]) -> float | None:
        """For a number next to the best one tried, where that helped: somewhat more than it, as climbing expects."""
        name, _, value = change.partition("=")
        tried = [(effects[other], other.partition("=")[2]) for other in self._changes.get(name, ())]
        gain, best = max(tried, default=(0.0, ""))
        if gain < self._settings.leap_gain or not (value.isdigit() and best.isdigit()):
            return None
        return gain * self._settings.climb if _octaves(value, best) <= 1.0 else None

    def fails(self, move: Move) -> bool:
        """Whether a step was tried on several versions and never ran right."""
        return any(
            self.seen(change) >= self._settings.strikes and not self._worked.get(change, 0)
            for change in move.changes
        )

    def _like(self, change: str, move: Move) -> Mapping[str, float]:
        """Changes that were tried, by how much they say of one that was not, 0 to 1."""
        name, _, value = change.partition("=")
        like: dict[str, float] = {}
        for other in self._subjects.get(move.rule, ()) if not value else ():
            like |= dict.fromkeys(self._changes.get(other, ()), self._settings.same_rule)
        for sibling in self._changes.get(name, ()):
            like[sibling] = self._settings.next_value ** _octaves(value, sibling.partition("=")[2])
        return like

    def _fit(self) -> dict[str, float]:
        if self._fitted is None:
            effects = dict.fromkeys(self._having, 0.0)
            for _ in range(SWEEPS):
                for change, having in self._having.items():
                    residual = 0.0
                    for index in having:
                        changes, gain = self._samples[index]
                        residual += gain - sum(effects[other] for other in changes if other != change)
                    effects[change] = residual / (self._settings.prior_trials + len(having))
            self._fitted = effects
        return self._fitted


def _once(listed: list[str], name: str) -> None:
    if name not in listed:
        listed.append(name)


def _octaves(value: str, other: str) -> float:
    """Distance of two numbers in octaves, one at least; 1 for what are no numbers."""
    if not (value.isdigit() and other.isdigit()):
        return 1.0
    return max(1.0, abs(math.log2(max(int(value), 1) / max(int(other), 1))))


def summed(memory: Memory | None, changes: Iterable[str], replaced: Iterable[str], move: Move) -> float:
    """Expected log2 gain of changes that take the place of others."""
    if memory is None:
        return move.expected
    return sum(memory.expect(change, move) for change in changes) - sum(map(memory.effect, replaced))
