# SPDX-License-Identifier: Apache-2.0
"""A test bench for search quality: files of plain numbers with a deterministic cost, noise, and failures.

It says nothing of real kernels; it has what makes their spaces hard: parameters that matter only together,
regions that fail, steps that pay only after another, and a few that do nothing.
"""

from __future__ import annotations

import hashlib
import math
import random
import re

from warplens.agent.moves import Move, Proposal
from warplens.agent.policies import RandomSearch
from warplens.agent.search_settings import SearchSettings
from warplens.agent.text_source import TextSource
from warplens.agent.tree import SearchTree
from warplens.agent.versions import Node, best_first
from warplens.measure.verdict import Candidate, Interval, State, Timing, Verdict
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.tunable.parameter import Geometry

NOISE = 0.01
_LINE = re.compile(r"^(\w+) = (\d+)$", re.MULTILINE)


class Landscape:
    """A cost over named integers. `values` are the choices of each name, the first the baseline's."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.values = {
            "block": [256, 32, 64, 128, 512, 1024],
            "tile": [16, 4, 8, 32, 64],
            "unroll": [1, 2, 4, 8, 16],
            "stages": [1, 2, 3, 4],
            "pad": [0, 1],
            "restrict": [0, 1],
            "literals": [0, 1],
            "useless": [0, 1, 2, 3, 4, 5],
        }
        self.best = {name: draw.choice(choices) for name, choices in self.values.items()}
        self.weight = {name: draw.uniform(0.05, 0.35) for name in self.values}
        self.weight["useless"] = 0.0
        self.limit = draw.choice([4096, 8192, 16384])
        self.wrong = ("tile", draw.choice([4, 8]))
        self.baseline = SourceText("".join(f"{name} = {c[0]}\n" for name, c in self.values.items()))
        self.sources = (TextSource("numbers", self.propose),)

    def seconds(self, at: dict[str, int]) -> float:
        total = 0.0
        for name, choices in self.values.items():
            distance = abs(sorted(choices).index(at[name]) - sorted(choices).index(self.best[name]))
            total += self.weight[name] * min(distance, 3)
        # Padding pays for large tiles only; stages only once loops are unrolled.
        total += 0.3 if at["tile"] >= 32 and not at["pad"] else 0.0
        total += 0.2 * (at["stages"] - 1) if at["unroll"] < 4 else 0.0
        return math.exp(total)

    def verdict(self, candidate: Candidate) -> Verdict:
        text = self.baseline.apply(list(candidate.edits))
        at = {name: int(value) for name, value in _LINE.findall(text.text)}
        state = self._failure(at)
        if state is not None:
            return Verdict(candidate.id, state, "as planted")
        noise = random.Random(hashlib.sha256(text.text.encode()).digest()).gauss(0.0, NOISE / 3)
        speedup = self.seconds(self._start()) / self.seconds(at) * math.exp(noise)
        return timed(candidate.id, speedup, NOISE)

    def _failure(self, at: dict[str, int]) -> State | None:
        if at["tile"] * at["tile"] * 4 * at["stages"] > 2 * self.limit:
            return "illegal"
        if at[self.wrong[0]] == self.wrong[1]:
            return "wrong"
        return "hung" if at["block"] == 1024 and at["unroll"] == 16 else None

    def _start(self) -> dict[str, int]:
        return {name: choices[0] for name, choices in self.values.items()}

    def propose(self, text: SourceText) -> list[Proposal]:
        found = []
        for match in _LINE.finditer(text.text):
            name = match[1]
            for value in self.values[name]:
                if value != int(match[2]):
                    edit = TextEdit(text.span(match.start(2), match.end(2)), str(value))
                    move = Move((f"{name}={value}",), name, f"{name} to {value}", gain=1.2, probability=0.2)
                    found.append(Proposal(move, (edit,)))
        return found

    def geometry(self, text: SourceText) -> Geometry:  # noqa: ARG002 - the interface's
        return Geometry()

    def illegal(self, text: SourceText) -> str:  # noqa: ARG002 - the interface's
        return ""


def timed(candidate: str, speedup: float, noise: float = NOISE) -> Verdict:
    """A verdict as a judge gives it for this speedup."""
    state: State = "faster" if speedup > 1 + noise else "slower" if speedup < 1 - noise else "same"
    interval = Interval(speedup, speedup * (1 - noise), speedup * (1 + noise))
    timing = Timing(
        Interval(1e3, 1e3, 1e3), Interval(1e3 / speedup, 1e3 / speedup, 1e3 / speedup), interval, noise, 20
    )
    return Verdict(candidate, state, "", timings=(timing,))


def search(
    landscape: Landscape, searcher: SearchTree | RandomSearch, budget: int, batch: int = 8
) -> Node | None:
    """Spend `budget` verdicts; the best version."""
    spent = 0
    while spent < budget:
        asks = searcher.ask(min(batch, budget - spent))
        if not asks:
            break
        for ask in asks:
            searcher.tell(ask.candidate.id, landscape.verdict(ask.candidate))
        spent += len(asks)
    return next(iter(best_first(searcher.versions.told())), None)


def compare(seed: int, budget: int, settings: SearchSettings | None = None) -> tuple[float, float]:
    """Best speedups of the tree and of chance at equal budget."""
    landscape = Landscape(seed)
    found = []
    for kind in (SearchTree, RandomSearch):
        searcher = kind(
            landscape.baseline, path="bench", kernel="k", space=landscape, settings=settings, seed=seed
        )
        best = search(landscape, searcher, budget)
        found.append(best.speedup or 1.0 if best is not None else 1.0)
    return found[0], found[1]
