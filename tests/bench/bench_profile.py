# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of profiling: replay passes against Nsight Compute's full set, time against bare ncu.

    python tests/bench/bench_profile.py [--rounds 3] > docs/benchmarks/profile.json

Needs a GPU whose counters are readable. Each program of `examples/first` is built once; then, in turn, the
collector and the bare `ncu` call with the same arguments profile its kernel.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from warplens_tools.arch.load import driver_version, query_devices
from warplens_tools.collect.ncu import NcuRequest, collect_counters, ncu_command
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain, tool_version

ROOT = Path(__file__).parents[2]
KERNELS = {
    "transpose": "transpose",
    "normalize_rows": "affine_rows",
    "lennard_jones": "forces",
    "nearest": "nearest",
    "filter_bank": "filter_bank",
}


def main() -> int:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    tools = resolve_toolchain()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, kernel in KERNELS.items():
            rows[name] = measured(name, kernel, tools, Path(folder), rounds)
            sys.stderr.write(f"{name}: {rows[name]}\n")
    device = query_devices().devices[0]
    answer = {
        "command": f"python tests/bench/bench_profile.py --rounds {rounds}",
        "gpu": device.name,
        "driver": driver_version(),
        "ncu": tool_version(tools.require("ncu")),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "programs": rows,
        "median_time_ratio": statistics.median(r["time_ratio"] for r in rows.values()),
        "worst_pass_share": max(r["pass_share"] for r in rows.values()),
    }
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    return 0


def measured(name: str, kernel: str, tools: Toolchain, folder: Path, rounds: int) -> dict[str, float]:
    """One program: passes and seconds of the collector, of bare ncu, and passes of the full set."""
    program = folder / name
    build = [
        "nvcc",
        "-O3",
        "-arch=native",
        "-lineinfo",
        str(ROOT / f"examples/first/{name}.cu"),
        "-o",
        str(program),
    ]
    subprocess.run(build, check=True, capture_output=True)
    request = NcuRequest(kernel=kernel)
    ncu = tools.require("ncu").path
    bare = ncu_command(ncu, request, [str(program)], folder / "bare")
    output = subprocess.run(bare, check=True, capture_output=True, text=True).stdout
    ours_s: list[float] = []
    bare_s: list[float] = []
    for _ in range(rounds):
        ours_s.append(
            seconds(lambda: collect_counters([str(program)], request, toolchain=tools, workdir=folder / "w"))
        )
        bare_s.append(seconds(lambda: subprocess.run(bare, check=True, capture_output=True)))
    full = [ncu, "--clock-control", "none", "--set", "full", "--kernel-name", f"regex:^{kernel}$"]
    full += ["--launch-count", "1", "-f", "-o", str(folder / "full"), str(program)]
    whole = passes(subprocess.run(full, check=True, capture_output=True, text=True).stdout)
    return {
        "passes": passes(output),
        "full_set_passes": whole,
        "pass_share": passes(output) / whole,
        "collector_s": statistics.median(ours_s),
        "bare_ncu_s": statistics.median(bare_s),
        "time_ratio": statistics.median(ours_s) / statistics.median(bare_s),
    }


def seconds(work: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


def passes(output: str) -> int:
    """Replay passes, as ncu prints them."""
    found = re.search(r"(\d+) pass", output)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
