# SPDX-License-Identifier: Apache-2.0
"""Tables by formula, for replays where no card has recorded any. They say nothing of real kernels.

They have what makes real spaces hard: rewrites that pay only after another, or only with the right numbers; numbers
that matter together; most steps without effect; findings that are often, not always, right about where the gain is.
"""

from __future__ import annotations

import itertools
import math
import random

from tests.bench.replay_table import Axis, Edge, Point, Structure, Table

from warplens.agent.priors import Cause, Rule
from warplens_tools.finding import Gain
from warplens_tools.tunable.parameter import Answer, ParameterKind

_AXES: tuple[tuple[str, ParameterKind, int, tuple[int, ...]], ...] = (
    ("block.x", "block", 256, (64, 128, 256, 512)),
    ("unroll", "unroll", 1, (1, 2, 4, 8)),
)
#: What the rewrite of that number brings along.
_BROUGHT: dict[int, tuple[str, ParameterKind, int, tuple[int, ...]]] = {
    0: ("kTileDepth", "tile", 16, (8, 16, 32, 64)),
    1: ("kOutputs", "tile", 4, (1, 2, 4, 8)),
}
DEPTH, REWRITES, WAYS = 3, 9, 4


def modelled(seed: int) -> Table:
    """One table: chains of up to three of nine rewrites, every value of at most four numbers.

    Of odd seeds the last four rewrites exclude each other: ways of doing the same, such as giving a row to a warp or to
    a block, of which a chain has one, and which bring much, but not equally much.
    """
    draw = random.Random(seed)
    effect = [draw.choice([0.0, 0.0, 0.0, -0.3, 0.2, 0.4]) for _ in range(REWRITES)]
    effect[draw.randrange(2)] = draw.uniform(1.2, 2.2)
    ways = set(range(REWRITES - WAYS, REWRITES)) if seed % 2 else set[int]()
    for way in sorted(ways):
        effect[way] = draw.gauss(3.0, 1.0)
    after = (draw.randrange(2, REWRITES), draw.randrange(0, 2), draw.uniform(0.5, 1.2))
    fails = draw.randrange(2, REWRITES)
    best = {name: draw.choice(values) for name, _, _, values in (*_AXES, *_BROUGHT.values())}
    weight = {name: draw.uniform(0.05, 0.35) for name in best}
    chains = [
        c
        for n in range(DEPTH + 1)
        for c in itertools.combinations(range(REWRITES), n)
        if len(ways & set(c)) < 2
    ]
    numbers = {chain: i for i, chain in enumerate(chains)}

    def log_gain(chain: tuple[int, ...], values: dict[str, int]) -> float:
        total = sum(effect[r] for r in chain)
        if after[0] in chain and after[1] in chain:
            total += after[2]
        for name, value in values.items():
            total -= weight[name] * min(abs(math.log2(value / best[name])), 3.0)
        large = values.get("kTileDepth", 0) * values.get("kOutputs", 1) * values["block.x"]
        return total - (0.8 if large > 2**15 else 0.0)

    start = log_gain((), {name: value for name, _, value, _ in _AXES})
    structures, points = list[Structure](), list[Point]()
    for chain in chains:
        axes = tuple(Axis(*a) for a in (*_AXES, *(_BROUGHT[r] for r in chain if r in _BROUGHT)))
        edges = tuple(
            Edge(f"rewrite-{r}", f"rewrite-{r}", f"rewrite {r}", numbers[tuple(sorted((*chain, r)))])
            for r in range(REWRITES)
            if r not in chain and len(chain) < DEPTH and not (r in ways and ways & set(chain))
        )
        structures.append(Structure(axes, edges))
        for values in itertools.product(*(a.values for a in axes)):
            at = {a.name: v for a, v in zip(axes, values, strict=True)}
            speedup = 2 ** (log_gain(chain, at) - start + draw.gauss(0.0, 0.005))
            wrong = fails in chain
            state = "faster" if speedup > 1.01 else "slower" if speedup < 0.99 else "same"
            points.append(
                Point(numbers[chain], values, "wrong", reason="planted")
                if wrong
                else Point(numbers[chain], values, state, speedup, 0.01)  # type: ignore[arg-type]
            )
    rules = {
        f"rewrite-{r}": Rule(f"rewrite-{r}", 0.1, 1.05, (Answer(f"finding-{r}"),)) for r in range(REWRITES)
    }
    for r in sorted(ways):
        rules[f"rewrite-{r}"] = Rule(f"rewrite-{r}", 0.5, draw.choice((4.0, 5.0, 8.0)))
    # Findings see half of what pays, and one thing in five that does not.
    causes = tuple(
        Cause(f"WL{100 + r}", f"finding-{r}", "k", draw.choice(("high", "medium", "low")), Gain.of(g, 2 * g))
        for r in range(REWRITES)
        if draw.random() < (0.6 if effect[r] > 0 else 0.2)
        for g in (round(2 ** max(effect[r] * draw.uniform(0.4, 1.5), 0.1), 2),)
    )
    return Table(
        source="modelled",
        program=f"modelled {seed}",
        kernel="k",
        budget=f"chains of up to {DEPTH} of {REWRITES} rewrites, every value of up to four numbers",
        command=f"tests.bench.replay_model.modelled({seed})",
        structures=tuple(structures),
        points=tuple(points),
        rules=rules,
        causes=causes,
    )
