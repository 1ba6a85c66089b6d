# SPDX-License-Identifier: Apache-2.0
"""Where the judge's seconds go, on programs of the suite with their experts' versions.

    python tests/bench/judge_seconds.py --out FILE [--seconds 120] [NAME ...]

Of each: a first verdict with nothing kept of an earlier run, against its bound of six runs of the program and 6 s; the
baseline of a second judge, which starts where the first has left it; and a confirmation, against the runs it makes.
Written after each program; what is written already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.errors import WarplensError
from warplens_tools.process.task import UNATTENDED

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.bench.judge import say  # noqa: E402
from tests.gpu import batches  # noqa: E402

NAMES = ("nbody", "column_sums", "conv2d", "histogram", "matmul", "softmax", "spmv", "adam")
#: Runs of the program, and seconds, within which the first verdict is wanted.
RUNS, SECONDS = 6.0, 6.0


def measured(run: batches.Run) -> dict[str, Any]:
    """One program."""
    candidate = batches.candidate(run.entries[0], Path(run.workload.source))
    settings = MeasureSettings()
    started = time.monotonic()
    with Judge(run.workload, kernel=run.kernel, settings=settings) as judge:
        judge._open(UNATTENDED, fresh=True)
        own = judge.baseline().program.seconds
        opened = time.monotonic()
        (verdict,) = judge.judge([candidate])
        first = time.monotonic()
        costs = judge.costs()
        row: dict[str, Any] = {
            "program_seconds": round(own, 2),
            "baseline": round(opened - started, 2),
            "first_verdict": round(first - started, 2),
            "wanted": round(RUNS * own + SECONDS, 2),
            "state": verdict.state,
            "reason": verdict.reason,
            "cost": {name: round(seconds, 3) for name, seconds in verdict.cost.items()},
            "costs": costs,
        }
        if verdict.state == "faster":
            confirmed = judge.confirm(candidate)
            row |= {"confirmation": round(time.monotonic() - first, 2), "steps": confirmed.cost}
            row |= {"confirmed": confirmed.verdict.state, "why": confirmed.verdict.reason}
            row["unknown"] = [f"{u.what}: {u.why}" for u in confirmed.unknown]
    started = time.monotonic()
    with Judge(run.workload, kernel=run.kernel, settings=settings) as judge:
        judge.baseline()
        row["baseline_again"] = round(time.monotonic() - started, 2)
    return row


def line(name: str, row: dict[str, Any]) -> str:
    """A row in words."""
    if "failed" in row:
        return f"{name}: {row['failed']}"
    times = f"program {row['program_seconds']} s, baseline {row['baseline']}, again {row['baseline_again']}"
    verdict = (
        f"first verdict {row['first_verdict']} of {row['wanted']} ({row['state']}: {row['reason'][:70]})"
    )
    confirmed = (
        f"confirmation {row['confirmation']}: {row['confirmed']} {row['steps']}" if "steps" in row else ""
    )
    return f"{name}: {times}, {verdict}; {confirmed}\n    {row['cost']}\n    {row['costs']}"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    rows: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    runs = {run.entries[0].name: run for run in batches.runs(batches.experts())}
    for name in options.names:
        if name in rows or time.monotonic() >= ends:
            continue
        try:
            rows[name] = measured(runs[name])
        except WarplensError as error:
            rows[name] = {"failed": f"{type(error).__name__}: {error}"}
        say(line(name, rows[name]))
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
