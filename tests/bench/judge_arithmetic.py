# SPDX-License-Identifier: Apache-2.0
"""Whether the judge's arithmetic is fooled, on simulated kernels: python -m tests.bench.judge_arithmetic [--json FILE].

Needs no GPU. `comparison`: honest rewrites called wrong, and wrong candidates let through, over many seeds (five to
nine of each kind for every kernel of tests/tools/run/cpp/simulated.cpp). `oracle`: the same candidates through the
probe's own oracle, on a driver that runs launches on the host.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.tools.run.test_probe import ORACLE

from warplens_tools.run.probe.library import SOURCES
from warplens_tools.toolchain.locate import ToolName, resolve_toolchain

ROOT = Path(__file__).parents[2]
CPP = ROOT / "tests/tools/run/cpp"
#: The simulated kernels contract where they say so, not where the compiler likes.
OPTIONS = ("-std=c++17", "-O2", "-ffp-contract=off", "-pthread")
HEADERS: tuple[ToolName, ...] = ("cuda_headers", "cupti_headers")
TESTS = {
    "comparison": (["tolerance_test", "simulated"], ["compare", "rounding"]),
    "oracle": (["oracle_test", "fake_driver", "simulated"], ORACLE),
}


def measured(name: str, folder: Path, first: int, seeds: int) -> dict[str, Any]:
    """One test over `seeds` seeds: its counts, and its mistakes in words."""
    toolchain = resolve_toolchain()
    ours, probes = TESTS[name]
    sources = [*(CPP / f"{x}.cpp" for x in ours), *(SOURCES / f"{x}.cpp" for x in probes)]
    includes = [f"-I{path}" for path in (SOURCES, CPP, *(toolchain.require(h).path for h in HEADERS))]
    compiler = toolchain.require("host_compiler").path
    subprocess.run([compiler, *OPTIONS, *includes, *map(str, sources), "-o", str(folder / name)], check=True)
    done = subprocess.run(
        [folder / name, str(first), str(seeds)], capture_output=True, text=True, check=False
    )
    *mistakes, counts = done.stdout.splitlines()
    return {"first_seed": first, "seeds": seeds, **json.loads(counts), "mistakes_in_words": mistakes}


def main() -> None:
    """Run both and print, or write, one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=10_001)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    compiler = resolve_toolchain().require("host_compiler").path
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    result: dict[str, Any] = {
        "command": "python -m tests.bench.judge_arithmetic " + " ".join(sys.argv[1:]),
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": "none: computed on the host",
        "compiler": version.splitlines()[0],
    }
    with tempfile.TemporaryDirectory() as folder:
        result["comparison"] = measured("comparison", Path(folder), options.first, options.seeds)
        result["oracle"] = measured("oracle", Path(folder), options.first, max(1, options.seeds // 10))
    text = json.dumps(result, indent=1) + "\n"
    if options.json is not None:
        options.json.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
