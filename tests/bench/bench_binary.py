# SPDX-License-Identifier: Apache-2.0
"""How long the binary tier takes, against the bare tools in the same run.

    python tests/bench/bench_binary.py [--rounds N] [--json FILE] [UNIT…]

Rounds interleave the bare calls with Warplens', so that a loaded machine slows both; figures are medians
over the rounds, and each ratio is the median of the rounds' own ratios.

- save: nvcc's resource report in hand (first findings), over the bare nvcc call;
- full: SASS with lines in hand, over the bare nvcc call and one `nvdisasm -c -gi`;
- unchanged: the same unit saved again, and moved by a comment: what is disassembled then.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from warplens_tools.collect.binary import collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain, ToolName, resolve_toolchain, tool_version

ROOT = Path(__file__).parents[2]
ARCH = "sm_90"
NEEDED: tuple[ToolName, ...] = ("nvcc", "host_compiler", "nvdisasm")
FLAGS = CompileFlags(("-std=c++17",), "defaults")


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("units", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tools = resolve_toolchain()
    for name in NEEDED:
        tools.require(name)
    rows = []
    for unit in options.units or sorted((ROOT / "examples/first").glob("*.cu")):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(unit, tools, Path(folder), options.rounds))
            sys.stdout.write(render(rows[-1]) + "\n")
            sys.stdout.flush()
    if options.json:
        versions = {n: tool_version(t) for n, t in tools.tools.items() if n in ("nvcc", "nvdisasm")}
        options.json.write_text(
            json.dumps({"versions": versions, "cores": os.cpu_count(), "units": rows}, indent=1)
        )


def measure(unit: Path, tools: Toolchain, folder: Path, rounds: int) -> dict[str, float | str]:
    """Medians of one unit, milliseconds and ratios."""
    rounds_done = [one_round(unit, tools, folder / str(index)) for index in range(rounds + 1)]
    kept = rounds_done[1:]  # the first warms the file cache
    median = {key: statistics.median(r[key] for r in kept) for key in kept[0]}
    return {
        "unit": unit.name,
        **{f"{key}_ms": 1e3 * value for key, value in median.items()},
        "save_ratio": statistics.median(r["save"] / r["nvcc"] for r in kept),
        "full_ratio": statistics.median(r["full"] / (r["nvcc"] + r["nvdisasm"]) for r in kept),
    }


def one_round(source: Path, tools: Toolchain, folder: Path) -> dict[str, float]:
    """Seconds of each step, each with nothing cached, then of the two kinds of unchanged kernel."""
    folder.mkdir()
    unit = folder / source.name
    shutil.copy(source, unit)
    old = time.time() - 3600
    os.utime(unit, (old, old))
    nvcc, nvdisasm = tools.require("nvcc").path, tools.require("nvdisasm").path
    cubin = folder / "bare.cubin"
    bare: list[str | Path] = [
        nvcc,
        "-cubin",
        f"-arch={ARCH}",
        "-lineinfo",
        "-Xptxas",
        "-v",
        *FLAGS.arguments,
        unit,
        "-o",
        cubin,
    ]
    result = {"nvcc": timed(bare), "nvdisasm": timed([nvdisasm, "-c", "-gi", str(cubin)])}
    cache = BinaryCache(folder / "cache")
    result |= collected(unit, tools, cache, "save", "full")
    result |= collected(unit, tools, cache, "", "again")
    unit.write_text("// moved\n" + unit.read_text())
    os.utime(unit, (old, old))
    result |= collected(unit, tools, cache, "", "moved")
    return result


def timed(command: Sequence[str | Path]) -> float:
    """Seconds of one command; its output is read, as Warplens reads it."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def collected(unit: Path, tools: Toolchain, cache: BinaryCache, first: str, last: str) -> dict[str, float]:
    """Seconds until the resource report and until the end; a name of "" must not be reached."""
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def stage(_evidence: object) -> None:
        seconds[first] = time.perf_counter() - started

    done = collect_binary(unit, toolchain=tools, flags=FLAGS, arch=ARCH, cache=cache, on_stage=stage)
    seconds[last] = time.perf_counter() - started
    if not done.disassembled or ("" in seconds):
        raise SystemExit(f"{unit.name}: an unchanged kernel was disassembled, or none was")
    return seconds


def render(row: dict[str, float | str]) -> str:
    """One line of the table."""
    figures = " ".join(
        f"{k} {v:.2f}" if "ratio" in k else f"{k} {v:.0f}" for k, v in row.items() if k != "unit"
    )
    return f"{row['unit']:22} {figures}"


if __name__ == "__main__":
    main()
