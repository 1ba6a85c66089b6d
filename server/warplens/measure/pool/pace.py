# SPDX-License-Identifier: Apache-2.0
"""How many candidates a lane is given at once, from what those before it took."""

from __future__ import annotations

import math

from warplens.measure.costs import BESIDE, ONCE, OWN, TIME
from warplens.measure.verdict import TIMED, Verdict

#: Candidates of a first chunk: half a usual one, so that the first verdicts come soon and guide what is asked next.
FIRST = 4
#: A visit's own costs (the program's way to the launch, learning the kernel) may take this share of its candidates'.
_ONCE_SHARE = 1 / 3


class Pace:
    """What candidates of one search cost, in seconds."""

    def __init__(self, most: int) -> None:
        """`most`: candidates of a chunk where they cost little."""
        self._most = most
        self._once: list[float] = []
        self._own: list[float] = []
        self._build: list[float] = []

    def told(self, verdict: Verdict, together: int) -> None:
        """A verdict of a visit of so many candidates."""
        if verdict.state not in TIMED or TIME not in verdict.cost:
            return  # cost less than what is to come
        cost = verdict.cost
        self._once.append(together * sum(s for name, s in cost.items() if name in ONCE))
        self._own.append(sum(s for name, s in cost.items() if name in OWN))
        self._build.append(sum(s for name, s in cost.items() if name in BESIDE))

    def chunk(self) -> int:
        """Candidates of the next chunk: few where each takes long, as they wait for each other's verdicts."""
        if not self._own:
            return min(FIRST, self._most)
        own = max(_mean(self._own), 1e-6)
        return max(min(FIRST, self._most), min(self._most, math.ceil(_mean(self._once) / _ONCE_SHARE / own)))

    def fitting(self, left: float, before: int) -> int:
        """How many would be judged within `left` seconds, with `before` candidates of others at the card first."""
        if not self._own or math.isinf(left):
            return self._most
        own, once = max(_mean(self._own), 1e-6), _mean(self._once)
        # what is built meanwhile takes no time of its own
        waiting = before * own + once if before else _mean(self._build)
        return max(0, math.floor((left - waiting - once) / own))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
