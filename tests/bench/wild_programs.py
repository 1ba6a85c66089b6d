# SPDX-License-Identifier: Apache-2.0
"""Programs of other people against themselves.

    python tests/bench/wild_programs.py LIST [--out FILE] [--first N] [--part K/N] [--at-once N] [--seconds S]

LIST is a TOML file that stays outside the repository, beside the sources that were fetched for the run:

    [[program]]
    name = "owner/repository: path/of/the/source.cu"
    source = "path/of/the/source.cu"      # from LIST's folder
    arguments = ["64"]
    flags = ["-Iinclude"]                 # paths from LIST's folder where they begin with -I

Each is built, run once by itself, and judged against its own text, in a process of its own. What counts: measured in
place or refused by name within 20 s plus ten runs of the program, no crash, nothing but *same*.
A kernel whose own results differ from run to run, or that nothing can show to be right, is refused by name where the
reason says that of the kernel: what is judged is its own text, so nothing else can be at fault. Such rows are counted
beside those that are refused before anything is measured, and by themselves (`unproven_by_name`).
Several at once take turns on the card; what one waits for the others does not count. A run that was cut, or whose
seconds are over, goes on where it ended.

Only names, verdicts and figures are written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from warplens.measure.costs import WAITING
from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import WarplensError
from warplens_tools.run.workload import Workload

#: Seconds, and runs of the program, within which something must have been said.
SECONDS, RUNS = 20.0, 10.0
#: How reasons begin that say what a kernel is like, whoever is judged against it.
NATURE = (
    "the kernel's own results ",
    "the kernel itself ",
    "the kernel changes no memory ",
    "rounding alone may ",
)
#: Past this a program is given up: it counts as too slow.
GIVEN_UP = 120.0


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program of the list."""

    name: str
    source: str
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    kernel: str = ""

    def workload(self, folder: Path) -> Workload:
        """How it is built and run; it is started in its own folder, where its input files lie."""
        path = str((folder / self.source).resolve())
        flags = tuple(f"-I{(folder / f[2:]).resolve()}" if f.startswith("-I") else f for f in self.flags)
        return Workload(path, path, flags=flags, arguments=self.arguments)


def judge_one(entry: Entry, folder: Path) -> dict[str, Any]:
    """What the judge says of a program against itself."""
    work = entry.workload(folder)
    started = time.monotonic()
    try:
        with Judge(work, kernel=entry.kernel, settings=MeasureSettings(measure_identical=True)) as judge:
            baseline = judge.baseline()
            (verdict,) = judge.judge([Candidate("same", work.source, "", (), title="as it is")])
            costs = judge.costs()
    except WarplensError as error:
        return {"state": "refused", "reason": str(error), "seconds": round(time.monotonic() - started, 2)}
    own = baseline.program.seconds
    row: dict[str, Any] = {"state": verdict.state, "reason": verdict.reason, "kernel": baseline.kernel}
    seconds = time.monotonic() - started - costs.get(WAITING, 0.0)
    row |= {"seconds": round(seconds, 2), "program_seconds": round(own, 3), "costs": costs}
    row["kernel_us"] = round(baseline.timing.median_ns / 1e3, 2)
    if verdict.timings:
        row["largest_difference"] = round(max(abs(t.speedup.median - 1) for t in verdict.timings), 4)
    return row


def examined(entry: Entry, listed: Path, at_once: int) -> dict[str, Any]:
    """The same in a process of its own, which may die or hang; of several at once each may wait for all others."""
    command = [sys.executable, __file__, str(listed), "--one", entry.name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIVEN_UP * at_once, check=False
        )
    except subprocess.TimeoutExpired:
        return {"state": "too slow", "reason": f"nothing after {GIVEN_UP * at_once:g} s", "seconds": GIVEN_UP}
    if done.returncode:
        return {"state": "crashed", "reason": (done.stderr.strip() or "no message").splitlines()[-1]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def in_time(row: dict[str, Any]) -> bool:
    """Whether something was said within 20 s plus ten runs of the program."""
    return bool(row.get("seconds", GIVEN_UP) <= SECONDS + RUNS * row.get("program_seconds", 0.0))


def by_name(row: dict[str, Any]) -> bool:
    """Whether it is unproven for what the kernel itself is like."""
    return bool(row["state"] == "unproven" and row["reason"].startswith(NATURE))


def main() -> None:
    """Judge every program of the list, and write the sums after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--first", type=int, default=None)
    parser.add_argument("--part", default="0/1", help="the first of two parts: 0/2")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--one")
    options = parser.parse_args()
    entries = msgspec.convert(tomllib.loads(options.list.read_text())["program"], tuple[Entry, ...])
    if options.one:
        entry = next(e for e in entries if e.name == options.one)
        sys.stdout.write(json.dumps(judge_one(entry, options.list.parent)) + "\n")
        return
    number, of = map(int, options.part.split("/"))
    Wild(options).go(entries[: options.first][number::of])


class Wild:
    """One run of the command: rows by name, written after each."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self._gpu = options, present_gpus()[0]
        self._lock, self._ends = threading.Lock(), time.monotonic() + float(options.seconds)
        known = (
            json.loads(options.out.read_text())["programs"] if options.out and options.out.exists() else []
        )
        self.rows: dict[str, dict[str, Any]] = {row["name"]: row for row in known}

    def go(self, entries: Sequence[Entry]) -> None:
        """Judge those that are not known, as far as the time goes."""
        with ThreadPoolExecutor(self.options.at_once) as pool:
            list(pool.map(self._one, [entry for entry in entries if entry.name not in self.rows]))

    def _one(self, entry: Entry) -> None:
        if time.monotonic() >= self._ends:
            return
        row = {"name": entry.name, **examined(entry, self.options.list, self.options.at_once)}
        row["in_time"] = in_time(row)
        with self._lock:
            self.rows[entry.name] = row
            said = f"{row['state']:9} {row.get('seconds', 0):6.1f} s  {entry.name}: {row['reason'][:110]}"
            sys.stderr.write(f"{said}\n")
            if self.options.out:
                self._write()

    def _write(self) -> None:
        rows = list(self.rows.values())
        result = {
            "command": "python tests/bench/wild_programs.py LIST",
            "date": datetime.now(UTC).date().isoformat(),
            "gpu": self._gpu.name,
            "driver": self._gpu.driver,
            "of": len(rows),
            "same_or_refused_in_time": sum(
                r["state"] in ("same", "refused") or by_name(r) for r in rows if r["in_time"]
            ),
            "unproven_by_name": sum(map(by_name, rows)),
            "states": dict(Counter(r["state"] for r in rows)),
            "programs": rows,
        }
        self.options.out.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


if __name__ == "__main__":
    main()
