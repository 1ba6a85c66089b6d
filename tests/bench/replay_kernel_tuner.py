# SPDX-License-Identifier: Apache-2.0
"""Kernel Tuner's strategies beside the tree, over the same recorded tables, at equal numbers of verdicts.

    uv pip install --group compare
    python -m tests.bench.replay_kernel_tuner TABLE.json.xz ... [--seeds 20] [--budget 40] [--json FILE]

Kernel Tuner runs in its simulation mode, as its authors compare strategies: each table becomes one of its cache files.
It is given the table twice. *Its parameters alone* are those of the user's own text, which is what a user of Kernel
Tuner declares; *with versions* has one parameter more, which of the texts that our rewrites made is taken, so that it
chooses among the same points as the tree. A point that was not judged faster or the same counts as failed, as there.
Said are the geometric mean of the best verified speedup after a quarter, a half and all of the budget, with the 95 %
bootstrap interval over tables and seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import kernel_tuner
import numpy
from constraint import Constraint
from tests.bench.replay import VARIANTS, Variant, interval, replay
from tests.bench.replay_table import Point, Table, read_table

#: Kernel Tuner's chance, and two strategies that go by what they found; its Bayesian one wants more points than some
#: tables have.
STRATEGIES = ("random_sample", "genetic_algorithm", "simulated_annealing")
_OURS: tuple[Variant, ...] = tuple(v for v in VARIANTS if v[0] in {"mcts", "random", "without rewrites"})
#: The name of the parameter that says which version is taken.
_VERSION = "version"
_FAILED = "RuntimeFailedConfig"


class Declared:
    """A table as Kernel Tuner's user would declare it: parameters, and the time of each point over the user's own."""

    def __init__(self, table: Table, *, versions: bool) -> None:
        points = [p for p in table.points if versions or p.structure == 0]
        self._axes = [{axis.name: axis.value for axis in s.axes} for s in table.structures]
        names = sorted({name for p in points for name in self._axes[p.structure]})
        rows = [self._row(table, p, names, versions) for p in points]
        self.times = {row: _time(p) for row, p in zip(rows, points, strict=True)}
        #: Of each parameter its values, in the order in which Kernel Tuner names them in a key.
        self.parameters: dict[str, list[int]] = {}
        for at, name in enumerate([_VERSION, *names] if versions else names):
            self.parameters[re.sub(r"\W+", "_", name)] = sorted({row[at] for row in rows})

    def _row(self, table: Table, point: Point, names: Sequence[str], versions: bool) -> tuple[int, ...]:
        """A point's values; a parameter that its version lacks has one value, 0."""
        own = dict(zip((a.name for a in table.structures[point.structure].axes), point.values, strict=True))
        values = [own.get(name, 0) for name in names]
        return (point.structure, *values) if versions else tuple(values)

    def cache(self) -> dict[str, object]:
        """The file that Kernel Tuner's simulation reads."""
        names = list(self.parameters)
        entries: dict[str, dict[str, object]] = {}
        for row, time in self.times.items():
            said = {"time": time} if time is not None else {"time": _FAILED, "__error__": _FAILED}
            spent = dict.fromkeys(("compile_time", "verification_time", "benchmark_time"), 1.0)
            entries[",".join(map(str, row))] = {**dict(zip(names, row, strict=True)), **said, **spent}
        return {
            "device_name": "recorded",
            "kernel_name": "k",
            "problem_size": [1],
            "tune_params_keys": names,
            "tune_params": self.parameters,
            "objective": "time",
            "cache": entries,
        }


def _time(point: Point) -> float | None:
    return 1 / point.speedup if point.state in {"faster", "same", "slower"} and point.speedup else None


class Among(Constraint):  # type: ignore[misc, unused-ignore]
    """Values that some point has. Asked of values not yet all chosen, as the products of all are too many."""

    def __init__(self, rows: Sequence[tuple[int, ...]]) -> None:
        self.rows = rows

    def __call__(
        self, variables: Sequence[str], _domains: object, chosen: dict[str, int], *_: object
    ) -> bool:
        known = [(at, chosen[name]) for at, name in enumerate(variables) if name in chosen]
        return any(all(row[at] == value for at, value in known) for row in self.rows)


def tuned(declared: Declared, strategy: str, seed: int, budget: int) -> float:
    """The best speedup among so many points that a strategy asks for; 1 where none is faster."""
    random.seed(seed)
    numpy.random.seed(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / "cache.json"
        file.write_text(json.dumps(declared.cache()))
        with contextlib.redirect_stdout(io.StringIO()):
            results, _ = kernel_tuner.tune_kernel(
                "k",
                "void k() {}",
                1,
                [],
                declared.parameters,
                restrictions=[Among(tuple(declared.times))],
                lang="C",
                simulation_mode=True,
                cache=str(file),
                strategy=strategy,
                strategy_options={"max_fevals": min(budget, len(declared.times))},
                quiet=True,
            )
    times = [r["time"] for r in results if isinstance(r["time"], float)]
    return max([1.0, *(1 / time for time in times if time)])


def _row(name: str, curves: Sequence[Sequence[float]]) -> dict[str, object]:
    """One way's figures: of each table and seed the best after a quarter, half and all of the budget."""
    row: dict[str, object] = {"way": name}
    for at, when in enumerate(("quarter", "half", "all")):
        row[when] = [round(2**x, 4) for x in interval([math.log2(curve[at]) for curve in curves])]
    return row


def compared(tables: Sequence[Table], seeds: int, budget: int) -> list[dict[str, object]]:
    """Every way over all tables and seeds."""
    parts = (budget // 4, budget // 2, budget)
    rows = []
    for variant in _OURS:
        found = [replay(t, variant, seed, budget) for t in tables for seed in range(seeds)]
        rows.append(_row(f"Warplens, {variant[0]}", [[curve[n - 1] for n in parts] for curve in found]))
    for versions, given in ((False, "its parameters alone"), (True, "with versions")):
        declared = [Declared(table, versions=versions) for table in tables]
        for strategy in STRATEGIES:
            best = [
                [tuned(d, strategy, seed, n) if len(d.times) > 1 else 1.0 for n in parts]
                for d in declared
                for seed in range(seeds)
            ]
            rows.append(_row(f"Kernel Tuner, {strategy}, {given}", best))
            sys.stderr.write(f"{rows[-1]}\n")
    return rows


def main() -> int:
    """Compare, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = compared([read_table(path) for path in options.tables], options.seeds, options.budget)
    for row in rows:
        sys.stdout.write(f"{row['way']!s:58} {row['quarter']} {row['half']} {row['all']}\n")
    if options.json:
        names = " ".join(map(str, options.tables))
        answer = {
            "command": f"python -m tests.bench.replay_kernel_tuner {names} --seeds {options.seeds} "
            f"--budget {options.budget}",
            "kernel_tuner": kernel_tuner.__version__,
            "seeds": options.seeds,
            "budget": options.budget,
            "rows": rows,
        }
        options.json.write_text(json.dumps(answer, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
