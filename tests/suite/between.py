# SPDX-License-Identifier: Apache-2.0
"""What a model's proposals are worth in one arm of a study against another, with intervals.

Of each program that both arms have the same number of proposals is taken, the first ones asked for. A proposal that is
not faster counts as 1, since the search then keeps what it has.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

#: Resamples of the bootstrap, and the ends of its 95 % interval.
_RESAMPLES, _LOW, _HIGH = 4000, 0.025, 0.975
#: One arm's proposals of one program, as logarithms of their speedups.
Logs = Sequence[float]
#: What proposals of one program come to.
Figure = Callable[[Logs], float]


def between(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
    """The first arm's speedups over the second's: of a proposal, and of the best of each program, in geometric mean;
    None where they have no program in common.

    The intervals are of these programs, by a bootstrap over each program's proposals in each arm (Efron 1979): what
    another answer of the same model might have been. The best of a resample is at most the best that there was, so its
    interval leans low on both sides.
    """
    other = {row["program"]: row for row in second["rows"]}
    pairs = {
        row["program"]: alike(logs(row), logs(other[row["program"]]))
        for row in first["rows"]
        if row["program"] in other
    }
    pairs = {name: pair for name, pair in pairs.items() if pair[0]}
    if not pairs:
        return None
    return {
        "first": first["name"],
        "second": second["name"],
        "proposals_of_each": {name: len(pair[0]) for name, pair in pairs.items()},
        "proposal": interval(list(pairs.values()), mean),
        "best": interval(list(pairs.values()), max),
        "by_program": {
            name: {"proposal": _ratio(pair, mean), "best": _ratio(pair, max)} for name, pair in pairs.items()
        },
    }


def logs(row: dict[str, Any]) -> list[float]:
    """A program's proposals in the order of their asks."""
    return [math.log(one["speedup"]) if one["state"] == "faster" else 0.0 for one in row["tried"]]


def alike(first: Logs, second: Logs) -> tuple[Logs, Logs]:
    """As many of each."""
    count = min(len(first), len(second))
    return first[:count], second[:count]


def interval(
    pairs: Sequence[tuple[Logs, Logs]], figure: Figure, *, resamples: int = _RESAMPLES
) -> dict[str, float]:
    """The geometric mean over programs of the first's figure over the second's, with its 95 % interval."""
    draw = random.Random(1)
    found = sorted(
        mean(figure(draw.choices(a, k=len(a))) - figure(draw.choices(b, k=len(b))) for a, b in pairs)
        for _ in range(resamples)
    )
    last = len(found) - 1
    return {
        "ratio": round(math.exp(mean(figure(a) - figure(b) for a, b in pairs)), 3),
        "low": round(math.exp(found[round(_LOW * last)]), 3),
        "high": round(math.exp(found[round(_HIGH * last)]), 3),
    }


def _ratio(pair: tuple[Logs, Logs], figure: Figure) -> float:
    return round(math.exp(figure(pair[0]) - figure(pair[1])), 3)
