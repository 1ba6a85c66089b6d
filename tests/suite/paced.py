# SPDX-License-Identifier: Apache-2.0
"""How many candidates a search would judge in its seconds, with no GPU: its own steps, order and waits are real, its
lanes rest for as long as builds and visits take.

    python -m tests.suite.paced [NAME ...] [--seconds 40] [--budget 200] [--lanes 3] [--chunk 6]
        [--at-once 1] [--idioms] [--json FILE]

Verdicts are made up of the text's hash, so they say nothing of the programs. `build` is what the compiler takes, `own`
what a lane's process does itself for each of its candidates, one after the other; of a visit, `start` passes without
the card. What is looked at in full is visited again. The defaults are what the fourth sealed suite took on an H200's
host (`docs/benchmarks/suite_sealed_fourth.json`); a machine that does other things meanwhile judges fewer. With
`--at-once` each program is searched so many times at once on one card, one row each.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.server.agent.bench import timed
from tests.server.agent.doubles import ComputedJudge
from tests.suite.catalogue import SUITE, Program, programs

from warplens.agent.actions import KernelSpace
from warplens.agent.problem import Problem
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.agent.searcher import Policy
from warplens.agent.versions import Ask
from warplens.measure.confirm import Confirmation
from warplens.measure.costs import BUILD, COMPARE, SNAPSHOT, START, TIME, WAITING
from warplens.measure.pool.lane import Lane
from warplens.measure.pool.local import MOST_LANES
from warplens.measure.pool.pool import Pool
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.optimize import causes_of, inputs_of
from warplens.service.pooled import SEARCH_CHUNK
from warplens.service.service import Service
from warplens.store.database import open_store
from warplens_tools.arch.load import load_architecture
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText


class Takes(msgspec.Struct, frozen=True):
    """Seconds: until a lane beside the first is open, of the compiler, of a lane's own process a candidate, and of a
    visit; what is looked at in full takes `full` of the card beside a candidate's own `full_each`.
    """

    open: float = 1.5
    build: float = 1.8
    own: float = 0.3
    start: float = 0.7
    once: float = 0.8
    each: float = 0.1
    full: float = 2.0
    full_each: float = 1.0


class Card:
    """One card, which one lane has at a time, and how long it was had."""

    def __init__(self) -> None:
        self._lock, self.busy = threading.Lock(), 0.0

    @contextmanager
    def had(self) -> Iterator[float]:
        """Have it, after the others; the seconds that took."""
        asked = time.monotonic()
        with self._lock:
            began = time.monotonic()
            try:
                yield began - asked
            finally:
                self.busy += time.monotonic() - began


class RestingLane:
    """A lane that takes its time and makes its verdicts up."""

    confirmation_seconds = confirmation_about = 0.0
    lost = False

    def __init__(self, takes: Takes, card: Card, kernel: str, opens: float) -> None:
        self.card = "one"
        self.busy = 0.0
        self._opens = opens
        self._takes, self._shared, self._kernel = takes, card, kernel

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """Their builds take as long as others'."""

    def baseline(self, task: Task) -> Baseline:
        """One of a microsecond."""
        self._rest(self._opens, task)
        return msgspec.structs.replace(ComputedJudge(SourceText("")).baseline(task=task), kernel=self._kernel)

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        """Rest, and tell; what beats its bar is told last, as a judge does."""
        began, takes = time.monotonic(), self._takes
        self._rest(takes.build + takes.own * len(candidates), task)
        verdicts = [made_up(candidate, takes, len(candidates)) for candidate in candidates]
        ahead = [verdict for verdict in verdicts if verdict.state == "faster"]
        self._rest(takes.start, task)
        with self._shared.had() as waited:
            self._rest(takes.once, task)
            for verdict in verdicts:
                verdict.cost[WAITING] = waited / len(verdicts)
                self._rest(takes.each, task)
                if verdict not in ahead:
                    told(verdict)
        if ahead:
            self._rest(takes.start, task)
            with self._shared.had():
                self._rest(takes.full + takes.full_each * len(ahead), task)
            for verdict in ahead:
                told(verdict)
        self.busy += time.monotonic() - began

    def confirm(self, candidate: Candidate, task: Task) -> Confirmation:
        """Nothing holds, so nothing is said of the program."""
        del task
        return Confirmation(Verdict(candidate.id, "unproven", "made up"))

    def _rest(self, seconds: float, task: Task) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            task.check()
            time.sleep(min(left, 0.05))


class Asking:
    """What asking takes of this process, all of which lanes wait for."""

    def __init__(self) -> None:
        self.cpu = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count every ask meanwhile."""
        plain, asking = Policy.ask, self

        def ask(self: Policy, count: int = 1, task: Task = UNATTENDED) -> list[Ask]:
            began = time.thread_time()
            try:
                return plain(self, count, task)
            finally:
                asking.cpu += time.thread_time() - began

        Policy.ask = ask  # type: ignore[method-assign]
        try:
            yield
        finally:
            Policy.ask = plain  # type: ignore[method-assign]


def made_up(candidate: Candidate, takes: Takes, together: int) -> Verdict:
    """A verdict that the text's hash decides: a sixth of them are faster than the original by some percent."""
    draw = random.Random(candidate.text_hash)
    speedup = math.exp(draw.gauss(-0.25, 0.25))
    verdict = timed(candidate.id, speedup)
    state = "faster" if speedup > candidate.bar * 1.01 else "provisional"
    cost = {BUILD: takes.build, START: takes.start / together, SNAPSHOT: takes.once / together}
    return msgspec.structs.replace(
        verdict, state=state, cost={**cost, COMPARE: takes.each / 2, TIME: takes.each / 2}
    )


def paced(
    program: Program, service: Service, given: argparse.Namespace, takes: Takes
) -> list[dict[str, Any]]:
    """One program's rows, of a search each."""
    card, asking = Card(), Asking()
    with asking.counted(), ThreadPoolExecutor(given.at_once) as pool:
        runs = [pool.submit(_searched, program, service, given, takes, card) for _ in range(given.at_once)]
        found = [run.result() for run in runs]
    each = round(1e3 * asking.cpu / max(sum(row["judged"] for row in found), 1))
    return [row | {"asking_cpu_ms_each": each} for row in found]


def _searched(
    program: Program, service: Service, given: argparse.Namespace, takes: Takes, card: Card
) -> dict[str, Any]:
    text, inputs = SourceText.read(program.path), inputs_of(service, program.path, "sm_90")
    causes = causes_of(inputs.report())
    limits = load_architecture("sm_90").limits

    def space(kernel: str) -> KernelSpace:
        return KernelSpace(
            text,
            path=str(program.path),
            kernel=kernel,
            limits=limits,
            rewrites=inputs.rewrites,
            idioms=IDIOMS if given.idioms else (),
            causes=causes,
        )

    lanes: list[Lane] = [
        RestingLane(takes, card, program.kernel, takes.open if number else 0.0)
        for number in range(given.lanes)
    ]
    first, began, used = list[float](), time.monotonic(), time.process_time()

    def heard(message: str, share: float | None) -> None:
        if message.startswith("judged") and not first:
            first.append(time.monotonic() - began)
        del share

    problem = Problem(
        text=text,
        path=str(program.path),
        name=program.name,
        space=space,
        workload="",
        budget=Budget(given.budget, given.seconds),
    )
    pool = Pool(lanes, chunk=given.chunk)
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder)) as store:
        result = optimize(problem, pool, store, task=Task(heard, UNATTENDED.token))
    seconds = time.monotonic() - began
    judged = result.spent.candidates if result.spent is not None else 0
    busy = sum(lane.busy for lane in lanes if isinstance(lane, RestingLane))
    return {
        "program": program.name,
        "judged": judged,
        "seconds": round(seconds, 1),
        "first_verdict": round(first[0], 1) if first else None,
        "lanes_busy": round(busy / seconds / len(lanes), 2),
        "card_busy": round(card.busy / seconds, 2),
        "own_cpu_seconds": round(time.process_time() - used, 1),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--lanes", type=int, default=MOST_LANES)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--chunk", type=int, default=SEARCH_CHUNK)
    for name in Takes.__struct_fields__:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(Takes(), name))
    parser.add_argument("--idioms", action="store_true", help="try idioms, too")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    takes = Takes(**{name: getattr(given, name) for name in Takes.__struct_fields__})
    service, rows = Service(SUITE), list[dict[str, Any]]()
    for program in programs():
        if given.names and program.name not in given.names:
            continue
        rows += (found := paced(program, service, given, takes))
        for row in found:
            sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
        if given.json:
            given.json.write_text(
                json.dumps({"takes": msgspec.to_builtins(takes), "rows": rows}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
