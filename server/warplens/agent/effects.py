# SPDX-License-Identifier: Apache-2.0
"""What each change is worth by itself, fitted over all versions that were judged.

An additive model in log2 of the speedup: a version's gain is the sum of the effects of its changes, each
held towards none by a ridge. It lets what one branch of the tree learned be used in all others; what
changes do only together is left to the tree, which measures combinations.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Coordinate descent on a few dozen samples settles to far below the measurement noise in ten sweeps.
SWEEPS = 10


class Effects:
    """Effects of changes by key. `weight` is how many samples the ridge counts for."""

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._samples: list[tuple[tuple[str, ...], float]] = []
        self._fitted: dict[str, float] | None = {}

    def add(self, changes: Iterable[str], gain: float) -> None:
        """A judged version: its changes and its gain in log2."""
        self._samples.append((tuple(changes), gain))
        self._fitted = None

    def of(self, change: str, prior: float) -> float:
        """The effect of a change in log2; its prior where no judged version had it."""
        return self._fit().get(change, prior)

    def seen(self, change: str) -> int:
        """In how many judged versions a change was."""
        return sum(change in changes for changes, _ in self._samples)

    def _fit(self) -> dict[str, float]:
        if self._fitted is None:
            effects = {change: 0.0 for changes, _ in self._samples for change in changes}
            counts = {change: self.seen(change) for change in effects}
            for _ in range(SWEEPS):
                for change in effects:
                    residual = sum(
                        gain - sum(effects[other] for other in changes if other != change)
                        for changes, gain in self._samples
                        if change in changes
                    )
                    effects[change] = residual / (self._weight + counts[change])
            self._fitted = effects
        return self._fitted
