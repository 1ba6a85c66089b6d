# SPDX-License-Identifier: Apache-2.0
"""How well energy repeats on the card of this machine, and whether known extra work shows.

    python tests/bench/bench_energy.py [--times 5] [--kinds arithmetic,traffic] [--json FILE]

Kernels that keep the card busy, by arithmetic or by memory traffic, against the same with a quarter more launches: the
true ratio is 1.25, and the joules of the same work in several measurements say how well one repeats. Written anew after
every measurement.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec

from warplens.measure.energy import EnergyGain, EnergyMeter, EnergySettings
from warplens_tools.arch.load import present_gpus
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.toolchain.locate import resolve_toolchain

PROGRAM = """
#include <cstdio>
__global__ void arithmetic(float* x, int rounds)
{
    float a = x[threadIdx.x], b = 1.0001f;
    for (int i = 0; i < rounds; ++i) a = a * b + 0.5f;
    if (a == 12345.0f) x[0] = a;
}
__global__ void traffic(float4* x, const float4* y, long n)
{
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) x[i] = y[i];
}
int main()
{
    const long n = 64l << 20;
    float4 *x, *y;
    if (cudaMalloc(&x, n * sizeof(float4)) || cudaMalloc(&y, n * sizeof(float4))) return 1;
    char kind;
    int launches;
    while (std::scanf(" %c %d", &kind, &launches) == 2) {
        for (int i = 0; i < launches; ++i) {
            if (kind == 'a') arithmetic<<<2048, 512>>>((float*)x, 40000);
            else traffic<<<2048, 512>>>(x, y, n);
        }
        std::printf("%d\\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    }
    return 0;
}
"""
#: Seconds of one run: a sample is several of them.
RUN_SECONDS = 0.25


class Program:
    """A process that launches what it is told to, so that no start of a process is measured."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, kind: str, launches: int) -> None:
        """Launch so often, and wait for the card."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{kind[0]} {launches}\n")
        self._process.stdin.flush()
        if self._process.stdout.readline().strip() != "0":
            raise SystemExit("the kernel failed")

    def launches(self, kind: str) -> int:
        """How many launches last `RUN_SECONDS`."""
        self.run(kind, 10)
        started = time.monotonic()
        self.run(kind, 20)
        return max(1, round(20 * RUN_SECONDS / (time.monotonic() - started)))

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def measured(program: Program, kind: str, times: int, meter: EnergyMeter) -> Iterator[dict[str, Any]]:
    """One kind of work against the same with a quarter more launches, so many times: what is known after each."""
    launches = program.launches(kind)
    more = round(launches * 1.25)
    found: list[EnergyGain] = []
    for _ in range(times):
        found.append(meter.compare(partial(program.run, kind, more), partial(program.run, kind, launches)))
        yield row_of(kind, launches, more, found)


def row_of(kind: str, launches: int, more: int, found: Sequence[EnergyGain]) -> dict[str, Any]:
    """What measurements of one kind come to."""
    joules = [f.candidate_j.median for f in found]
    return {
        "kind": kind,
        "times": len(found),
        "launches": launches,
        "extra_work": more / launches,
        "ratios": [f.ratio.median for f in found],
        "joules": joules,
        "spread": (max(joules) - min(joules)) / mean(joules),
        "spread_of_ratios": max(f.ratio.median for f in found) / min(f.ratio.median for f in found) - 1.0,
        "measured": msgspec.to_builtins(found),
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--kinds", default="arithmetic,traffic")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gpu = present_gpus()[0]
    nvcc = resolve_toolchain().require("nvcc").path
    rows: dict[str, dict[str, Any]] = {}

    def told() -> str:
        result = {
            "command": "python tests/bench/bench_energy.py " + " ".join(sys.argv[1:]),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "gpu": gpu.name,
            "driver": gpu.driver,
            "rows": list(rows.values()),
        }
        return json.dumps(result, indent=1) + "\n"

    with tempfile.TemporaryDirectory() as folder, gpu_lock(gpu.uuid, "energy bench"):
        source, program = Path(folder) / "p.cu", Path(folder) / "p"
        source.write_text(PROGRAM)
        subprocess.run([nvcc, f"-arch={gpu.arch}", "-O3", str(source), "-o", str(program)], check=True)

        running = Program(program)
        meter = EnergyMeter(gpu.uuid, EnergySettings(least_seconds=1.2, samples=2, idle_seconds=0.4))
        for kind in options.kinds.split(","):
            for row in measured(running, kind, options.times, meter):
                rows[kind] = row
                if options.json:
                    options.json.write_text(told())
            sys.stderr.write(f"{kind}: {row['ratios']} for {row['extra_work']}, spread {row['spread']:.3f}\n")
        running.close()
    if not options.json:
        sys.stdout.write(told())
    return 0


if __name__ == "__main__":
    sys.exit(main())
