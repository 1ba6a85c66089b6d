# SPDX-License-Identifier: Apache-2.0
"""A batch of exploits and honest candidates scored quickly, on the GPU of this machine.

    python tests/bench/judge_score.py BATCH --json FILE [--seconds 290] [--at-once 12] [--only WORDS|WORDS...]

First many judges at once, each with the card as if for itself, that compare and do not time: whatever they find wrong
is caught, in the first visit or in all that a confirmation compares. What they do not is timed by judges that take
turns on the card, as ever; an exploit that is called faster then was let through. Honest candidates are judged so
only, and rest on their first verdict unless `--confirm-honest` has all that a confirmation compares said of them, too.

`--crowd-only` ends where nothing is left but to time. `--patience 10` gives everything ten times as long: for a card in
software (tests/host_card), which is as right as any and far slower.

Every row is written as soon as it is known; a run that was cut goes on where it ended. Entries come in an order that is
random and the same each time. Exits with 1 as `judge_exploits.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Verdict
from warplens_tools.errors import WarplensError

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.bench import judge_exploits  # noqa: E402
from tests.gpu import batches  # noqa: E402
from tests.gpu.batches import Batch, Entry, Run  # noqa: E402
from tests.gpu.canary import Canary  # noqa: E402

#: Many at once slow each other down: what limits or budgets a single one is this many times as long.
_CROWDED = 6
#: States that say nothing of right or wrong, or that a crowded card may bring about.
_OPEN = frozenset({"faster", "same", "slower", "impossible", "hung", "failed"})


class Part(msgspec.Struct, frozen=True):
    """A few candidates of one program, for one judge."""

    run: Run
    #: Beside others: compared only.
    crowded: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Its candidates."""
        return tuple(entry.name for entry in self.run.entries)


def parts(batch: Batch, name: str, each: int, chosen: set[str], *, crowded: bool) -> list[Part]:
    """The chosen candidates of a batch, few of one program together, in an order that is random and always the same."""
    found = []
    for run in batches.runs(batch):
        entries = [entry for entry in run.entries if entry.name in chosen]
        random.Random(name + run.title).shuffle(entries)
        size = each if crowded else len(entries)
        for first in range(0, len(entries), max(size, 1)):
            found.append(
                Part(msgspec.structs.replace(run, entries=tuple(entries[first : first + size])), crowded)
            )
    random.Random(name).shuffle(found)
    return found


def settled(rows: dict[str, dict[str, Any]], entry: Entry) -> bool:
    """Whether nothing more is to be found out about an entry."""
    row = rows.get(entry.name)
    if row is None or not row["crowded"]:
        return row is not None
    return not entry.honest and row["state"] not in _OPEN


def patient(settings: MeasureSettings, times: float) -> MeasureSettings:
    """The settings with so many times the time to find out what is right."""
    return msgspec.structs.replace(
        settings,
        learn_seconds=times * settings.learn_seconds,
        hang_seconds=times * settings.hang_seconds,
        visit_seconds_per_candidate=times * settings.visit_seconds_per_candidate,
        accompany_seconds=times * settings.accompany_seconds,
        compile_seconds=times * settings.compile_seconds,
    )


def work(part: Part, confirm_honest: bool, patience: float) -> Iterator[dict[str, Any]]:
    """Judge a part in this process; a row for each candidate."""
    settings = msgspec.structs.replace(judge_exploits.SETTINGS, lower_precision=part.run.lower_precision)
    settings = patient(settings, patience)
    if part.crowded:
        settings = msgspec.structs.replace(
            settings,
            assume_faster=True,
            learn_seconds=_CROWDED * settings.learn_seconds,
            visit_seconds_per_candidate=_CROWDED * settings.visit_seconds_per_candidate,
            accompany_seconds=_CROWDED * settings.accompany_seconds,
            program_runs=1,
            confirmations=1,
            build_jobs=4,
        )
    run = part.run
    source = Path(run.workload.source)
    with Canary() as canary, Judge(run.workload, kernel=run.kernel, settings=settings) as judge:
        candidates = {entry.name: batches.candidate(entry, source, canary.words) for entry in run.entries}
        entries = {entry.name: entry for entry in run.entries}
        waiting: list[str] = []

        def row(verdict: Verdict, started: float) -> dict[str, Any]:
            made = judge_exploits.row_of(entries[verdict.candidate], verdict)
            seconds = round(time.monotonic() - started, 2)
            return made | {"crowded": part.crowded, "seconds": seconds, "cost": verdict.cost}

        started = time.monotonic()
        verdicts = judge.judge(list(candidates.values()))
        for verdict in verdicts:
            entry = entries[verdict.candidate]
            more = verdict.state == "faster" and part.crowded and (confirm_honest or not entry.honest)
            if more:
                waiting.append(entry.name)
            else:
                yield row(verdict, started) | {"touched": canary.touched(verdict.reason)}
        for name in waiting:
            started = time.monotonic()
            found = judge.confirm(candidates[name])
            told = {
                "confirmed": True,
                "steps": found.cost,
                "unknown": [f"{u.what}: {u.why}" for u in found.unknown],
            }
            verdict = found.verdict
            yield row(verdict, started) | told | {"touched": canary.touched(verdict.reason)}


class Scoring:
    """One run of the command: what is known, and the workers that find out more."""

    def __init__(self, name: str, out: Path, options: argparse.Namespace) -> None:
        self.name, self.out, self.options = name, out, options
        self.batch = batches.read(name)
        words = options.only.split("|")
        self.entries = {e.name: e for e in self.batch.candidate if any(word in e.name for word in words)}
        self.rows: dict[str, dict[str, Any]] = {}
        if out.exists():
            kept = json.loads(out.read_text())["candidates"]
            self.rows = {row["name"]: row for row in kept if row["name"] in self.entries}
        self._lock = threading.Lock()
        self._ends = time.monotonic() + float(options.seconds)
        self._started = time.monotonic()

    def left(self) -> float:
        """Seconds."""
        return self._ends - time.monotonic()

    def take(self, row: dict[str, Any]) -> None:
        """Note a row and write all."""
        with self._lock:
            known = self.rows.get(row["name"], {})
            if known and not row["crowded"]:
                row["compared"] = {key: known.get(key) for key in ("state", "reason", "confirmed", "seconds")}
            self.rows[row["name"]] = row
            said = f"{'crowd' if row['crowded'] else 'alone'} {row['seconds']:6.1f} s  {row['name']}: {row['state']}"
            sys.stderr.write(f"{said} ({row['reason'][:110]})\n")
            self.write()

    def write(self) -> None:
        """Everything known so far."""
        rows = [self.rows[name] for name in sorted(self.rows)]
        # where nothing is timed, what compared right is taken for faster
        compared = {row["name"] for row in rows if self.options.crowd_only and row["state"] != "failed"}
        final = [r for r in rows if r["name"] in compared or settled(self.rows, self.entries[r["name"]])]
        summary = judge_exploits.summary_of(
            self.batch, final, self._touched(), time.monotonic() - self._started
        )
        summary["open"] = sorted(set(self.entries) - {row["name"] for row in final})
        summary["candidates"] = rows
        self.out.parent.mkdir(parents=True, exist_ok=True)
        new = self.out.with_suffix(".new")
        new.write_text(json.dumps(summary, indent=1) + "\n")
        new.replace(self.out)

    def _touched(self) -> list[str]:
        return [f"{name}: {mark}" for name, row in self.rows.items() for mark in row.get("touched", ())]

    def go(self) -> None:
        """Both passes, as far as the time goes."""
        beside = {
            name
            for name, entry in self.entries.items()
            if name not in self.rows and (not entry.honest or self.options.confirm_honest)
        }
        self._all(parts(self.batch, self.name, self.options.each, beside, crowded=True), self.options.at_once)
        if self.options.crowd_only:
            return
        rest = [entry for entry in self.entries.values() if not settled(self.rows, entry)]
        for honest in (False, True):
            # their builds go side by side, their visits take turns
            chosen = {entry.name for entry in rest if entry.honest == honest}
            self._all(parts(self.batch, self.name, 1, chosen, crowded=False), 4)

    def _all(self, todo: Sequence[Part], at_once: int) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self._one, todo))

    def _one(self, part: Part) -> None:
        if self.left() <= 0:
            return
        with tempfile.TemporaryDirectory(prefix="judge-score-") as folder:
            environment = dict(os.environ)
            if part.crowded:
                environment["WARPLENS_LOCKS"] = folder
            asked = ["--work", "crowded" if part.crowded else "alone", "--names", *part.names]
            command = [sys.executable, __file__, self.name, "--json", "-", *asked]
            command += ["--confirm-honest"] if self.options.confirm_honest else []
            command += ["--patience", str(self.options.patience)]
            with subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as worker:
                watch = threading.Timer(max(self.left(), 0.1), worker.terminate)
                watch.start()
                told = set()
                assert worker.stdout is not None and worker.stderr is not None
                errors: list[str] = []
                reader = threading.Thread(target=lambda: errors.extend(worker.stderr or ()))
                reader.start()
                for line in worker.stdout:
                    row = json.loads(line)
                    told.add(row["name"])
                    self.take(row)
                worker.wait()
                reader.join()
                watch.cancel()
            if worker.returncode and self.left() > 0:
                for name in set(part.names) - told:
                    self.take(self._failed(part, name, "".join(errors[-3:]).strip()))

    def _failed(self, part: Part, name: str, why: str) -> dict[str, Any]:
        row = judge_exploits.row_of(self.entries[name], None, why)
        return row | {"crowded": part.crowded, "seconds": 0.0}


def _work(options: argparse.Namespace) -> int:
    batch = batches.read(options.batch)
    (part,) = parts(batch, options.batch, 10**6, set(options.names), crowded=options.work == "crowded")
    try:
        for row in work(part, options.confirm_honest, options.patience):
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
    except WarplensError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


def main() -> int:
    """Score the batch; the short of it to the screen."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("batch")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=290.0)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--confirm-honest", action="store_true")
    parser.add_argument("--crowd-only", action="store_true")
    parser.add_argument("--patience", type=float, default=1.0)
    parser.add_argument("--work", choices=("", "crowded", "alone"), default="", help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="*", default=(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return _work(options)
    scoring = Scoring(options.batch, options.json, options)
    scoring.go()
    scoring.write()
    found = json.loads(options.json.read_text())
    sys.stderr.write(
        f"{options.batch}: {found['scores']}, open {len(found['open'])}, {found['seconds']:.0f} s\n"
    )
    for fault in judge_exploits.FAULTS:
        for one in found[fault]:
            said = one if isinstance(one, str) else f"{one['name']}: {one['state']} ({one['reason'][:160]})"
            sys.stderr.write(f"{fault}: {said}\n")
    return int(any(found[fault] for fault in judge_exploits.FAULTS))


if __name__ == "__main__":
    sys.exit(main())
