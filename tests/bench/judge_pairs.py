# SPDX-License-Identifier: Apache-2.0
"""The judge's clock, in place: the same machine code against itself, and a true gain of 3 %.

    python tests/bench/judge_pairs.py --out FILE [--pairs 25] [--seconds 95]

Each kernel is built once and visited with many candidates that are the same machine code, each timed in both cache
states: a pair each. Results are compared as ever, on the program's own inputs alone. Written after each kernel; what is
written already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.errors import WarplensError
from warplens_tools.process.task import UNATTENDED

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.bench.judge import candidate, say, workload  # noqa: E402

SETTINGS = MeasureSettings(measure_identical=True, perturb_inputs=False)
FASTER = [["WASTE 42", "WASTE 2"]]
#: Program, arguments, edits, and the verdict that is right.
KERNELS: tuple[tuple[str, str, list[list[str]], str], ...] = (
    ("wasted", "16384", FASTER, "faster"),
    ("affine", "8192", [], "same"),
    ("affine", "256", [], "same"),
    ("product", "", [], "same"),
    ("affine", "65536", [], "same"),
)


def judged_often(judge: Judge, one: Candidate, times: int) -> list[Verdict]:
    """The verdicts on one candidate that is built once and visited so many times."""
    opened = judge._open(UNATTENDED)
    told: list[Verdict] = []
    built = judge._build(opened, [one], told.append, UNATTENDED)
    copies = [
        msgspec.structs.replace(
            b,
            candidate=msgspec.structs.replace(b.candidate, id=f"{one.id} {number}"),
            job=msgspec.structs.replace(b.job, id=f"{one.id} {number}"),
        )
        for b in built
        for number in range(times)
    ]
    if copies:
        judge._visit(opened, copies, told.append, UNATTENDED)
    return told


def measured(program: str, arguments: str, edits: list[list[str]], pairs: int) -> dict[str, Any]:
    """The verdicts on so many candidates of one machine code."""
    work = workload(program, *arguments.split())
    with Judge(work, settings=SETTINGS) as judge:
        started = time.monotonic()
        baseline = judge.baseline()
        verdicts = judged_often(judge, candidate(Path(work.source), "one", edits), pairs)
        seconds = time.monotonic() - started
        costs = judge.costs()
    timings = [t for v in verdicts for t in v.timings]
    return {
        "program": f"{program} {arguments}".strip(),
        "kernel_us": round(baseline.timing.median_ns / 1e3, 2),
        "states": dict(Counter(v.state for v in verdicts)),
        "pairs": len(timings),
        "speedup": round(median([t.speedup.median for t in timings]), 4) if timings else None,
        "largest_difference": round(max((abs(t.speedup.median - 1) for t in timings), default=0.0), 4),
        "odd": [v.reason for v in verdicts if v.state not in ("same", "faster")][:3],
        "cost": {name: round(median([v.cost[name] for v in verdicts]), 4) for name in verdicts[0].cost},
        "seconds": round(seconds, 2),
        "costs": costs,
    }


def main() -> None:
    """Measure, and write after every kernel."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=95.0)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    rows: list[dict[str, Any]] = (
        json.loads(options.out.read_text())["kernels"] if options.out.exists() else []
    )
    for program, arguments, edits, right in KERNELS:
        title = f"{program} {arguments}".strip()
        if time.monotonic() >= ends or any(row["program"] == title for row in rows):
            continue
        try:
            row = measured(program, arguments, edits, 20 if edits else options.pairs) | {"right": right}
        except WarplensError as error:
            row = {"program": title, "right": right, "failed": str(error)}
        rows.append(row)
        say(f"{title}: {row.get('states', row.get('failed'))} {row.get('seconds', 0)} s")
        options.out.parent.mkdir(parents=True, exist_ok=True)
        found = {"kernels": rows, "settings": msgspec.to_builtins(SETTINGS)}
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    alike = [row for row in rows if row["right"] == "same" and "states" in row]
    false = sum(row["states"].get("faster", 0) + row["states"].get("slower", 0) for row in alike)
    say(
        f"the same code: {false} of {sum(sum(row['states'].values()) for row in alike)} candidates not the same"
    )


if __name__ == "__main__":
    main()
