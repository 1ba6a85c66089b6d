# SPDX-License-Identifier: Apache-2.0
"""Programs of other people against themselves.

    python tests/bench/wild_programs.py LIST [--out FILE] [--first N] [--part K/N]

LIST is a TOML file that stays outside the repository, beside the sources that were fetched for the run:

    [[program]]
    name = "owner/repository: path/of/the/source.cu"
    source = "path/of/the/source.cu"      # from LIST's folder
    arguments = ["64"]
    flags = ["-Iinclude"]                 # paths from LIST's folder where they begin with -I

Each is built, run once by itself, and judged against its own text, in a process of its own. What counts: measured in
place or refused by name within 20 s plus ten runs of the program, no crash, nothing but *same*.
Only names, verdicts and figures are written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import WarplensError
from warplens_tools.run.workload import Workload

#: Seconds, and runs of the program, within which something must have been said.
SECONDS, RUNS = 20.0, 10.0
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
    except WarplensError as error:
        return {"state": "refused", "reason": str(error), "seconds": round(time.monotonic() - started, 2)}
    own = baseline.program.seconds
    row: dict[str, Any] = {"state": verdict.state, "reason": verdict.reason, "kernel": baseline.kernel}
    row |= {"seconds": round(time.monotonic() - started, 2), "program_seconds": round(own, 3)}
    row["kernel_us"] = round(baseline.timing.median_ns / 1e3, 2)
    if verdict.timings:
        row["largest_difference"] = round(max(abs(t.speedup.median - 1) for t in verdict.timings), 4)
    return row


def examined(entry: Entry, listed: Path) -> dict[str, Any]:
    """The same in a process of its own, which may die or hang."""
    command = [sys.executable, __file__, str(listed), "--one", entry.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIVEN_UP, check=False)
    except subprocess.TimeoutExpired:
        return {"state": "too slow", "reason": f"nothing after {GIVEN_UP:g} s", "seconds": GIVEN_UP}
    if done.returncode:
        return {"state": "crashed", "reason": (done.stderr.strip() or "no message").splitlines()[-1]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def in_time(row: dict[str, Any]) -> bool:
    """Whether something was said within 20 s plus ten runs of the program."""
    return bool(row.get("seconds", GIVEN_UP) <= SECONDS + RUNS * row.get("program_seconds", 0.0))


def main() -> None:
    """Judge every program of the list, and write the sums after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--first", type=int, default=None)
    parser.add_argument("--part", default="0/1", help="the first of two parts: 0/2")
    parser.add_argument("--one")
    options = parser.parse_args()
    entries = msgspec.convert(tomllib.loads(options.list.read_text())["program"], tuple[Entry, ...])
    if options.one:
        entry = next(e for e in entries if e.name == options.one)
        sys.stdout.write(json.dumps(judge_one(entry, options.list.parent)) + "\n")
        return
    gpu = present_gpus()[0]
    rows: list[dict[str, Any]] = []
    number, of = map(int, options.part.split("/"))
    for entry in entries[: options.first][number::of]:
        row = {"name": entry.name, **examined(entry, options.list)}
        row["in_time"] = in_time(row)
        rows.append(row)
        sys.stderr.write(
            f"{row['state']:9} {row.get('seconds', 0):6.1f} s  {entry.name}: {row['reason'][:110]}\n"
        )
        measured = sum(r["state"] == "same" or r["state"] == "refused" for r in rows if r["in_time"])
        result = {
            "command": "python tests/bench/wild_programs.py LIST",
            "date": datetime.now(UTC).date().isoformat(),
            "gpu": gpu.name,
            "driver": gpu.driver,
            "of": len(rows),
            "same_or_refused_in_time": measured,
            "states": dict(Counter(r["state"] for r in rows)),
            "programs": rows,
        }
        if options.out:
            options.out.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


if __name__ == "__main__":
    main()
