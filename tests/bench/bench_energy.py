# SPDX-License-Identifier: Apache-2.0
"""How well energy repeats on the card of this machine, and whether known extra work shows.

    python tests/bench/bench_energy.py [--times 5] [--json FILE]

Programs that keep the card busy for about a second, by arithmetic or by memory traffic, against themselves and against
the same with a quarter more launches. The true ratio of the latter is 1.25 but for what a start costs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec

from warplens.measure.energy import EnergyMeter
from warplens_tools.arch.load import present_gpus
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.toolchain.locate import resolve_toolchain

PROGRAM = """
#include <cstdlib>
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
int main(int, char** argv)
{
    const long n = 64l << 20;
    float4 *x, *y;
    if (cudaMalloc(&x, n * sizeof(float4)) || cudaMalloc(&y, n * sizeof(float4))) return 1;
    for (int i = 0; i < std::atoi(argv[2]); ++i) {
        if (argv[1][0] == 'a') arithmetic<<<2048, 512>>>((float*)x, 40000);
        else traffic<<<2048, 512>>>(x, y, n);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
"""


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gpu = present_gpus()[0]
    nvcc = resolve_toolchain().require("nvcc").path
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, gpu_lock(gpu.uuid, "energy bench"):
        source, program = Path(folder) / "p.cu", Path(folder) / "p"
        source.write_text(PROGRAM)
        subprocess.run([nvcc, f"-arch={gpu.arch}", "-O3", str(source), "-o", str(program)], check=True)

        def run(kind: str, launches: int) -> None:
            subprocess.run([program, kind, str(launches)], check=True)

        for kind, launches in (("arithmetic", 800), ("traffic", 1600)):
            for more in (1.0, 1.25):
                found = []
                for _ in range(options.times):
                    meter = EnergyMeter(gpu.uuid)
                    runs = (partial(run, kind, int(launches * more)), partial(run, kind, launches))
                    found.append(meter.compare(*runs))
                joules = [f.candidate_j.median for f in found]
                rows.append(
                    {
                        "kind": kind,
                        "extra_work": more,
                        "ratios": [f.ratio.median for f in found],
                        "joules": joules,
                        "spread": (max(joules) - min(joules)) / mean(joules),
                        "measured": msgspec.to_builtins(found),
                    }
                )
                sys.stderr.write(f"{kind} {more}: {rows[-1]['ratios']}, spread {rows[-1]['spread']:.3f}\n")
    result = {
        "command": "python tests/bench/bench_energy.py " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": gpu.name,
        "rows": rows,
    }
    text = json.dumps(result, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
