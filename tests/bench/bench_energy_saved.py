# SPDX-License-Identifier: Apache-2.0
"""Energy saved at equal time on the card of this machine: among versions as fast as the fastest found.

    python tests/bench/bench_energy_saved.py [PROGRAM…] [--candidates 16] [--around 12] [--json FILE]

For each program of `tests/bench/energy`: a greedy search for time, then what one further step makes of the fastest
version (as `optimize --objective lexicographic` does), all judged as always. Those as fast as the fastest, within 1 %,
are run one sample each, and the one that took least is measured anew against the fastest, in turns, with the interval.
Both run as their own program launching without pause. Every program is reported, those without a gain too.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from warplens.agent.actions import KernelSpace
from warplens.agent.energy_search import around, as_fast_as, by_energy
from warplens.agent.policies import GreedySearch
from warplens.agent.searcher import Policy
from warplens.agent.versions import Node, best_first
from warplens.measure.energy import EnergyMeter, EnergySettings
from warplens.measure.judge import Judge
from warplens.service.optimize import causes_of, inputs_of
from warplens.service.service import Service
from warplens.service.workloads import workload_of
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import ToolFailedError
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.toolchain.locate import resolve_toolchain

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "tests/bench/energy").glob("*.cu"))
#: Seconds of one run; a sample is several of them.
RUN_SECONDS = 0.25
#: Versions whose energy is looked at.
RIVALS = 4


class Running:
    """A version's program, which launches as often as it is told."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "0":
            raise SystemExit("the program failed")

    def run(self, launches: int) -> None:
        """Launch so often, and wait for the card."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{launches}\n")
        self._process.stdin.flush()
        self._answer()

    def seconds(self, launches: int) -> float:
        """How long so many launches take."""
        started = time.monotonic()
        self.run(launches)
        return time.monotonic() - started

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def searched(program: Path, candidates: int, further: int) -> tuple[Policy, Node, list[Node]]:
    """The search, its fastest version (the original where none is faster), and others as fast."""
    inputs = inputs_of(Service(ROOT), program)
    workload = workload_of(inputs.path, inputs.unit, inputs.loaded)
    with Judge(workload) as judge:
        kernel = judge.baseline().kernel
        space = KernelSpace(
            inputs.text(),
            path=str(program),
            kernel=kernel,
            limits=inputs.gpu.limits,
            rewrites=inputs.rewrites,
            causes=causes_of(inputs.report()),
        )
        search = GreedySearch(inputs.text(), path=str(program), kernel=kernel, space=space)
        while len(search.versions.told()) < candidates:
            asks = search.ask(min(8, candidates - len(search.versions.told())))
            if not asks:
                break
            for verdict in judge.judge([ask.candidate for ask in asks]):
                search.tell(verdict.candidate, verdict)
        fastest = next(iter(best_first(search.versions.told())), search.versions.root)
        asks = around(search, fastest, further, UNATTENDED)
        for verdict in judge.judge([ask.candidate for ask in asks]):
            search.tell(verdict.candidate, verdict)
    # a further step may have been faster still
    fastest = next(iter(best_first(search.versions.told())), search.versions.root)
    equal = [n for n in search.versions.told() if n is not fastest and n.works and as_fast_as(n, fastest)]
    equal.sort(key=lambda n: -(n.speedup or 0.0))
    return search, fastest, by_energy([fastest, *equal])[1:]


def built(nodes: list[Node], folder: Path, arch: str) -> list[Running]:
    """Their programs, started one after the other, waiting."""
    nvcc = resolve_toolchain().require("nvcc").path

    def build(number: int) -> Path:
        source, program = folder / f"{number}.cu", folder / f"p{number}"
        source.write_text(nodes[number].text.text)
        subprocess.run([nvcc, f"-arch={arch}", "-O3", str(source), "-o", str(program)], check=True)
        return program

    with ThreadPoolExecutor(len(nodes)) as pool:
        return [Running(path) for path in pool.map(build, range(len(nodes)))]


def title(node: Node) -> str:
    """What made a version."""
    steps = []
    at: Node | None = node
    while at is not None and at.parent is not None:
        steps.append(at.ask.move.title)
        at = at.parent
    return "; ".join(reversed(steps)) or "as it is"


def measured(program: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One program's row."""
    gpu = present_gpus()[0]
    search, fastest, equal = searched(program, options.candidates, options.around)
    row: dict[str, Any] = {
        "program": program.stem,
        "judged": len(search.versions.told()),
        "fastest": title(fastest),
        "fastest_speedup": fastest.speedup,
        "as_fast": len(equal),
        "saved_percent": 0.0,
        "saved_percent_interval": [0.0, 0.0],
    }
    if not equal:
        return {**row, "reason": "no other version is as fast as the fastest"}
    rivals = [fastest, *equal[:RIVALS]]
    with tempfile.TemporaryDirectory() as folder, gpu_lock(gpu.uuid, "energy bench"):
        running = built(rivals, Path(folder), gpu.arch)
        launches = max(1, round(20 * RUN_SECONDS / max(running[0].seconds(20), 1e-4)))
        meter = EnergyMeter(gpu.uuid, EnergySettings(least_seconds=1.0, samples=4, idle_seconds=0.4))
        versions = [partial(one.run, launches) for one in running]
        joules = meter.joules(versions)
        least = min(range(1, len(rivals)), key=joules.__getitem__)
        pairs = [(running[0].seconds(launches), running[least].seconds(launches)) for _ in range(4)]
        try:
            gain = meter.compare(versions[0], versions[least])
        except ToolFailedError as error:
            return {**row, "reason": str(error)}
        finally:
            for one in running:
                one.close()
    low, middle, high = (
        100.0 * (1.0 - 1.0 / r) for r in (gain.ratio.low, gain.ratio.median, gain.ratio.high)
    )
    slower = statistics.median(b / a for a, b in pairs)
    return {
        **row,
        "least": title(rivals[least]),
        "joules_by_one_sample": dict(zip(map(title, rivals), joules, strict=True)),
        "launches_a_run": launches,
        "time_of_least_over_fastest": slower,
        "speedup_of_least": rivals[least].speedup,
        "saved_percent": middle,
        "saved_percent_interval": [low, high],
        "equal_time": slower <= 1.01,
        "measured": msgspec.to_builtins(gain),
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--around", type=int, default=12)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for program in options.programs or PROGRAMS:
        rows.append(measured(program.absolute(), options))
        row = rows[-1]
        interval = ", ".join(f"{x:.1f}" for x in row["saved_percent_interval"])
        sys.stderr.write(f"{row['program']}: {row['saved_percent']:.1f} % saved [{interval}]\n")
        counted = [r["saved_percent"] if r.get("equal_time") else 0.0 for r in rows]
        result = {
            "command": "python tests/bench/bench_energy_saved.py " + " ".join(sys.argv[1:]),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "gpu": present_gpus()[0].name,
            "driver": present_gpus()[0].driver,
            "mean_saved_percent": statistics.mean(counted),
            "rows": rows,
        }
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    if not options.json:
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
