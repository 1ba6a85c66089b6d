# SPDX-License-Identifier: Apache-2.0
"""The search on the suite, on the GPU of this machine, beside what an expert made of each program.

    python -m tests.suite.search [NAME ...] [--budget 200] [--seconds 60] [--search mcts] [--out FILE]
        [--answers DIR] [--experts FILE]

An expert's version is measured as the user's is: its kernel in place, in its own program. `share` is the search's
part of the expert's gain on a logarithmic scale; a program on which the expert gained less than 5 % has none.
`--experts` takes the programs' and the experts' times from an earlier result of the same card instead.
Each search has a store of its own, so that none helps another. The result is written after every program.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.suite.catalogue import Program, programs

from warplens.measure.judge import Judge
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import WarplensError
from warplens_tools.run.workload import Workload

ROOT = Path(__file__).parents[2]
#: Below this an expert gained nothing that a share could be taken of.
LEAST_GAIN = 1.05


def kernel_ns(path: Path, kernel: str) -> float | None:
    """Median time of the kernel in its own program; None where it cannot be measured."""
    try:
        with Judge(Workload(str(path), str(path)), kernel=kernel) as judge:
            return judge.baseline().timing.median_ns
    except WarplensError as error:
        sys.stderr.write(f"{path.name}: {error}\n")
        return None


def searched(program: Program, given: argparse.Namespace) -> dict[str, Any]:
    """What the command says of one program."""
    command = [sys.executable, "-m", "warplens", "optimize", str(program.path), "--kernel", program.kernel]
    command += ["--budget", str(given.budget), "--seconds", str(given.seconds), "--search", given.search]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "WARPLENS_HOME": home}
        started = time.monotonic()
        try:
            done = subprocess.run(
                [*command, "--format", "json"],
                capture_output=True,
                text=True,
                env=environment,
                cwd=ROOT,
                check=False,
                timeout=2 * given.seconds + 120,
            )
        except subprocess.TimeoutExpired:
            return {"error": "did not end in time"}
    wall = round(time.monotonic() - started, 1)
    if done.returncode > 1 or not done.stdout.strip():
        return {"error": done.stderr.strip()[-800:], "wall_seconds": wall}
    if given.answers:
        given.answers.mkdir(parents=True, exist_ok=True)
        (given.answers / f"{program.name}.json").write_text(done.stdout)
    answer = json.loads(done.stdout)
    timings = answer["proof"]["verdict"]["timings"] if answer.get("proof") else []
    states = [entry["state"] for entry in answer["tried"]]
    return {
        "outcome": answer["outcome"],
        "reason": answer["reason"],
        "speedup": timings[0]["speedup"] if timings else None,
        "judged": answer["spent"]["candidates"],
        "states": {state: states.count(state) for state in dict.fromkeys(states)},
        "title": (answer.get("proof") or {}).get("title", ""),
        "diff": (answer.get("proof") or {}).get("diff", ""),
        "wall_seconds": wall,
    }


def beside_the_expert(program: Program) -> dict[str, float]:
    """The kernel's own time in us, and how much faster the expert's version is."""
    before = kernel_ns(program.path, program.kernel)
    after = kernel_ns(program.expert, program.kernel) if program.expert.exists() else None
    if before is None:
        return {}
    return {"kernel_us": round(before / 1e3, 2)} | ({"expert": round(before / after, 3)} if after else {})


def known_of(path: Path | None, gpu: str) -> dict[str, dict[str, float]]:
    """What an earlier result says of the programs and their experts, by program.

    Raises:
        SystemExit: it was made on another card.
    """
    if path is None:
        return {}
    result = json.loads(path.read_text("utf-8"))
    if result["gpu"] != gpu:
        raise SystemExit(
            f"{path} was made on {result['gpu']}, this is {gpu}: times of unlike cards do not compare"
        )
    names = ("kernel_us", "expert")
    return {r["program"]: {n: r[n] for n in names if n in r} for r in result["rows"] if "expert" in r}


def measured(program: Program, given: argparse.Namespace) -> dict[str, Any]:
    """One program's row."""
    row: dict[str, Any] = {"program": program.name, "area": program.area}
    row |= given.known.get(program.name) or beside_the_expert(program)
    row |= searched(program, given)
    speedup = gain(row)
    if row.get("expert", 0.0) >= LEAST_GAIN:
        row["share"] = round(math.log(max(speedup, 1.0)) / math.log(row["expert"]), 3)
    return row


def gain(row: dict[str, Any]) -> float:
    """The proven speedup; 1 for none."""
    return float((row.get("speedup") or {}).get("median", 1.0))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means, and the share of the experts' gain in all."""
    logs = [math.log(gain(row)) for row in rows]
    experts = [math.log(row["expert"]) for row in rows if row.get("expert", 0) >= LEAST_GAIN]
    reached = [math.log(max(gain(row), 1.0)) for row in rows if row.get("expert", 0) >= LEAST_GAIN]
    return {
        "programs": len(rows),
        "geometric_mean": round(math.exp(sum(logs) / len(logs)), 3),
        "expert_geometric_mean": round(math.exp(sum(experts) / len(experts)), 3) if experts else None,
        "share_of_the_experts_gain": round(sum(reached) / sum(experts), 3) if experts else None,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--search", default="mcts")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answers", type=Path, help="a folder for the whole answer of each search")
    parser.add_argument("--experts", type=Path, help="an earlier result with the experts' times")
    given = parser.parse_args()
    gpu = present_gpus()[0]
    given.known = known_of(given.experts, gpu.name)
    rows: list[dict[str, Any]] = []
    for program in programs():
        if given.names and program.name not in given.names:
            continue
        rows.append(measured(program, given))
        row = rows[-1]
        said = row.get("error") or f"{gain(row):.2f}x of {row.get('expert')}x, {row['judged']} judged"
        sys.stderr.write(f"{program.name:22} {said}, {row.get('wall_seconds')} s\n")
        result = {
            "command": f"python -m tests.suite.search --budget {given.budget} --seconds {given.seconds:g} "
            f"--search {given.search}",
            "experts": f"times of {given.experts.name}" if given.experts else "measured beside the search",
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "gpu": gpu.name,
            "driver": gpu.driver,
            **summary(rows),
            "rows": rows,
        }
        if given.out:
            given.out.write_text(json.dumps(result, indent=1) + "\n")
    sys.stdout.write(json.dumps(summary(rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
