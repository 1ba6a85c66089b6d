# SPDX-License-Identifier: Apache-2.0
"""Ray on this machine with two declared GPUs and an evaluator that only sleeps: a worker killed in the middle, beside
the pool's answers.

    PYTHONPATH=. python tests/bench/bench_ray.py [--candidates 24] [--json FILE]

Needs the extra `cluster` and no card. Printed as JSON: whether both say the same of every candidate, how often each was
judged, and seconds a candidate of each way beyond what the evaluator sleeps.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import ray

from warplens.measure.pool.local import local_pool
from warplens.measure.pool.messages import Setup
from warplens.measure.pool.on_ray import ray_pool
from warplens.measure.pool.pool import Pool
from warplens.measure.verdict import Candidate

ROOT = Path(__file__).parents[2]
#: Seconds that the evaluator sleeps for a candidate, while it holds the card's lock.
MEASURES = 0.05


def judged(pool: Pool, folder: Path, count: int) -> dict[str, Any]:
    """All candidates by one way, one of which ends its worker once."""
    work = [
        Candidate(f"c{n}", "k.cu", "k", (), title="kills once" if n == count // 2 else "")
        for n in range(count)
    ]
    pool.baseline()
    started = time.monotonic()
    verdicts = pool.judge(work)
    seconds = time.monotonic() - started
    lines = (line.split() for line in (folder / "log").read_text().splitlines())
    times = Counter(words[-1] for words in lines if words[-2] == "judged")
    return {
        "seconds": seconds,
        "seconds_a_candidate_beyond_sleep": seconds / count - MEASURES / 2,
        "cards": sorted({v.conditions.uuid for v in verdicts if v.conditions is not None}),
        "worker_was_killed": (folder / f"died-c{count // 2}").exists(),
        "judged_once": len(times) == count and set(times.values()) == {1},
        "verdicts": [[v.candidate, v.state, v.timings[0].speedup.median] for v in verdicts],
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for way in ("pool", "ray"):
            folder = Path(place) / way
            folder.mkdir()
            payload = json.dumps({"folder": str(folder), "measure": MEASURES})
            setup = Setup("tests.server.measure.fake_evaluator:judges", payload)
            environment = {"PYTHONPATH": os.environ["PYTHONPATH"], "WARPLENS_LOCKS": str(folder / "locks")}
            os.environ.update(environment)
            if way == "pool":
                with local_pool(setup, ["card-a", "card-b"]) as pool:
                    rows[way] = judged(pool, folder, options.candidates)
                continue
            ray.init(
                num_cpus=2,
                num_gpus=2,
                include_dashboard=False,
                log_to_driver=False,
                runtime_env={"env_vars": environment},
            )
            with ray_pool(setup, "local") as pool:
                rows[way] = judged(pool, folder, options.candidates)
            ray.shutdown()
    same = rows["pool"].pop("verdicts") == rows["ray"].pop("verdicts")
    result = {
        "command": "python tests/bench/bench_ray.py " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, no card",
        "ray_version": ray.__version__,
        "candidates": options.candidates,
        "verdicts_are_the_same": same,
        **rows,
    }
    text = json.dumps(result, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    sys.stdout.write(text)
    return 0 if same and all(row["judged_once"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
