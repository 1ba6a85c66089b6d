# SPDX-License-Identifier: Apache-2.0
"""What searches that share one card find in their seconds, by events of modelled times: no card, no waiting.

    python -m tests.suite.shared_card [--tables 16] [--seeds 2] [--at-once 1] [--seconds 40] [--lanes 3] [--chunk 6]
        [--left] [--learn 2.5] [--json FILE]

The search's policy is the real one, over the tables of `tests.bench.replay_model`, which say nothing of real kernels;
so is the size of chunks. Lanes build beside one another, and have the card in the order in which they come to it:
`Takes` says how long. What beats its bar is visited again, with `--left` after others that wait for the card meanwhile.
Told are the geometric mean of the best speedups that were told after some seconds, and how many verdicts there were.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec
from tests.bench.replay_model import modelled
from tests.bench.replay_table import Table, TableSpace

from warplens.agent.judging import SMALL_GAIN, WORTH_A_LOOK
from warplens.agent.policies import POLICIES
from warplens.agent.search_settings import Budget, SearchSettings
from warplens.measure.costs import BUILD, START, TIME
from warplens.measure.pool.local import MOST_LANES
from warplens.measure.pool.pace import Pace
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.pooled import SEARCH_CHUNK

#: Seconds after which the best so far is told.
_AT = (15.0, 25.0, 40.0)
#: Before the end nothing is begun that would not be told.
_LAST = 4.0


class Takes(msgspec.Struct, frozen=True):
    """Seconds, as recorded on an H200's host: until lanes beside the first are open; of a chunk's compiler and a lane's
    own work for each of its candidates; of a program's way to the launch; of a visit's learning, and of a candidate's
    brief look and one in full.
    """

    open: float = 1.5
    build: float = 2.9
    own: float = 0.25
    start: float = 0.5
    learn: float = 2.5
    brief: float = 0.15
    full: float = 1.0


class _Visit(msgspec.Struct):
    """A lane's candidates on their way to the card; `ahead` are those that are looked at in full."""

    search: int
    lane: int
    asked: float
    candidates: list[Candidate]
    ahead: list[tuple[Candidate, Verdict]] = []


class SharedCard:
    """Searches of tables, each with so many lanes, until `seconds` are over."""

    def __init__(
        self,
        tables: Sequence[Table],
        takes: Takes,
        *,
        lanes: int,
        chunk: int,
        seed: int,
        seconds: float,
        left: bool,
    ) -> None:
        """`left`: whether a lane leaves the card before it looks at something in full."""
        self._takes, self._lanes, self._seconds, self._left = takes, lanes, seconds, left
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._queue: deque[_Visit] = deque()
        self._number = itertools.count()
        self._held = False
        settings = SearchSettings()
        self._spaces = [
            TableSpace(table, seed=seed + n, settings=settings, without=(), rates=())
            for n, table in enumerate(tables)
        ]
        self._searches = [
            POLICIES["mcts"](
                space.baseline,
                path="table",
                kernel=table.kernel,
                space=space,
                settings=settings,
                seed=seed + n,
                headroom=table.headroom,
            )
            for n, (table, space) in enumerate(zip(tables, self._spaces, strict=True))
        ]
        self._pace = [Pace(chunk) for _ in tables]
        self._waiting: list[deque[Candidate]] = [deque() for _ in tables]
        self._busy: set[tuple[int, int]] = set()
        self.best = [1.0 for _ in tables]
        #: Of each search: when a verdict was told, and the best speedup by then.
        self.curves: list[list[tuple[float, float]]] = [[] for _ in tables]
        self.waits: list[float] = []
        for search in range(len(tables)):
            for lane in range(lanes):
                opens = takes.open if lane else 0.0
                self._at(opens, lambda now, s=search, n=lane: self._hand_out(now, s, n))  # type: ignore[misc]

    def run(self) -> None:
        """All of it."""
        while self._events and self._events[0][0] <= self._seconds:
            now, _, then = heapq.heappop(self._events)
            then(now)

    def best_at(self, seconds: float) -> list[float]:
        """The best speedup that each search was told by then."""
        return [max((s for at, s in curve if at <= seconds), default=1.0) for curve in self.curves]

    def _at(self, when: float, then: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._number), then))

    def _hand_out(self, now: float, search: int, lane: int) -> None:
        if now > self._seconds - _LAST:
            return
        size, waiting = self._pace[search].chunk(), self._waiting[search]
        budget = Budget()
        while len(waiting) < size:
            count = budget.batch if self.curves[search] else budget.first_batch
            asks = self._searches[search].ask(count)
            if not asks:
                break
            waiting.extend(ask.candidate for ask in asks)
        chunk = [waiting.popleft() for _ in range(min(size, len(waiting)))]
        if not chunk:
            return
        self._busy.add((search, lane))
        built = now + self._takes.build + self._takes.own * len(chunk)
        self._arrive(built, _Visit(search, lane, now, chunk))

    def _arrive(self, now: float, visit: _Visit) -> None:
        def come(at: float) -> None:
            self._queue.append(visit)
            self._serve(at)

        self._at(now + self._takes.start, come)

    def _serve(self, now: float) -> None:
        if not self._held and self._queue:
            self._held = True
            self._have(now, self._queue.popleft())

    def _have(self, now: float, visit: _Visit) -> None:
        takes = self._takes
        seconds = takes.full * len(visit.ahead) if visit.ahead else takes.brief * len(visit.candidates)
        self._at(now + takes.learn + seconds, lambda at: self._ended(at, visit))

    def _ended(self, now: float, visit: _Visit) -> None:
        told, visit.ahead = visit.ahead, []
        if not told:
            bar = self.best[visit.search]
            bar *= WORTH_A_LOOK if bar >= SMALL_GAIN else 1.0
            for candidate in visit.candidates:
                verdict = self._spaces[visit.search].verdict(candidate)
                beats = verdict.state == "faster" and verdict.timings[0].speedup.median > bar
                (visit.ahead if beats else told).append((candidate, verdict))
        for candidate, verdict in told:
            self._tell(now, visit, candidate, verdict)
        if visit.ahead and not self._left:
            return self._have(now + self._takes.start, visit)
        self._held = False
        if visit.ahead:
            self._arrive(now, visit)
        else:
            self._busy.discard((visit.search, visit.lane))
            for lane in range(self._lanes):
                if (visit.search, lane) not in self._busy and (now >= self._takes.open or not lane):
                    self._hand_out(now, visit.search, lane)
        self._serve(now)
        return None

    def _tell(self, now: float, visit: _Visit, candidate: Candidate, verdict: Verdict) -> None:
        search, together = visit.search, len(visit.candidates)
        self._searches[search].tell(candidate.id, verdict)
        if verdict.state == "faster":
            self.best[search] = max(self.best[search], verdict.timings[0].speedup.median)
        self.curves[search].append((now, self.best[search]))
        self.waits.append(now - visit.asked)
        cost = {BUILD: self._takes.build, START: self._takes.learn / together, TIME: self._takes.brief}
        self._pace[search].told(Verdict(candidate.id, "provisional", "", cost=cost), together)


def summary(given: argparse.Namespace, takes: Takes) -> dict[str, Any]:
    """All searches together."""
    logs: dict[float, list[float]] = {at: [] for at in _AT}
    judged, waits = list[int](), list[float]()
    tables = [modelled(n) for n in range(given.tables)]
    for seed in range(given.seeds):
        for n in range(0, len(tables) - given.at_once + 1, given.at_once):
            card = SharedCard(
                tables[n : n + given.at_once],
                takes,
                lanes=given.lanes,
                chunk=given.chunk,
                seed=100 * seed + n,
                seconds=given.seconds,
                left=given.left,
            )
            card.run()
            judged += map(len, card.curves)
            waits += card.waits
            for at, known in logs.items():
                known += map(math.log2, card.best_at(at))
    return {
        "lanes": given.lanes,
        "chunk": given.chunk,
        "at_once": given.at_once,
        "left": given.left,
        "judged": round(fmean(judged), 1),
        "ask_to_verdict": round(median(waits), 1),
        "best": {f"{at:g} s": round(2 ** fmean(known), 3) for at, known in logs.items()},
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--lanes", type=int, default=MOST_LANES)
    parser.add_argument("--chunk", type=int, default=SEARCH_CHUNK)
    parser.add_argument("--left", action="store_true", help="leave the card before a look in full")
    for name in Takes.__struct_fields__:
        parser.add_argument(f"--{name}", type=float, default=getattr(Takes(), name))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    takes = Takes(**{name: getattr(given, name) for name in Takes.__struct_fields__})
    row = summary(given, takes)
    sys.stdout.write(f"{row}\n")
    if given.json:
        given.json.write_text(json.dumps({"takes": msgspec.to_builtins(takes), **row}, indent=1) + "\n")


if __name__ == "__main__":
    main()
