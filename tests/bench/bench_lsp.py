# SPDX-License-Identifier: Apache-2.0
"""Times the language server with a real client over stdio: `python -m tests.bench.bench_lsp [--json FILE]`.

Ready: from starting the process to the answer of `initialize`. Change: from sending an edit of a 1,000-line
file to the diagnostics of that version. Save: from `didSave` of a changed file to the first diagnostics of
the binary tier and to its end, beside the bare compiler and disassembler on the same text in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from tests.server.lsp.client import REAL, Client

from warplens.service.service import Service
from warplens.settings import Settings

EXAMPLES = Path(__file__).parents[2] / "examples" / "first"
LINES = 1000
TYPED = "float extra = (i < 4) ? tile[i][0] * 2.0 : sqrtf(x[0]); for (int k = 0; k < 4; ++k) { extra += k; }"


def thousand_lines() -> str:
    """The example programs one after another, each in a namespace, to about 1,000 lines."""
    headers: list[str] = []
    parts: list[str] = []
    lines = 0
    number = 0
    sources = sorted(EXAMPLES.glob("*.cu"))
    while lines < LINES:
        text = sources[number % len(sources)].read_text()
        headers += re.findall(r"^#include .*$", text, re.M)
        body = re.sub(
            r"^#include .*$|int main\b", lambda m: "int entry" if "main" in m[0] else "", text, flags=re.M
        )
        part = f"namespace part{number} {{\n{body}}}\n"
        parts.append(part)
        lines += part.count("\n")
        number += 1
    return "\n".join(dict.fromkeys(headers)) + "\n" + "".join(parts)


def spread(samples: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum in milliseconds."""
    ordered = sorted(samples)
    return {
        "count": len(ordered),
        "median_ms": round(1000 * statistics.median(ordered), 2),
        "p95_ms": round(1000 * ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))], 2),
        "max_ms": round(1000 * ordered[-1], 2),
    }


async def ready(folder: Path, runs: int) -> dict[str, float]:
    """Starts of the server; the first, which may have to compile the modules, is not counted."""
    samples = []
    for _ in range(runs + 1):
        client = Client()
        started = time.perf_counter()
        await client.begin(folder, command=REAL, fresh=True)
        samples.append(time.perf_counter() - started)
        await client.end()
    return spread(samples[1:])


async def changes(folder: Path, count: int) -> dict[str, Any]:
    """Edits of one line of a 1,000-line file: a comment, and every fifth time a new line."""
    text = thousand_lines()
    bodies = statements(text)
    edits = []
    for number in range(2, count + 2):
        line = bodies[number * 7 % len(bodies)]
        edits.append((line, 4, "/* x */ " if number % 5 else "\n"))
        if not number % 5:
            bodies = [n + (n >= line) for n in bodies]
    return await timed(folder, text, edits)


async def typing(folder: Path) -> dict[str, Any]:
    """Two statements typed letter by letter, in host code and in a kernel: most of the versions do not parse."""
    text = thousand_lines()
    bodies = statements(text)
    places = bodies[len(bodies) // 5], bodies[len(bodies) // 2]
    edits = [(line, 4 + at, letter) for line in places for at, letter in enumerate(TYPED)]
    return await timed(folder, text, edits)


def statements(text: str) -> list[int]:
    """Lines, from 0, that end a statement inside a body."""
    lines = enumerate(text.splitlines())
    return [n for n, line in lines if line.startswith("    ") and line.rstrip().endswith(";")]


async def timed(folder: Path, text: str, edits: Sequence[tuple[int, int, str]]) -> dict[str, Any]:
    """Time from each edit, a key every 150 ms, to the diagnostics of its version; the source tier only."""
    path = folder / "thousand.cu"
    path.write_text(text)
    uri = path.as_uri()
    client = Client()
    await client.begin(folder, command=REAL, fresh=True, options={"settings": {"tier": "source"}})
    client.open(uri, text)
    await client.until(lambda: uri in client.published, 60)
    samples = []
    server = psutil.Process(client.pid)
    before = server.cpu_times()
    for version, (line, column, inserted) in enumerate(edits, start=2):
        await asyncio.sleep(0.15)
        started = time.perf_counter()
        client.insert(uri, version, line, column, inserted)
        while client.published[uri].version != version:
            await asyncio.sleep(0.0005)
        samples.append(time.perf_counter() - started)
    after, rss = server.cpu_times(), server.memory_info().rss
    await client.end()
    cpu = (after.user + after.system - before.user - before.system) / len(edits)
    return {
        "lines": text.count("\n"),
        **spread(samples),
        # On a machine with other work this says more than the times on the clock.
        "server_cpu_ms_per_change": round(1000 * cpu, 1),
        "resident_mb": round(rss / 1e6, 1),
    }


async def saves(folder: Path, runs: int) -> dict[str, Any]:
    """Saves of an example, each time with a changed kernel."""
    source = (EXAMPLES / "lennard_jones.cu").read_text()
    path = folder / "saved.cu"
    uri = path.as_uri()
    client = Client()
    path.write_text(source)
    await client.begin(folder, command=REAL, fresh=True, options={"accepts": ["warplens/status"]})
    client.open(uri, source)
    await client.until(lambda: _settled(client), 120)
    # Evidence is cached by content across runs of this program: the text must be new.
    nonce = int(time.time())
    done: list[float] = []
    bare: list[float] = []
    for run in range(runs):
        text = re.sub(
            r"(__global__[^{]*\{)", rf"\1 if (threadIdx.y > {nonce + run}) return;", source, count=1
        )
        path.write_text(text)
        client.replace(uri, run + 2, text)
        client.custom.clear()
        started = time.perf_counter()
        client.save(uri)
        await client.until(lambda: _settled(client), 120)
        done.append(time.perf_counter() - started)
        bare.append(_bare(path))
    rss = psutil.Process(client.pid).memory_info().rss
    await client.end()
    return {
        "saved": spread(done),
        "bare_nvcc_then_nvdisasm": spread(bare),
        "ratio_of_medians": round(statistics.median(done) / statistics.median(bare), 3),
        "resident_mb": round(rss / 1e6, 1),
    }


def _settled(client: Client) -> bool:
    states = [params["state"] for method, params in client.custom if method == "status"]
    return "checking" in states and states[-1] in ("ready", "limited", "error")


def _bare(path: Path) -> float:
    """Seconds of nvcc and then nvdisasm on a file, with nothing around them."""
    toolchain = Service(path.parent).toolchain(Settings())
    nvcc, nvdisasm = toolchain.require("nvcc").path, toolchain.require("nvdisasm").path
    with tempfile.TemporaryDirectory() as folder:
        cubin = f"{folder}/out.cubin"
        options = ["-cubin", "-arch=sm_90", "-lineinfo", "-Xptxas", "-v"]
        started = time.perf_counter()
        subprocess.run([nvcc, *options, "-o", cubin, path], check=True, capture_output=True)
        subprocess.run([nvdisasm, "-c", "-gi", cubin], check=True, capture_output=True)
        return time.perf_counter() - started


async def measure(quick: bool) -> dict[str, Any]:
    """All of it; `quick` takes few samples."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return {
            "benchmark": "language server",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {
                "cpu": platform.processor() or platform.machine(),
                "cores": os.cpu_count(),
                "load": [round(x, 2) for x in os.getloadavg()],
                "python": platform.python_version(),
            },
            "ready": await ready(folder, 3 if quick else 10),
            "change_to_diagnostics": await changes(folder, 20 if quick else 200),
            "typing_to_diagnostics": await typing(folder),
            "save": await saves(folder, 2 if quick else 5),
        }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="write the result here too")
    parser.add_argument("--quick", action="store_true", help="few samples")
    arguments = parser.parse_args()
    result = json.dumps(asyncio.run(measure(arguments.quick)), indent=1)
    if arguments.json:
        arguments.json.write_text(result + "\n")
    sys.stdout.write(result + "\n")


if __name__ == "__main__":
    main()
