# SPDX-License-Identifier: Apache-2.0
"""How long the command line takes to answer what needs no compiler, beside an interpreter that does nothing.

python -m tests.bench.cli_startup --json docs/benchmarks/cli_startup.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
_ASKED = {
    "python -c pass": ["-c", "pass"],
    "import warplens": ["-c", "import warplens"],
    "import warplens.cli.main": ["-c", "import warplens.cli.main"],
    "warplens --help": ["-m", "warplens", "--help"],
    "warplens check --help": ["-m", "warplens", "check", "--help"],
    "warplens search NAME": ["-m", "warplens", "search", "cp_async_wait"],
    "warplens explain WL108": ["-m", "warplens", "explain", "WL108"],
}


def main() -> int:
    """Print, and write, milliseconds: the least and the median of the runs on the clock, the median of CPU time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"WARPLENS_HOME": home}
        build = ["-m", "warplens", "index", "build", str(ROOT / "tests/data/mini_corpus"), "--name", "mini"]
        _timed(build, environment)
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in _ASKED}
        for _ in range(given.rounds):
            for name, words in _ASKED.items():
                seen[name].append(_timed(words, environment))
    figures = {
        "command": f"python -m tests.bench.cli_startup --rounds {given.rounds}",
        "unit": "ms",
        "python": sys.version.split()[0],
        "load_average": round(os.getloadavg()[0], 1),
        "times": {
            name: {
                "wall_least": round(min(wall for wall, _ in runs), 1),
                "wall_median": round(median(wall for wall, _ in runs), 1),
                "cpu_median": round(median(cpu for _, cpu in runs), 1),
            }
            for name, runs in seen.items()
        },
    }
    text = json.dumps(figures, indent=1) + "\n"
    sys.stdout.write(text)
    if given.json:
        given.json.write_text(text)
    return 0


def _timed(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Milliseconds of one run on the clock, and of CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1e3, cpu * 1e3


if __name__ == "__main__":
    sys.exit(main())
