# SPDX-License-Identifier: Apache-2.0
"""The search on the suite, on the GPU of this machine, beside what an expert made of each program.

    python -m tests.suite.search [NAME ...] [--budget 200] [--seconds 60] [--search mcts] [--idioms] [--out FILE]
        [--suite FOLDER] [--answers DIR] [--experts FILE] [--until 600] [--at-once 1] [--cards 1]

An expert's version is measured as the user's is: its kernel in place, in its own program. `share` is the search's
part of the expert's gain on a logarithmic scale; a program on which the expert gained less than 5 % has none.
`--experts` takes the programs' and the experts' times from an earlier result of the same card, where it is one.
Each search has a store of its own, so that none helps another. The result is written after every program; what is in
it already is not run again. Each row says how many candidates were judged a minute and where the seconds went
(`seconds.py`), and the summary in which shares. `--answers` keeps each search's answer, its store, and what it said
while it ran.
With `--until` the searches share that many seconds, `--seconds` at most each. Of several cards each search has one,
and sees no other; `--at-once` are on each.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import platform
import queue
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.suite.catalogue import SUITE, Program, programs
from tests.suite.seconds import shares
from tests.suite.watched import searched, watched

from warplens.measure.judge import Judge
from warplens.service.pooled import chosen_cards
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import WarplensError
from warplens_tools.run.workload import Workload

#: Below this an expert gained nothing that a share could be taken of.
LEAST_GAIN = 1.05
#: Seconds after its own that a search takes to confirm its winner: 35 for a program of 1.4 s and 270 MB on an H100.
_AFTER = 22.0
#: Seconds of a search below which it may end before its first verdicts (16 s for that program).
_LEAST = 20.0
#: What measuring an expert's version may take.
_EXPERT = 60.0
_RESAMPLES = 2000


def kernel_ns(path: Path, kernel: str) -> float | None:
    """Median time of the kernel in its own program; None where it cannot be measured."""
    try:
        with Judge(Workload(str(path), str(path)), kernel=kernel) as judge:
            return judge.baseline().timing.median_ns
    except WarplensError as error:
        sys.stderr.write(f"{path.name}: {error}\n")
        return None


def expert_ns(program: Program, card: str) -> float | None:
    """Median time of the expert's kernel on a card, in a process that sees that one alone; None where there is none."""
    if not program.expert.exists():
        return None
    command = [sys.executable, "-m", "tests.suite.search", "--time", str(program.expert), program.kernel]
    done = watched(command, seeing(card), _EXPERT)
    try:
        return float(done.answer)
    except ValueError:
        sys.stderr.write("\n".join([f"{program.name}, the expert's version:", *done.said[-3:], ""]))
        return None


def known_of(path: Path | None, gpu: str) -> dict[str, dict[str, float]]:
    """What an earlier result says of the programs and their experts, by program; nothing where it is of another card,
    with which times do not compare."""
    if path is None:
        return {}
    result = json.loads(path.read_text("utf-8"))
    if result["gpu"] != gpu:
        sys.stderr.write(f"{path} was made on {result['gpu']}, this is {gpu}: experts are measured anew\n")
        return {}
    names = ("kernel_us", "expert")
    return {r["program"]: {n: r[n] for n in names if n in r} for r in result["rows"] if "expert" in r}


def measured(program: Program, given: argparse.Namespace, seconds: float, card: str) -> dict[str, Any]:
    """One program's row, without its expert's."""
    row: dict[str, Any] = {"program": program.name, "area": program.area, "seconds": seconds}
    options = ["--budget", str(given.budget), "--seconds", str(seconds), "--search", given.search]
    options += ["--idioms"] * given.idioms
    return row | searched(program, options, seconds, seeing(card), given.answers)


def rate(row: dict[str, Any]) -> None:
    """Put the expert's gain and the search's share of it into a row, where both were measured."""
    if row.get("expert_us") and row.get("kernel_us"):
        row["expert"] = round(row["kernel_us"] / row["expert_us"], 3)
    if row.get("expert", 0.0) >= LEAST_GAIN:
        row["share"] = round(math.log(max(gain(row), 1.0)) / math.log(row["expert"]), 3)


def seeing(card: str) -> dict[str, str]:
    """The environment of a process that sees one card alone."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": card}


def gain(row: dict[str, Any]) -> float:
    """The proven speedup; 1 for none."""
    return float((row.get("speedup") or {}).get("median", 1.0))


Rows = Sequence[dict[str, Any]]


def geometric_mean(rows: Rows) -> float:
    """Of the proven speedups."""
    return math.exp(sum(math.log(gain(row)) for row in rows) / len(rows))


def rated(rows: Rows) -> Rows:
    """Those of programs on which the expert gained something that a share can be taken of."""
    return [row for row in rows if row.get("expert", 0.0) >= LEAST_GAIN]


def share_of_gain(rows: Rows) -> float:
    """The share of the experts' logarithmic gain in all."""
    experts = rated(rows)
    whole = sum(math.log(row["expert"]) for row in experts)
    return sum(math.log(max(gain(row), 1.0)) for row in experts) / whole if whole else math.nan


def spread(figure: Callable[[Rows], float], rows: Rows) -> list[float]:
    """The 95 % bootstrap interval of a figure over the programs."""
    draw = random.Random(0)
    found = sorted(figure(draw.choices(rows, k=len(rows))) for _ in range(_RESAMPLES))
    return [round(found[int(at * _RESAMPLES)], 3) for at in (0.025, 0.975)]


def summary(rows: Rows) -> dict[str, Any]:
    """Geometric means, and the share of the experts' gain in all, each with its interval over the programs."""
    experts = rated(rows)
    halves = sorted(row["half_gain_seconds"] for row in rows if row.get("half_gain_seconds"))
    found: dict[str, Any] = {
        "programs": len(rows),
        "geometric_mean": round(geometric_mean(rows), 3),
        "geometric_mean_interval": spread(geometric_mean, rows),
    }
    if experts:
        logs = [math.log(row["expert"]) for row in experts]
        found |= {
            "expert_geometric_mean": round(math.exp(sum(logs) / len(logs)), 3),
            "share_of_the_experts_gain": round(share_of_gain(experts), 3),
            "share_interval": spread(share_of_gain, experts),
        }
    found |= shares(rows)
    if halves:
        found["half_of_the_gain_after_seconds"] = {"median": halves[len(halves) // 2], "most": halves[-1]}
    return found


def written(rows: list[dict[str, Any]], given: argparse.Namespace, gpu: Gpu) -> None:
    """The result so far, into its file."""
    suite = "" if given.suite == SUITE else f" --suite {given.suite.name}"
    suite += " --idioms" * given.idioms
    at_once = f" --at-once {given.at_once}" if given.at_once > 1 else ""
    at_once += f" --cards {given.cards}" if given.cards > 1 else ""
    at_once += f" --until {given.until:g}" if given.until else ""
    result = {
        "command": f"python -m tests.suite.search --budget {given.budget} --seconds {given.seconds:g} "
        f"--search {given.search}{suite}{at_once}",
        "experts": f"times of {given.experts.name}" if given.experts else "measured beside the search",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "gpu": gpu.name,
        "cards": given.cards,
        "driver": gpu.driver,
        **summary(rows),
        "rows": rows,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")


class Runs:
    """Searches and experts' versions on several cards at once, as many on each as `given` says."""

    def __init__(self, given: argparse.Namespace, cards: Sequence[str]) -> None:
        self._given, self._begun = given, time.monotonic()
        self._free: queue.SimpleQueue[str] = queue.SimpleQueue()
        for card in cards * given.at_once:
            self._free.put(card)
        self._slots = len(cards) * given.at_once
        self._cards = itertools.cycle(cards)
        #: Searches that have not begun.
        self._waiting = 0

    def of(
        self, programs: Sequence[Program], done: Sequence[dict[str, Any]] = ()
    ) -> Iterator[dict[str, Any]]:
        """Each program's row when its search has ended, and again when its expert's version was measured; of what is
        `done`, only what is missing."""
        rows = {row["program"]: row for row in done}
        waiting = [program for program in programs if program.name not in rows]
        unrated = [program for program in programs if "expert" not in rows.get(program.name, {})]
        self._waiting = len(waiting)
        # experts' versions beside the searches, one at a time: the card's lock keeps their times apart
        with ThreadPoolExecutor(1) as aside, ThreadPoolExecutor(self._slots) as pool:
            searches = {pool.submit(self._search, program): program for program in waiting}
            experts = {aside.submit(self._expert, program): program for program in unrated}
            for ended in as_completed([*searches, *experts]):
                program = searches.get(ended) or experts[ended]
                row = rows.setdefault(program.name, {})
                row |= ended.result() or {}
                if "wall_seconds" in row:
                    rate(row)
                    yield row

    def _search(self, program: Program) -> dict[str, Any] | None:
        with self._card() as card:
            seconds = self._seconds()
            self._waiting -= 1
            return None if seconds is None else measured(program, self._given, seconds, card)

    def _seconds(self) -> float | None:
        """What the next search may take: its part of what is left, with the time to confirm; None for too little."""
        given = self._given
        if not given.until:
            return float(given.seconds)
        left = given.until - (time.monotonic() - self._begun)
        share = left / math.ceil(max(self._waiting, 1) / self._slots) - _AFTER
        seconds = min(given.seconds, max(_LEAST, share))
        return None if seconds + _AFTER > left else round(seconds, 1)

    def _expert(self, program: Program) -> dict[str, Any] | None:
        given = self._given
        if program.name in given.known:
            return {"expert": given.known[program.name]["expert"]}
        late = given.until and time.monotonic() - self._begun > given.until
        ns = None if late or given.without_experts else expert_ns(program, next(self._cards))
        return {"expert_us": round(ns / 1e3, 2)} if ns else None

    @contextlib.contextmanager
    def _card(self) -> Iterator[str]:
        card = self._free.get()
        try:
            yield card
        finally:
            self._free.put(card)


def chosen(given: argparse.Namespace) -> list[Program]:
    """The suite's programs, or those that are named, in that order.

    Raises:
        SystemExit: there is none of a name.
    """
    of = {program.name: program for program in programs(given.suite)}
    unknown = [name for name in given.names if name not in of]
    if unknown:
        raise SystemExit(f"{given.suite} has no {', '.join(unknown)}; it has {', '.join(of)}")
    return [of[name] for name in given.names or of]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--suite", type=Path, default=SUITE, help="a folder with suite.toml, programs, experts"
    )
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--search", default="mcts")
    parser.add_argument("--idioms", action="store_true", help="try idioms, too")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answers", type=Path, help="a folder for all that each search says")
    parser.add_argument("--experts", type=Path, help="an earlier result with the experts' times")
    parser.add_argument("--without-experts", action="store_true", help="measure no expert's version")
    parser.add_argument(
        "--until", type=float, help="share so many seconds among all, and begin none that may not end"
    )
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--cards", type=int, default=1, help="cards of one kind to use; 0 for all")
    parser.add_argument(
        "--time", nargs=2, metavar=("FILE", "KERNEL"), help="print one kernel's time in ns, no more"
    )
    given = parser.parse_args()
    if given.time:
        sys.stdout.write(f"{kernel_ns(Path(given.time[0]), given.time[1]) or 'none'}\n")
        return
    gpu = present_gpus()[0]
    cards = chosen_cards(given.cards)
    given.cards, given.known = len(cards), known_of(given.experts, gpu.name)
    earlier = json.loads(given.out.read_text())["rows"] if given.out and given.out.exists() else []
    rows: list[dict[str, Any]] = [row for row in earlier if "error" not in row]
    for row in Runs(given, cards).of(chosen(given), tuple(rows)):
        if not any(row is known for known in rows):
            rows.append(row)
            said = row.get("error") or (
                f"{gain(row):.2f}x, {row['judged']} judged, {row.get('judged_a_minute')} a minute; {row.get('seconds')}"
            )
            sys.stderr.write(f"{row['program']:22} {said}, {row.get('wall_seconds')} s\n")
        if given.out:
            written(rows, given, gpu)
    if rows:
        sys.stdout.write(json.dumps(summary(rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
