# SPDX-License-Identifier: Apache-2.0
"""Candidates a minute of one search with one process, with the pool on one and more cards, and on Ray.

    python tests/bench/bench_pool.py [--candidates N] [--seconds S] [--ways one,pool1,pool2,single2,ray]
        [--kill] [--together] [--json FILE] [PROGRAM…]

`one` is a judge in this process, `pool2` the lanes of two cards, `single2` one lane a card, `ray` one task a card. Each
way is random search with one seed, asked for a batch at a time as `optimize` does, so that what is asked does not
depend on verdicts and all ways judge the same (the same again under other names where the space is used up); in a
store and with a cache of baselines of its own. Printed as JSON: candidates a minute from the first ask to the last
verdict, how long the cards measured, the noise floors (how far the baseline is from itself in the same visits), whether
the ways' verdicts agree, on which cards each candidate met its baseline, and how often a lock was waited for. `--kill`
ends one card's workers in the middle of one more run of the last way; `--together` runs two programs at once from two
processes, on a card each, against each alone: how the noise floors of the same candidates compare, with the interval of
their geometric mean, and whether any lock was waited for.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from warplens.agent.actions import KernelSpace
from warplens.agent.judging import JudgeSession, StreamingJudge
from warplens.agent.policies import RandomSearch
from warplens.agent.search_settings import Budget
from warplens.measure.judge_settings import Allowed
from warplens.measure.pool.local import LANES, LocalLane
from warplens.measure.pool.messages import Setup, judge_setup
from warplens.measure.pool.pool import Pool
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.optimize import OpenJudge, causes_of, inputs_of, open_judge
from warplens.service.pooled import chosen_cards, opener
from warplens.service.service import Service
from warplens.service.workloads import workload_of
from warplens_tools.arch.load import present_gpus
from warplens_tools.process.task import Task
from warplens_tools.run.probe.library import cache_folder
from warplens_tools.run.workload import Workload

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    ROOT / "tests/gpu/programs" / f"{name}.cu" for name in ("product", "heat3d", "black_scholes", "spmv_csr")
]


def ways(name: str) -> OpenJudge:
    """What opens the judge of a way."""
    if name == "one":
        return open_judge
    if name.startswith("single"):
        return functools.partial(_single_lanes, int(name.removeprefix("single")))
    return opener(None, "local") if name == "ray" else opener(int(name.removeprefix("pool")))


def _single_lanes(cards: int, workload: Workload, kernel: str, arch: str, allowed: Allowed) -> Pool:
    """One lane a card, as Ray has them: what Ray adds shows against this."""
    lanes = [LocalLane(judge_setup(workload, kernel, arch, allowed), card) for card in chosen_cards(cards)]

    def close() -> None:
        for lane in lanes:
            lane.close()

    return Pool(lanes, close)


class Spend(NamedTuple):
    """Candidates at most, and seconds after which nothing more is asked."""

    candidates: int
    seconds: float


class Asking:
    """Random search on a program, asked for batches until a number is reached, or the time is over."""

    def __init__(self, program: Path, kernel: str, budget: Spend) -> None:
        inputs = inputs_of(Service(ROOT), program)
        space = KernelSpace(
            inputs.text(),
            path=str(program),
            kernel=kernel,
            limits=inputs.gpu.limits,
            rewrites=inputs.rewrites,
            causes=causes_of(inputs.report()),
        )
        self._search = RandomSearch(inputs.text(), path=str(program), kernel=kernel, space=space, seed=1)
        self._made: list[Candidate] = []
        self._budget, self._given, self._began = budget, 0, 0.0

    def __call__(self) -> list[Candidate]:
        """The next batch; nothing at the end."""
        self._began = self._began or time.monotonic()
        over = time.monotonic() - self._began > self._budget.seconds
        size = 0 if over else min(Budget().batch, self._budget.candidates - self._given)
        batch = [ask.candidate for ask in self._search.ask(size)] if size else []
        self._made += batch
        if not self._made:
            raise SystemExit("nothing can be tried on this program")
        while len(batch) < size:
            # the same again under another name: it is built and measured anew
            number = self._given + len(batch)
            one = self._made[number % len(self._made)]
            batch.append(msgspec.structs.replace(one, id=f"{one.id}.{number}"))
        self._given += len(batch)
        return batch


@contextlib.contextmanager
def own_cache() -> Iterator[None]:
    """A cache of baselines for this run alone; the probe stays built."""
    kept = os.environ.get("WARPLENS_CACHE")
    probe = cache_folder()
    probe.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        (Path(cache) / "probe").symlink_to(probe.absolute())
        os.environ["WARPLENS_CACHE"] = cache
        try:
            yield
        finally:
            os.environ.pop("WARPLENS_CACHE") if kept is None else os.environ.update(WARPLENS_CACHE=kept)


def measure(program: Path, name: str, budget: Spend) -> dict[str, Any]:
    """One program judged one way."""
    inputs = inputs_of(Service(ROOT), program)
    workload = workload_of(inputs.path, inputs.unit, inputs.loaded)
    with own_cache(), ways(name)(workload, "", "", Allowed()) as judge:
        return {"program": program.name, "way": name, **_judged(judge, program, budget)}


def _judged(
    judge: JudgeSession, program: Path, budget: Spend, told: Callable[[Verdict], None] = lambda _: None
) -> dict[str, Any]:
    waits: list[str] = []

    def heard(message: str, share: float | None) -> None:
        del share
        waits.extend([message] if message.startswith("waiting for the GPU") else [])

    task = Task(heard)
    started = time.monotonic()
    kernel = judge.baseline(task=task).kernel
    opened = time.monotonic() - started
    verdicts: list[Verdict] = []
    came: list[float] = []
    more = Asking(program, kernel, budget)

    def take(verdict: Verdict) -> None:
        verdicts.append(verdict)
        came.append(round(time.monotonic() - started, 2))
        told(verdict)

    started = time.monotonic()
    if isinstance(judge, StreamingJudge):
        judge.stream(more(), lambda _idle: more(), take, task=task)
    else:
        while batch := more():
            judge.judge(batch, on_verdict=take, task=task)
    seconds = time.monotonic() - started
    noises = {v.candidate: statistics.median(t.noise for t in v.timings) for v in verdicts if v.timings}
    costs: Counter[str] = Counter()
    for verdict in verdicts:
        costs.update(verdict.cost)
    return {
        "candidates": len(verdicts),
        "seconds_to_open": opened,
        "seconds": seconds,
        "per_minute": 60 * len(verdicts) / seconds,
        "seconds_by_part": {part: round(spent, 2) for part, spent in costs.items()},
        "came_after_seconds": came,
        "noise_median": statistics.median(noises.values()) if noises else None,
        "cards": Counter(v.conditions.uuid for v in verdicts if v.conditions is not None),
        "locks_waited_for": len(waits),
        "states": {v.candidate: v.state for v in verdicts},
        "wrong": {v.candidate: v.reason for v in verdicts if v.state == "wrong"},
        "speedups": {v.candidate: v.timings[0].speedup.median for v in verdicts if v.timings},
        "noises": noises,
    }


class CountedLane(LocalLane):
    """A lane that counts what it judged, before the pool takes notice."""

    def __init__(self, setup: Setup, card: str, counted: Counter[str]) -> None:
        super().__init__(setup, card)
        self._counted = counted

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        """Judge candidates."""

        def count(verdict: Verdict) -> None:
            self._counted[verdict.candidate] += 1
            told(verdict)

        super().judge(candidates, count, task)


def killed(program: Path, cards: Sequence[str], budget: Spend) -> dict[str, Any]:
    """The pool on these cards, one card's workers killed after a third of the verdicts."""
    inputs = inputs_of(Service(ROOT), program)
    workload = workload_of(inputs.path, inputs.unit, inputs.loaded)
    setup = judge_setup(
        workload, "", "", Allowed(), build_jobs=max(1, (os.cpu_count() or 1) // (2 * len(cards)))
    )
    counted: Counter[str] = Counter()
    heard: list[str] = []
    with own_cache():
        lanes = [CountedLane(setup, card, counted) for card in cards for _ in range(LANES)]

        def told(verdict: Verdict) -> None:
            heard.append(verdict.candidate)
            if len(heard) == budget.candidates // 3:
                for lane in lanes:
                    if lane.card == cards[-1]:
                        lane.kill()

        def close() -> None:
            for lane in lanes:
                lane.close()

        with Pool(lanes, close) as pool:
            row = _judged(pool, program, budget, told)
            alive = pool.alive
    return {
        "program": program.name,
        "way": f"pool{len(cards)}, one card's workers killed",
        **row,
        "lanes_at_the_end": alive,
        "judged_twice": sorted(name for name, times in counted.items() if times > 1),
    }


def together(programs: list[Path], budget: Spend) -> dict[str, Any]:
    """Two programs at once, each on a card of its own, against each alone."""
    cards = chosen_cards(0)[:2]
    pair = list(zip(programs, cards, strict=False))
    alone = [_on(program, card, budget) for program, card in pair]
    sys.stderr.write(f"alone: {[row['noise_median'] for row in alone]}\n")
    rows: list[dict[str, Any]] = [{} for _ in pair]

    def work(number: int) -> None:
        rows[number] = _on(*pair[number], budget)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(pair))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ratios = [compared(one["noises"], both["noises"]) for one, both in zip(alone, rows, strict=True)]
    sys.stderr.write(f"noise together over alone: {ratios}\n")
    waited = [row["locks_waited_for"] for row in rows]
    return {"noise_ratios": ratios, "locks_waited_for": waited, "alone": alone, "together": rows}


def compared(alone: dict[str, float], both: dict[str, float]) -> dict[str, float]:
    """How much more the same candidates' noise is in the second run: geometric mean, with its 95 % interval."""
    logs = [math.log(both[name] / alone[name]) for name in alone if both.get(name, 0) > 0 and alone[name] > 0]
    mean, spread = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = mean - 1.96 * spread, mean + 1.96 * spread
    return {"ratio": math.exp(mean), "low": math.exp(low), "high": math.exp(high), "candidates": len(logs)}


def _on(program: Path, card: str, budget: Spend) -> dict[str, Any]:
    """In a process that sees one card."""
    import subprocess

    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [
            sys.executable,
            __file__,
            str(program),
            "--ways",
            "one",
            "--candidates",
            str(budget.candidates),
            "--seconds",
            str(budget.seconds),
            "--json",
            out.name,
        ]
        subprocess.run(
            command, env={**os.environ, "CUDA_VISIBLE_DEVICES": card}, check=True, stdout=sys.stderr
        )
        row: dict[str, Any] = json.loads(out.read())["rows"][0]
        return row


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--ways", default="one,pool1")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    budget = Spend(options.candidates, options.seconds)
    programs = [p.absolute() for p in options.programs] or PROGRAMS
    result: dict[str, Any] = {
        "command": "python tests/bench/bench_pool.py " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {', '.join(g.name for g in present_gpus())}",
        "rows": [],
    }

    def keep(**more: Any) -> None:
        """What is known so far is on disk, whenever the time is over."""
        result.update(more)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")

    for program in programs:
        for name in filter(None, options.ways.split(",")):
            row = measure(program, name, budget)
            sys.stderr.write(f"{program.name} {name}: {row['per_minute']:.1f} a minute\n")
            keep(rows=[*result["rows"], row], rates=rates([*result["rows"], row]))
    rows = result["rows"]
    if rows:
        keep(rates=rates(rows), verdicts_that_differ={p.name: differing(rows, p.name) for p in programs})
    if options.kill:
        keep(killed=killed(programs[0], chosen_cards(0)[:2], budget))
    if options.together:
        keep(two_at_once=together(programs, budget))
    if not options.json:
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 0


def differing(rows: list[dict[str, Any]], program: str) -> dict[str, list[str]]:
    """Candidates of which not all ways say the same, and what they say."""
    own = [row["states"] for row in rows if row["program"] == program]
    if not own:
        return {}
    common = [name for name in own[0] if all(name in states for states in own)]
    said = {name: [states[name] for states in own] for name in common}
    return {name: states for name, states in said.items() if len(set(states)) > 1}


def rates(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Each way's candidates a minute over the first one's, in geometric mean over the programs that went both ways."""
    found = {}
    first = rows[0]["way"]
    base = {row["program"]: row["per_minute"] for row in rows if row["way"] == first}
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row["per_minute"] / base[row["program"]] for row in rows if row["way"] == way]
        found[f"{way} over {first}"] = statistics.geometric_mean(own)
    return found


if __name__ == "__main__":
    sys.exit(main())
