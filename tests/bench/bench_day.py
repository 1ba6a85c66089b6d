# SPDX-License-Identifier: Apache-2.0
"""A scripted day in the editor: `python -m tests.bench.bench_day [--json FILE] [--edits N]`.

One client, the real server and compiler: example programs beside a unit that compiles slowly, 200 edits and saves,
fast typing in a 2,000-line file, a branch switch, a rename and a delete, 100 open files. What is counted: findings
that vanish and return, findings that come back after they were fixed, and the time from a change to its diagnostics.
A finding is told by code and kernel: an edit that does not fix it may move it and may change its words.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from lsprotocol import types
from tests.bench import bench_lsp
from tests.bench.bench_lsp import TYPED, spread, statements
from tests.server.lsp.client import REAL, Client

LINES = 2000
#: All the example programs once.
DAY_LINES = 230
KEYS_A_SECOND = 20
#: Takes the compiler many seconds and the source tier none: one chain of templates.
SLOW = """template <int N> struct Chain {{
    static __device__ float run(float x) {{ return Chain<N - 1>::run(x * {n}.5f + N) + Chain<N - 2>::run(x - N); }}
}};
template <> struct Chain<0> {{ static __device__ float run(float x) {{ return x; }} }};
template <> struct Chain<1> {{ static __device__ float run(float x) {{ return x + 1.f; }} }};
__global__ void slow(float* a) {{ a[threadIdx.x] = Chain<24>::run(a[threadIdx.x]); }}
"""


class Watched:
    """What is shown of one file over time, without what an edit is meant to change."""

    def __init__(self, client: Client, uri: str) -> None:
        self._client, self._uri = client, uri
        self._seen = 0
        self.before = Counter[tuple[str, str]]()
        self.gone: set[tuple[str, str]] = set()
        self.returned: list[str] = []

    def look(self) -> None:
        """Read what was published since the last look."""
        history = self._client.history
        for params in history[self._seen :]:
            if params.uri == self._uri:
                self._take(params)
        self._seen = len(history)

    def _take(self, params: types.PublishDiagnosticsParams) -> None:
        data: Any = [d.data or {} for d in params.diagnostics]
        now = Counter((str(d.get("code")), str(d.get("kernel"))) for d in data)
        for key in now:
            if now[key] > self.before[key] and key in self.gone:
                self.returned.append(f"{key[0]} of {key[1]} in version {params.version}")
                self.gone.discard(key)
        self.gone |= {key for key in self.before if now[key] < self.before[key]}
        self.before = now


class Day:
    """One session."""

    def __init__(self, folder: Path, edits: int, seed: int = 1) -> None:
        self.folder, self.edits = folder, edits
        self.random = random.Random(seed)
        self.client = Client()
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}

    async def open(self, name: str, text: str) -> str:
        """Write and open a file."""
        path = self.folder / name
        path.write_text(text)
        uri = path.as_uri()
        self.texts[uri], self.versions[uri] = text, 1
        self.client.open(uri, text)
        return uri

    def insert(self, uri: str, line: int, column: int, inserted: str) -> None:
        """Type at a 0-based place."""
        lines = self.texts[uri].split("\n")
        lines[line] = lines[line][:column] + inserted + lines[line][column:]
        self.texts[uri] = "\n".join(lines)
        self.versions[uri] += 1
        self.client.insert(uri, self.versions[uri], line, column, inserted)

    def replace(self, uri: str, text: str) -> None:
        """Put another text in place of the whole."""
        self.texts[uri] = text
        self.versions[uri] += 1
        self.client.replace(uri, self.versions[uri], text)

    def save(self, uri: str) -> None:
        """Write it to disk, and say so."""
        path = self.folder / uri.rsplit("/", 1)[-1]
        path.write_text(self.texts[uri])
        self.client.save(uri)

    async def settled(self, uri: str, seconds: float = 300) -> None:
        """Wait until nothing is done for a file."""

        def states() -> list[str]:
            return [p["state"] for m, p in self.client.custom if m == "status" and p["uri"] == uri]

        await self.client.until(lambda: states() and states()[-1] != "checking", seconds)

    async def edits_and_saves(self) -> dict[str, Any]:
        """Edits that fix nothing, anywhere in a program with findings, and saves between; then one real fix."""
        bench_lsp.LINES = DAY_LINES
        uri = await self.open("day.cu", bench_lsp.thousand_lines())
        await self.settled(uri)
        watched = Watched(self.client, uri)
        watched.look()
        found = dict(watched.before)
        for number in range(self.edits):
            self._edit(uri, number)
            if number % 5 == 4:
                self.save(uri)
            await asyncio.sleep(self.random.choice((0.0, 0.02, 0.3)))
            watched.look()
        self.save(uri)
        await self.settled(uri)
        watched.look()
        kept = dict(watched.before) == found
        resurrected = await self._fix(uri)
        return {
            "edits_and_saves": self.edits + self.edits // 5,
            "findings": sum(found.values()),
            "vanished_and_returned": len(watched.returned),
            "which": watched.returned[:5],
            "the_same_at_the_end": kept,
            "resurrected_after_a_fix": resurrected,
        }

    def _edit(self, uri: str, number: int) -> None:
        lines = self.texts[uri].split("\n")
        bodies = [
            n for n, line in enumerate(lines) if line.startswith("    ") and line.rstrip().endswith(";")
        ]
        line = self.random.choice(bodies)
        kind = number % 4
        if kind == 0:
            self.insert(uri, line, len(lines[line]), "  // typed")
        elif kind == 1:
            self.insert(uri, line, 0, "\n")
        elif kind == 2:
            # half a statement, and then the other half: in between the text does not parse
            self.insert(uri, line, len(lines[line]), " if (")
            self.insert(uri, line, len(lines[line]) + 5, "true) {}")
        else:
            self.replace(uri, self.texts[uri].replace("  // typed", ""))

    async def _fix(self, uri: str) -> int:
        """Pad the tile, save at once: what the fix removed must not come back while the kernel is compiled."""
        if "[kTile];" not in self.texts[uri]:
            raise AssertionError("the example has no tile to pad")
        self.replace(uri, self.texts[uri].replace("[kTile];", "[kTile + 1];"))
        count = len(self.client.history)
        await self.client.until(lambda: not self._has(uri, "WL108"), 60)
        self.save(uri)
        await self.settled(uri)
        shown = [p for p in self.client.history[count:] if p.uri == uri]
        first = next(i for i, p in enumerate(shown) if not any(d.code == "WL108" for d in p.diagnostics))
        return sum(any(d.code == "WL108" for d in p.diagnostics) for p in shown[first:])

    def _has(self, uri: str, code: str) -> bool:
        params = self.client.published.get(uri)
        return params is not None and any(d.code == code for d in params.diagnostics)

    async def slow_beside_small(self) -> dict[str, Any]:
        """A unit that compiles slowly is opened, and then a small one."""
        nonce = time.time_ns() % 1_000_000
        slow = [await self.open(f"slow{n}.cu", SLOW.format(n=nonce + n)) for n in range(3)]
        await asyncio.sleep(0.3)
        small = f"__global__ void small{nonce}(float* a) {{ a[threadIdx.x] = a[0] * 2.0; }}\n"
        started = time.perf_counter()
        uri = await self.open("small.cu", small)
        await self.settled(uri)
        taken = time.perf_counter() - started
        for other in slow:
            self.client.close(other)
        await self.client.until(lambda: not self.client.running("slow"), 30)
        return {"slow_units": len(slow), "small_unit_s": round(taken, 2)}

    async def typing(self) -> dict[str, Any]:
        """The first edit after opening, then 20 keys a second without a pause in 2,000 lines."""
        bench_lsp.LINES = LINES
        text = bench_lsp.thousand_lines()
        uri = await self.open("long.cu", text)
        await self.client.until(lambda: uri in self.client.published, 120)
        bodies = statements(text)
        line = bodies[len(bodies) // 2]
        server = psutil.Process(self.client.pid)
        opened = _cpu(server)
        first = await self._timed(uri, line, 4, "/**/ ")
        samples: list[float] = []
        tasks = []
        before, began, published = _cpu(server), time.perf_counter(), len(self.client.history)
        for at, letter in enumerate(TYPED):
            tasks.append(asyncio.create_task(self._timed(uri, line, 9 + at, letter)))
            await asyncio.sleep(1 / KEYS_A_SECOND)
        samples = list(await asyncio.gather(*tasks))
        cpu, took = _cpu(server) - before, time.perf_counter() - began
        published = len(self.client.history) - published
        self.client.close(uri)
        return {
            "lines": text.count("\n"),
            "keys_a_second": KEYS_A_SECOND,
            "first_edit_ms": round(1000 * first, 1),
            "change_to_publish": spread(samples),
            "publishes": published,
            # On a machine with other work these say more than the times on the clock; the check of the whole
            # file that goes on beside is in them.
            "first_edit_cpu_ms": round(1000 * (before - opened), 1),
            "server_cpu_ms_per_key": round(1000 * cpu / len(samples), 1),
            "server_cpu_ms_per_publish": round(1000 * cpu / max(published, 1), 1),
            "server_cpu_share": round(cpu / took, 2),
        }

    async def _timed(self, uri: str, line: int, column: int, inserted: str) -> float:
        self.insert(uri, line, column, inserted)
        version, started = self.versions[uri], time.perf_counter()
        while (self.client.published[uri].version or 0) < version:
            await asyncio.sleep(0.001)
        return time.perf_counter() - started

    async def many_files(self, count: int = 100) -> dict[str, Any]:
        """A branch switch with many open files; a file is created, one renamed, one deleted; a save among them."""
        source = SMALL
        uris = [await self.open(f"many{n}.cu", source) for n in range(count)]
        for uri in uris:
            await self.settled(uri, 600)
        self.client.custom.clear()
        (self.folder / "created.cu").write_text(source)
        (self.folder / "many0.cu").rename(self.folder / "renamed.cu")
        (self.folder / "many1.cu").unlink()
        changed = types.FileChangeType
        events = [
            types.FileEvent((self.folder / "created.cu").as_uri(), changed.Created),
            types.FileEvent((self.folder / "renamed.cu").as_uri(), changed.Created),
            types.FileEvent(uris[0], changed.Deleted),
            types.FileEvent(uris[1], changed.Deleted),
        ]
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(events))
        await asyncio.sleep(1.0)
        checked = {p["uri"] for m, p in self.client.custom if m == "status" and p["state"] == "checking"}
        self.client.custom.clear()
        last = uris[-1]
        nonce = time.time_ns() % 1_000_000
        for uri in uris[2:]:
            self.replace(uri, source + f"// branch {nonce}\n")
        started = time.perf_counter()
        for uri in uris[2:]:
            self.save(uri)
        await self.settled(last)
        return {
            "files": count,
            "checked_after_create_rename_delete": len(checked),
            "save_of_the_file_in_sight_s": round(time.perf_counter() - started, 2),
        }


def _cpu(process: psutil.Process) -> float:
    """Seconds of the processor that a process has taken, without its children's."""
    times = process.cpu_times()
    return float(times.user + times.system)


SMALL = "__global__ void scale(float* a) { a[threadIdx.x] *= 2.0f; }\n"


async def measure(edits: int, files: int) -> dict[str, Any]:
    """The whole day."""
    with tempfile.TemporaryDirectory() as name:
        day = Day(Path(name), edits)
        await day.client.begin(Path(name), command=REAL, fresh=True, options={"accepts": ["warplens/status"]})
        parts = {
            "edits": await day.edits_and_saves(),
            "slow_beside_small": await day.slow_beside_small(),
            "typing": await day.typing(),
            "many_files": await day.many_files(files),
        }
        resident = psutil.Process(day.client.pid).memory_info().rss
        started = time.perf_counter()
        status = await day.client.end()
        return {
            "benchmark": "a day in the editor",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {
                "cpu": platform.processor() or platform.machine(),
                "cores": os.cpu_count(),
                "load": [round(x, 2) for x in os.getloadavg()],
                "python": platform.python_version(),
            },
            **parts,
            "resident_mb": round(resident / 1e6, 1),
            "exit_s": round(time.perf_counter() - started, 2),
            "exit_status": status,
        }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="write the result here too")
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--files", type=int, default=100)
    arguments = parser.parse_args()
    result = json.dumps(asyncio.run(measure(arguments.edits, arguments.files)), indent=1)
    if arguments.json:
        arguments.json.write_text(result + "\n")
    sys.stdout.write(result + "\n")


if __name__ == "__main__":
    main()
