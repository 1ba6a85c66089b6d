# SPDX-License-Identifier: Apache-2.0
"""`warplens optimize` on the example programs, with its control, on the GPU of this machine.

    python tests/bench/bench_optimize.py [--candidates N] [--seconds S] [--json FILE] [PROGRAM…]

Each program is built, visited, searched and confirmed as a user's would be, in a store of its own. The
control spends the same number of candidates at random. Exits with 1 if a program got no verified speedup.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMAND = "python tests/bench/bench_optimize.py"


def main() -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    programs = options.programs or sorted((ROOT / "examples/optimize").glob("*.cu"))
    rows = []
    for program in programs:
        rows.append(measure(program, options.candidates, options.seconds))
        sys.stdout.write(render(rows[-1]) + "\n")
        sys.stdout.flush()
    if options.json:
        head = {
            "command": f"{COMMAND} --candidates {options.candidates} --seconds {options.seconds:g}",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**head, "programs": rows}, indent=1) + "\n")
    return 0 if all(row.get("outcome") == "faster" for row in rows) else 1


def measure(program: Path, candidates: int, seconds: float) -> dict[str, Any]:
    """One program's whole answer, with the seconds the command took."""
    budget = ["--budget", str(candidates), "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as home:
        # The toolchain and the probe stay where they are; only the store is new, so no run helps another.
        environment = {**os.environ, "WARPLENS_HOME": home}
        started = time.monotonic()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "warplens",
                "optimize",
                str(program),
                *budget,
                "--control",
                "--format",
                "json",
            ],
            capture_output=True,
            text=True,
            env=environment,
            cwd=ROOT,
            check=False,
        )
        wall = time.monotonic() - started
    row: dict[str, Any] = {"program": program.name, "seconds": wall, "status": done.returncode}
    if done.returncode:
        return {**row, "error": done.stderr.strip()[-2000:]}
    answer = json.loads(done.stdout)
    answer["path"] = program.name
    return {**row, **answer}


def render(row: dict[str, Any]) -> str:
    """One line of the table."""
    if row["status"]:
        return f"{row['program']}: failed: {row['error']}"
    control = (row["control"] or {}).get("speedup") or {}
    lines = [f"{row['program']}: {row['reason']} ({row['seconds']:.1f} s; spent {row['spent']})"]
    if row["proof"]:
        timings = row["proof"]["verdict"]["timings"]
        lines += [f"  {t['cache']}: {t['speedup']}, noise {t['noise']:.4f}" for t in timings]
        lines += [f"  program {row['proof']['program']}", f"  answers {row['proof']['answers']}"]
    lines.append(f"  random-search baseline: {control.get('median')}")
    states = [entry["state"] for entry in row["tried"]]
    lines.append("  " + ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states)))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
