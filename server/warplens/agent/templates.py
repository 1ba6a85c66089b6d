# SPDX-License-Identifier: Apache-2.0
"""Templates: all numbers of a version tuned together, with Optuna's TPE driven by ask and tell.

A template is a text with its parameters taken out; versions that differ in numbers alone share one, whichever way they
came about, and each verdict on one of them is a trial of it. What is asked next depends on these trials and the seed
alone, so a resumed search goes on as it would have.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence

import msgspec

from warplens.agent.edits import text_hash
from warplens.agent.moves import TOGETHER, Idea, Move, Proposal
from warplens.agent.priors import Rule
from warplens.agent.rewriting import Expect
from warplens.agent.search_settings import SearchSettings
from warplens.agent.versions import Node
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText
from warplens_tools.tunable.extract import KINDS
from warplens_tools.tunable.parameter import Template, TunableParameter, edits_for, fills_sectors, skeleton

RULE = "parameter:template"
WHY = "tunes all numbers together"
#: Draws that gave points already tried, before one is drawn from the rest.
_DRAWS = 4
#: Spaces up to this size are listed where TPE keeps repeating itself.
_LISTED = 20_000

#: A value of each parameter, in the order of the template's.
Point = tuple[int, ...]


class TemplateSource:
    """One idea for each version with two parameters or more: the next point of its template."""

    name = "templates"

    def __init__(
        self,
        template: Callable[[SourceText], Template],
        expect: Expect,
        settings: SearchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self._template, self._expect = template, expect
        self._settings, self._seed = settings or SearchSettings(), seed
        self._studies: dict[str, Study] = {}
        #: By text: its parameters and its study.
        self._read: dict[str, tuple[tuple[TunableParameter, ...], Study | None]] = {}

    def ideas(self, version: Node) -> Sequence[Idea]:
        """The next point; none where single steps reach all there is."""
        parameters, study = self._of(version.text)
        if study is None or len(parameters) < 2 or study.exhausted:
            return ()
        return (Idea(self._expected(parameters, study), _NextPoint(parameters, study, self._expect)),)

    def asked(self, version: Node) -> None:
        """A trial of the version's template began."""
        if version.parent is not None:
            # A template has the ranges of the first version that it was met in.
            before, first = self._of(version.parent.text)
            if first is not None and version.parent.parent is None:
                first.tell(tuple(p.value for p in before), 0.0)
        parameters, study = self._of(version.text)
        if study is not None:
            study.begin(tuple(p.value for p in parameters), chosen=version.ask.move.rule == RULE)

    def told(self, version: Node) -> None:
        """A trial of the version's template."""
        parameters, study = self._of(version.text)
        if study is None:
            return
        failed = self._settings.failure_gain
        gain = failed if version.speedup is None else max(math.log2(version.speedup), failed)
        study.tell(tuple(p.value for p in parameters), gain)

    def study(self, text: SourceText) -> Study | None:
        """The study of a text's template; None where it has no parameters."""
        return self._of(text)[1]

    def _of(self, text: SourceText) -> tuple[tuple[TunableParameter, ...], Study | None]:
        key = text_hash(text)
        found = self._read.get(key)
        if found is None:
            parameters = tuple(map(_in_whole_rows, self._template(text).parameters))
            found = self._read[key] = (parameters, self._studied(text, parameters) if parameters else None)
        return found

    def _studied(self, text: SourceText, parameters: Sequence[TunableParameter]) -> Study:
        key = hashlib.sha256(skeleton(text, parameters).encode()).hexdigest()
        if key not in self._studies:
            self._studies[key] = Study(parameters, f"{self._seed}/{key}")
        return self._studies[key]

    def _expected(self, parameters: Sequence[TunableParameter], study: Study) -> Move:
        """As the best of the single steps, the likelier the more often a point of the template was an improvement."""
        rules = [Rule.of_parameter(KINDS[p.kind], direction) for p in parameters for direction in (1, -1)]
        expected = [e for e in map(self._expect, rules) if e is not None]
        best = max(expected, key=lambda e: e.probability * math.log2(max(e.gain, 1.0)), default=None)
        chance = (best.probability if best is not None else 0.0) * study.luck
        return Move(
            changes=(TOGETHER,),
            rule=RULE,
            title=f"tune {', '.join(p.name for p in parameters)}",
            gain=best.gain if best is not None else 1.0,
            probability=min(chance, 1.0),
            answers=best.answers if best is not None else (),
            why=WHY,
        )


class Study:
    """The trials of one template, and where to look next."""

    def __init__(self, parameters: Sequence[TunableParameter], seed: str) -> None:
        self.names = tuple(p.name for p in parameters)
        #: The values of each, ascending.
        self.values = tuple(tuple(sorted({*p.domain, p.value})) for p in parameters)
        #: Gains in log2 of the speedup over the user's version.
        self.trials: dict[Point, float] = {}
        #: Points that are judged or will be; those of them that the study chose; those that came to nothing.
        self._begun: dict[Point, None] = {}
        self._chosen: set[Point] = set()
        self._dropped: set[Point] = set()
        self._gained = 0
        self._seed = seed

    @property
    def size(self) -> int:
        """How many points there are."""
        return math.prod(map(len, self.values))

    @property
    def exhausted(self) -> bool:
        """Whether every point was asked."""
        return len(self._begun.keys() | self._dropped) >= self.size

    @property
    def luck(self) -> float:
        """How often a point that was chosen was the best so far; a half before the first, so that the step that a
        finding asks for comes before all of them together.
        """
        told = len(self._chosen & self.trials.keys())
        return (1 + self._gained) / (2 + told)

    def begin(self, point: Point, *, chosen: bool) -> None:
        """A point will be judged."""
        if self._within(point):
            self._begun[point] = None
            self._dropped.discard(point)
            if chosen:
                self._chosen.add(point)

    def tell(self, point: Point, gain: float) -> None:
        """A verdict on one point."""
        if not self._within(point):
            return
        if point in self._chosen and gain > max(self.trials.values(), default=0.0):
            self._gained += 1
        self._begun[point] = None
        self.trials[point] = gain

    def ask(self) -> Point | None:
        """The next point that was not begun; None where there is none left. One that is not begun is not asked again.

        It depends on what was begun and told alone, so that points that came to nothing, which no journal has, leave
        no trace.
        """
        drawn = (self._drawn(attempt) for attempt in range(_DRAWS))
        point = next((p for p in drawn if p not in self._begun and p not in self._dropped), None)
        if point is None and self.size <= _LISTED:
            rest = [p for p in itertools.product(*self.values) if p not in self._begun]
            random.Random(f"{self._seed}/{len(self._begun)}").shuffle(rest)
            point = next((p for p in rest if p not in self._dropped), None)
        if point is not None:
            self._dropped.add(point)
        return point

    def _within(self, point: Point) -> bool:
        """Whether all its values are the template's: a further step may bring others within reach."""
        return all(value in values for value, values in zip(point, self.values, strict=True))

    def _drawn(self, attempt: int) -> Point:
        import optuna  # takes half a second, and only searches need it

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        scales = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1)
            for name, values in zip(self.names, self.values, strict=True)
        }
        # A point that is still waiting counts as an average one, so that a batch spreads out.
        average = sum(self.trials.values()) / len(self.trials) if self.trials else 0.0
        seen = {point: self.trials.get(point, average) for point in self._begun}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=_number(f"{self._seed}/{len(seen)}/{attempt}"), multivariate=True, n_startup_trials=6
            )
            study = optuna.create_study(direction="maximize", sampler=sampler)
            for point, gain in seen.items():
                at = {n: v.index(x) for n, v, x in zip(self.names, self.values, point, strict=True)}
                study.add_trial(optuna.trial.create_trial(params=at, distributions=dict(scales), value=gain))
            asked: Mapping[str, int] = study.ask(dict(scales)).params
        return tuple(values[asked[name]] for name, values in zip(self.names, self.values, strict=True))


class _NextPoint:
    """Asks a study, and gives a version's parameters the values it says."""

    def __init__(self, parameters: Sequence[TunableParameter], study: Study, expect: Expect) -> None:
        self._parameters, self._study, self._expect = parameters, study, expect

    def __call__(self, task: Task) -> Proposal | None:
        task.check()
        point = self._study.ask()
        if point is None:
            return None
        changed = [(p, v) for p, v in zip(self._parameters, point, strict=True) if v != p.value]
        rules = [Rule.of_parameter(KINDS[p.kind], 1 if v > p.value else -1) for p, v in changed]
        expected = [e for e in map(self._expect, rules) if e is not None]
        move = Move(
            changes=tuple(f"{p.name}={v}" for p, v in changed),
            rule=RULE,
            answers=tuple(dict.fromkeys(code for e in expected for code in e.answers)),
            title=", ".join(f"{p.name} {p.written(v)}" for p, v in changed),
            why=WHY,
            parts=tuple(dict.fromkeys(KINDS[p.kind].rule for p, _ in changed)),
        )
        return Proposal(move, tuple(edit for p, v in changed for edit in edits_for(p, v)))


def _in_whole_rows(parameter: TunableParameter) -> TunableParameter:
    """Without rows of so few threads that warps take sectors apart: those are left to single steps."""
    domain = tuple(v for v in parameter.domain if fills_sectors(parameter, v))
    return msgspec.structs.replace(parameter, domain=domain)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
