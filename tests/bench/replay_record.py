# SPDX-License-Identifier: Apache-2.0
"""Records a table for `replay.py`: every point of a stated budget, judged once by the judge of this machine's GPU.

    python -m tests.bench.replay_record PROGRAM.cu --kernel K --json TABLE.json.xz [--steps 3] [--depth 2] [--values 3]
        [--points 2000] [--seconds 600]

The budget: all points within so many `steps` of the user's text, a step being a rewrite of the whole kernel or another
value of one number; at most `depth` of them rewrites, and at most `values` values of a number, those next to its own;
at most `points` in all, and no more than fit the seconds, in the order of steps. What was judged is in
TABLE.json.xz.CARD.part, a line each, so that an interrupted recording goes on where it was, on a card of the same name.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from tests.bench.replay_table import Axis, Edge, Point, Structure, Table, write_table

from warplens.agent.actions import KernelSpace
from warplens.agent.edits import compose, text_hash
from warplens.agent.judging import JudgeSession
from warplens.agent.priors import Rule
from warplens.agent.versions import speedup_of
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.rewrite.base import Rewrite
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.tunable.parameter import TunableParameter, edits_for, skeleton


class TableBudget(msgspec.Struct, frozen=True):
    """Which points a table has; see this module. A batch is one visit of the program."""

    steps: int = 3
    depth: int = 2
    values: int = 3
    points: int = 2000
    seconds: float = 600.0
    batch: int = 24


#: A structure, the values of its parameters, and the edits that make them.
Place = tuple[int, tuple[int, ...], Candidate]


class Found(msgspec.Struct):
    """A structure while it is recorded: its text, and its edits against the user's."""

    text: SourceText
    edits: tuple[TextEdit, ...]
    parameters: tuple[TunableParameter, ...]
    depth: int
    structure: Structure
    #: Judged with values of other axes as well.
    edges: list[Edge] = []


class Recorder:
    """Walks the structures of one kernel and judges their points."""

    def __init__(self, space: KernelSpace, text: SourceText, rewrites: Sequence[Rewrite]) -> None:
        self.space, self.text = space, text
        self.rules = {rewrite.slug: Rule.of_rewrite(rewrite) for rewrite in rewrites}
        self.found: list[Found] = []
        self._numbers: dict[str, int] = {}

    def structures(self, depth: int, values: int) -> tuple[Structure, ...]:
        """All structures of chains of up to `depth` rewrites."""
        self._enter(self.text, (), 0, values)
        for found in self.found:  # grows while it is walked
            if found.depth < depth:
                self._widen(found, values)
        return tuple(msgspec.structs.replace(f.structure, edges=tuple(f.edges)) for f in self.found)

    def candidates(self, steps: int, points: int) -> Iterator[Place]:
        """The points within so many steps, by their number of steps, up to `points` in all."""
        left = points
        for count in range(steps + 1):
            for number, found in enumerate(self.found):
                for at in _with_changed(found, count - found.depth):
                    candidate = self._candidate(number, found, at)
                    if candidate is None:
                        continue
                    if not left:
                        return
                    left -= 1
                    yield number, at, candidate

    def _widen(self, found: Found, values: int) -> None:
        for proposal in self.space.by_rewrite(found.text):
            if "/" in proposal.move.changes[0]:  # one of its places alone
                continue
            after = found.text.apply(list(proposal.edits))
            if self.space.illegal(after):
                continue
            edits = compose(self.text, found.edits, proposal.edits)
            number = self._enter(after, edits, found.depth + 1, values)
            move = proposal.move
            expected = self.space.known.expect(self.rules[move.rule])
            likely = move.probability / expected.probability if expected and expected.probability else 1.0
            found.edges.append(Edge(move.changes[0], move.rule, move.title, number, round(likely, 4)))

    def _enter(self, text: SourceText, edits: tuple[TextEdit, ...], depth: int, values: int) -> int:
        parameters = self.space.template(text).parameters
        key = skeleton(text, parameters)
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            axes = tuple(Axis(p.name, p.kind, p.value, _nearest(p, values)) for p in parameters)
            self.found.append(Found(text, edits, parameters, depth, Structure(axes)))
        return self._numbers[key]

    def _candidate(self, number: int, found: Found, at: tuple[int, ...]) -> Candidate | None:
        changed = [(p, v) for p, v in zip(found.parameters, at, strict=True) if v != p.value]
        edits = tuple(edit for p, v in changed for edit in edits_for(p, v))
        try:
            after = found.text.apply(list(edits))
        except InputError:  # two numbers of one place
            return None
        if self.space.illegal(after):
            return None
        geometry = self.space.geometry(after)
        return Candidate(
            id=f"{number}:{','.join(map(str, at))}",
            path=self.space.path,
            kernel=self.space.kernel,
            edits=compose(self.text, found.edits, edits),
            parent="baseline",
            origin="recording",
            title=f"structure {number}",
            text_hash=text_hash(after),
            grid=geometry.grid,
            block=geometry.block,
            dynamic_shared_bytes=geometry.dynamic_shared_bytes,
            asks_program=not geometry.known,
        )


def record(
    space: KernelSpace,
    text: SourceText,
    rewrites: Sequence[Rewrite],
    judge: JudgeSession,
    *,
    program: str,
    part: Path,
    budget: TableBudget,
    task: Task = UNATTENDED,
) -> Table:
    """The table; `part` holds what an earlier, interrupted recording had judged."""
    recorder = Recorder(space, text, rewrites)
    structures = recorder.structures(min(budget.depth, budget.steps), budget.values)
    baseline = judge.baseline()
    known = {(p.structure, p.values): p for p in _read(part)}
    points = list(recorder.candidates(budget.steps, budget.points))
    waiting = [point for point in points if point[:2] not in known]

    def keep(point: Point) -> None:
        known[(point.structure, point.values)] = point
        with part.open("a", encoding="utf-8") as file:
            file.write(msgspec.json.encode(point).decode() + "\n")

    with task.within(budget.seconds) as limit:
        for start in range(0, len(waiting), budget.batch):
            _judge(judge, waiting[start : start + budget.batch], keep, limit)
            sys.stderr.write(f"{program}: {len(known)} of {len(points)}\n")
    whole = _whole(points, known)
    return Table(
        source="measured",
        program=program,
        kernel=baseline.kernel,
        budget=f"all points within {budget.steps} steps, at most {budget.depth} of them rewrites and at most "
        f"{budget.values} values of a number: the first {len(whole)} of {len(points)} by steps",
        command=f"python -m tests.bench.replay_record {program} --steps {budget.steps} --depth {budget.depth} "
        f"--values {budget.values} --points {budget.points}",
        structures=structures,
        points=tuple(whole),
        rules=recorder.rules,
        causes=space.known.causes,
        busy=dict(space.known.busy),
        features=space.features,
        gpu=baseline.conditions.gpu,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


def _judge(
    judge: JudgeSession,
    chunk: Sequence[Place],
    keep: Callable[[Point], None],
    task: Task,
) -> None:
    """Judge points, and keep each verdict as it comes; the user's own is known before."""
    at = {candidate.id: (number, values) for number, values, candidate in chunk}

    def told(verdict: Verdict) -> None:
        keep(_point(*at[verdict.candidate], verdict))

    for *_, candidate in chunk:
        if not candidate.edits:
            told(Verdict(candidate.id, "same", "the user's version"))
    judge.judge([c for *_, c in chunk if c.edits], task=task, on_verdict=told)


def _whole(
    points: Sequence[Place],
    known: dict[tuple[int, tuple[int, ...]], Point],
) -> list[Point]:
    """What was judged of the points, in their order, to the first that was not."""
    return [known[point[:2]] for point in itertools.takewhile(lambda point: point[:2] in known, points)]


def _with_changed(found: Found, count: int) -> Iterator[tuple[int, ...]]:
    """The values of a structure's parameters with so many of them other than its own."""
    if count < 0:
        return
    axes = found.structure.axes
    for chosen in itertools.combinations(range(len(axes)), count):
        others = [
            [v for v in axis.values if v != axis.value] if n in chosen else [axis.value]
            for n, axis in enumerate(axes)
        ]
        yield from itertools.product(*others)


def _point(structure: int, at: tuple[int, ...], verdict: Verdict) -> Point:
    noise = max((timing.noise for timing in verdict.timings), default=0.0)
    speedup = speedup_of(verdict) or (1.0 if verdict.state == "same" else 0.0)
    reason = "" if verdict.timings else verdict.reason[:200]
    seconds = sum(spent for name, spent in verdict.cost.items() if name != "build")
    return Point(structure, at, verdict.state, round(speedup, 4), round(noise, 5), reason, round(seconds, 3))


def _read(part: Path) -> Iterator[Point]:
    for line in part.read_text("utf-8").splitlines() if part.exists() else ():
        try:
            yield msgspec.json.decode(line, type=Point)
        except msgspec.DecodeError:  # the line that the kill cut
            continue


def _nearest(parameter: TunableParameter, most: int) -> tuple[int, ...]:
    """The parameter's own value and those nearest to it in octaves, ascending."""

    def octaves(value: int) -> tuple[float, int]:
        return abs(math.log2(max(value, 1) / max(parameter.value, 1))), value

    return tuple(sorted(sorted({*parameter.domain, parameter.value}, key=octaves)[:most]))


def main() -> int:
    """Record one program's kernel."""
    from warplens.measure.judge_settings import Allowed
    from warplens.service.measured import busy_of
    from warplens.service.optimize import causes_of, inputs_of, open_judge
    from warplens.service.service import Service
    from warplens.service.workloads import workload_of

    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--json", type=Path, required=True)
    for field in msgspec.structs.fields(TableBudget):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    options = parser.parse_args()
    budget = TableBudget(*(getattr(options, name) for name in TableBudget.__struct_fields__))
    inputs = inputs_of(Service(Path.cwd()), options.program)
    report, text = inputs.report(), inputs.text()
    space = KernelSpace(
        text,
        path=str(inputs.path),
        kernel=options.kernel,
        limits=inputs.gpu.limits,
        rewrites=inputs.rewrites,
        causes=causes_of(report),
        busy=busy_of(report, options.kernel),
    )
    workload = workload_of(inputs.path, inputs.unit, inputs.loaded, options.kernel)
    card = "-".join(inputs.gpu.name.split())
    part = options.json.with_suffix(f"{options.json.suffix}.{card}.part")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    with open_judge(workload, options.kernel, "", Allowed()) as judge:
        table = record(
            space,
            text,
            inputs.rewrites,
            judge,
            program=options.program.name,
            part=part,
            budget=budget,
        )
    write_table(table, options.json)
    sys.stdout.write(
        f"{len(table.points)} points of {len(table.structures)} structures, best {table.best:.2f}x\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
