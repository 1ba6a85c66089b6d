# SPDX-License-Identifier: Apache-2.0
"""Policies and ablations of the search over recorded tables, at equal budget.

    python -m tests.bench.replay [TABLE.json…] [--modelled N] [--seeds 100] [--budget 60] [--json FILE]

Tables come from `replay_record.py` on a card; `--modelled` takes N by formula, which say nothing of real kernels. Each
line: the geometric mean of the best verified speedup after a quarter, a half and all of the budget, with the 95 %
bootstrap interval over seeds and tables; the share of the table's best logarithmic gain; wins against random.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from tests.bench.replay_model import modelled
from tests.bench.replay_table import Table, TableSpace, read_table

from warplens.agent.policies import POLICIES, PolicyName
from warplens.agent.search_settings import SearchSettings
from warplens.agent.versions import Node
from warplens.measure.verdict import Verdict
from warplens.store.rates import HitRate

#: Name, policy, settings that differ, parts of the space to do without.
Variant = tuple[str, PolicyName, dict[str, bool | int], tuple[str, ...]]
VARIANTS: tuple[Variant, ...] = (
    ("mcts", "mcts", {}, ()),
    ("greedy", "greedy", {}, ()),
    ("random", "random", {}, ()),
    ("without tools", "mcts", {}, ("tools",)),
    ("without priors", "mcts", {"priors": False}, ()),
    ("without memory", "mcts", {"memory": False}, ()),
    ("without templates", "mcts", {}, ("templates",)),
    ("without rewrites", "mcts", {}, ("rewrites",)),
    ("without leaps", "mcts", {"leaps": False}, ()),
    ("without widening", "mcts", {"progressive": False}, ()),
    ("without asymmetry", "mcts", {"asymmetric": False}, ()),
    ("with transpositions", "mcts", {"transpositions": True}, ()),
    ("without competing children", "mcts", {"competing": False}, ()),
    ("without virtual visits", "mcts", {"virtual_visits": 0}, ()),
)
BATCH = 8


def replay(
    table: Table,
    variant: Variant,
    seed: int,
    budget: int,
    batch: int = BATCH,
    *,
    rates: Sequence[HitRate] = (),
    on_told: Callable[[Node, Verdict], None] = lambda *_: None,
) -> list[float]:
    """The best verified speedup after each verdict."""
    _, policy, changed, without = variant
    settings = msgspec.convert({**msgspec.to_builtins(SearchSettings()), **changed}, SearchSettings)
    space = TableSpace(table, seed=seed, settings=settings, without=without, rates=rates)
    search = POLICIES[policy](
        space.baseline,
        path="table",
        kernel=table.kernel,
        space=space,
        settings=settings,
        seed=seed,
        headroom=table.headroom,
    )
    best, found = 1.0, list[float]()
    while len(found) < budget:
        asks = search.ask(min(batch, budget - len(found)))
        if not asks:
            break
        for ask in asks:
            verdict = space.verdict(ask.candidate)
            search.tell(ask.candidate.id, verdict)
            on_told(search.versions.by_id[ask.candidate.id], verdict)
            if verdict.state == "faster":
                best = max(best, verdict.timings[0].speedup.median)
            found.append(best)
    return found + [best] * (budget - len(found))


def interval(values: Sequence[float], resamples: int = 1000) -> tuple[float, float, float]:
    """The mean with its 95 % bootstrap interval."""
    draw = random.Random(0)
    means = sorted(sum(draw.choices(values, k=len(values))) / len(values) for _ in range(resamples))
    return sum(values) / len(values), means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


def summary(
    variant: Variant, curves: dict[tuple[str, int], list[float]], tables: Sequence[Table]
) -> dict[str, object]:
    """One variant over all tables and seeds, in numbers."""
    budget = len(next(iter(curves.values())))
    best = {table.program: max(math.log2(table.best), 1e-9) for table in tables}
    row: dict[str, object] = {"variant": variant[0]}
    for name, at in (("quarter", budget // 4), ("half", budget // 2), ("all", budget)):
        mean, low, high = interval([math.log2(curve[at - 1]) for curve in curves.values()])
        row[name] = [round(2**x, 4) for x in (mean, low, high)]
    shares = [math.log2(curve[-1]) / best[program] for (program, _), curve in curves.items()]
    row["share of the best gain"] = [round(x, 4) for x in interval(shares)]
    return row


def _work(job: tuple[Table, Variant, int, int]) -> tuple[str, str, int, list[float]]:
    table, variant, seed, budget = job
    return variant[0], table.program, seed, replay(table, variant, seed, budget)


def compare(
    tables: Sequence[Table], variants: Sequence[Variant], seeds: int, budget: int, workers: int = 1
) -> list[dict[str, object]]:
    """Every variant on every table with every seed."""
    jobs = [(t, v, s, budget) for v in variants for t in tables for s in range(seeds)]
    curves: dict[str, dict[tuple[str, int], list[float]]] = {v[0]: {} for v in variants}
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        done = map(_work, jobs) if workers == 1 else pool.map(_work, jobs, chunksize=4)
        for name, program, seed, curve in done:
            curves[name][(program, seed)] = curve
    rows = [summary(v, curves[v[0]], tables) for v in variants]
    for row, variant in zip(rows, variants, strict=True):
        if "random" in curves:
            mine, chance = curves[variant[0]], curves["random"]
            wins = sum(mine[k][-1] > chance[k][-1] * 1.005 for k in mine)
            losses = sum(mine[k][-1] < chance[k][-1] / 1.005 for k in mine)
            row["against random"] = {"wins": wins, "losses": losses, "runs": len(mine)}
    return rows


def main() -> int:
    """Compare, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--modelled", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tables = [*map(read_table, options.tables), *map(modelled, range(options.modelled))]
    if not tables:
        parser.error("name a table, or --modelled N")
    chosen = [v for v in VARIANTS if not options.only or v[0] in options.only]
    rows = compare(tables, chosen, options.seeds, options.budget, options.workers)
    for row in rows:
        figures = f"{row['quarter']} {row['half']} {row['all']} {row.get('against random')}"
        sys.stdout.write(f"{row['variant']:28} {figures}\n")
    if options.json:
        words = [str(t) for t in options.tables]
        words += [f"--modelled {options.modelled}"] if options.modelled else []
        counts = f"--seeds {options.seeds} --budget {options.budget}"
        answer = {
            "command": f"python -m tests.bench.replay {' '.join(words)} {counts}",
            "says": "modelled tables say nothing of real kernels" if options.modelled else "",
            "tables": [_described(table) for table in tables],
            "seeds": options.seeds,
            "budget": options.budget,
            "batch": BATCH,
            "rows": rows,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(answer, indent=1) + "\n")
    return 0


def _described(table: Table) -> dict[str, object]:
    named = {name: getattr(table, name) for name in ("program", "source", "budget", "gpu", "date")}
    return {**named, "points": len(table.points), "best": round(table.best, 4)}


if __name__ == "__main__":
    sys.exit(main())
