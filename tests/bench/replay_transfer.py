# SPDX-License-Identifier: Apache-2.0
"""What searches of other kernels are worth to a search: one table left out, over recorded tables.

    python -m tests.bench.replay_transfer TABLE.json.xz ... [--seeds 20] [--budget 40] [--json FILE]

For each table, the tree searches all others first, and their verdicts go into a store, as a user's would; then it
searches that table with the store and without. Said are the evaluations until the search has 90 % of the table's best
logarithmic gain (the budget where it never comes to them), with the 95 % bootstrap interval over tables and seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.replay import VARIANTS, interval, replay
from tests.bench.replay_table import Table, read_table

from warplens.agent.journal import trials
from warplens.agent.versions import Node
from warplens.measure.verdict import Verdict
from warplens.store.database import open_store
from warplens.store.rates import HitRate, Trial, hit_rates, record_trials

#: Share of a table's best logarithmic gain that counts as found.
SHARE = 0.9
_TREE = VARIANTS[0]


def evaluations(curve: Sequence[float], best: float) -> int:
    """Verdicts until `SHARE` of the best logarithmic gain; all where it was not reached."""
    bar = SHARE * math.log(best)
    return next((n for n, at in enumerate(curve, 1) if math.log(at) >= bar), len(curve))


def learned(tables: Sequence[Table], left_out: Table, seed: int, budget: int) -> list[HitRate]:
    """What the store says to a search of the table left out, after the tree has searched all others."""
    found: list[Trial] = []
    for table in tables:
        if table is left_out:
            continue

        def told(node: Node, verdict: Verdict, table: Table = table) -> None:
            found.extend(trials(node, verdict, "", table.features))

        replay(table, _TREE, seed, budget, on_told=told)
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder)) as store:
        record_trials(store, None, found)
        return hit_rates(store, left_out.features)


def compared(tables: Sequence[Table], seeds: int, budget: int) -> dict[str, object]:
    """Both ways over all tables in which something is to be gained."""
    with_store, without = list[float](), list[float]()
    worth = [table for table in tables if table.best >= 1.05]
    for table in worth:
        for seed in range(seeds):
            rates = learned(tables, table, seed, budget)
            with_store.append(evaluations(replay(table, _TREE, seed, budget, rates=rates), table.best))
            without.append(evaluations(replay(table, _TREE, seed, budget), table.best))
    return {
        "tables": [table.program for table in worth],
        "with the store": [round(x, 2) for x in interval(with_store)],
        "without": [round(x, 2) for x in interval(without)],
        "sooner": sum(a < b for a, b in zip(with_store, without, strict=True)),
        "later": sum(a > b for a, b in zip(with_store, without, strict=True)),
        "runs": len(without),
    }


def main() -> int:
    """Compare, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = compared([read_table(path) for path in options.tables], options.seeds, options.budget)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    if options.json:
        words = f"{' '.join(map(str, options.tables))} --seeds {options.seeds} --budget {options.budget}"
        command = f"python -m tests.bench.replay_transfer {words}"
        options.json.write_text(json.dumps({"command": command, **found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
