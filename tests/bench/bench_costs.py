# SPDX-License-Identifier: Apache-2.0
"""What single causes cost on this machine's card: the figures behind the bounded model's constants.

    python -m tests.bench.bench_costs [--json FILE]

Atomics that meet, stores that fill sectors in part, lines that the L1 looks up, latencies, short blocks, barriers;
each in clocks of the SM.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from warplens_tools.arch.load import driver_version, load_gpu
from warplens_tools.toolchain.locate import resolve_toolchain, tool_environment, tool_version

SOURCE = Path(__file__).parent / "costs" / "costs.cu"


def main() -> int:
    """Build, run, print a line per figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gpu, nvcc = load_gpu(None), resolve_toolchain().require("nvcc")
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "costs"
        command = [nvcc.path, "-O3", "-std=c++17", f"-arch={gpu.arch}", str(SOURCE), "-o", str(program)]
        subprocess.run(command, check=True, timeout=300, env=tool_environment(Path(place)))
        done = subprocess.run([str(program)], check=True, timeout=120, stdout=subprocess.PIPE, text=True)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    for figure in figures:
        sys.stdout.write(f"{figure['name']:60} {figure['clocks']:12.2f} {figure['unit']}\n")
    if options.json is not None:
        head = {
            "command": "python -m tests.bench.bench_costs --json FILE",
            "gpu": gpu.name,
            "driver": driver_version(),
            "compiler": f"nvcc {tool_version(nvcc)}",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        options.json.write_text(json.dumps({**head, "figures": figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
