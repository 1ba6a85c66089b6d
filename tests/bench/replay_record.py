# SPDX-License-Identifier: Apache-2.0
"""Records a table for `replay.py`: every point of a stated budget, judged once by the judge of this machine's GPU.

    python -m tests.bench.replay_record PROGRAM.cu --kernel K --json TABLE.json [--depth 2] [--values 4] [--points 2000]

The budget: chains of up to `depth` rewrites, each on the whole kernel; of each structure's parameters the values next
to its own, at most `values` of one, every combination; at most `points` in all, structures near the user's text first.
What was judged is in TABLE.json.part, a line each, so that an interrupted recording goes on where it was.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from tests.bench.replay_table import Axis, Edge, Point, Structure, Table

from warplens.agent.actions import KernelSpace
from warplens.agent.edits import compose, text_hash
from warplens.agent.judging import JudgeSession
from warplens.agent.priors import Rule
from warplens.agent.versions import speedup_of
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.errors import InputError
from warplens_tools.rewrite.base import Rewrite
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.tunable.parameter import TunableParameter, edits_for, skeleton


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

    def candidates(self, points: int) -> Iterator[tuple[int, tuple[int, ...], Candidate]]:
        """Each structure with each combination of values, up to `points` in all."""
        left = points
        for number, found in enumerate(self.found):
            for at in itertools.product(*(axis.values for axis in found.structure.axes)):
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
            found.edges.append(Edge(move.changes[0], move.rule, move.title, number))

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
    depth: int = 2,
    values: int = 4,
    points: int = 2000,
    batch: int = 32,
) -> Table:
    """The table; `part` holds what an earlier, interrupted recording had judged."""
    recorder = Recorder(space, text, rewrites)
    structures = recorder.structures(depth, values)
    baseline = judge.baseline()
    known = {(p.structure, p.values): p for p in _read(part)}
    waiting = [c for c in recorder.candidates(points) if (c[0], c[1]) not in known]
    for start in range(0, len(waiting), batch):
        chunk = waiting[start : start + batch]
        unchanged = [c for c in chunk if not c[2].edits]
        verdicts = judge.judge([c[2] for c in chunk if c[2].edits])
        told = {verdict.candidate: verdict for verdict in verdicts}
        told |= {c[2].id: Verdict(c[2].id, "same", "the user's version") for c in unchanged}
        with part.open("a", encoding="utf-8") as file:
            for number, at, candidate in chunk:
                point = _point(number, at, told[candidate.id])
                known[(number, at)] = point
                file.write(msgspec.json.encode(point).decode() + "\n")
        sys.stderr.write(f"{start + len(chunk)} of {len(waiting)}\n")
    return Table(
        source="measured",
        program=program,
        kernel=baseline.kernel,
        budget=f"up to {depth} rewrites, at most {values} values of a number, at most {points} points",
        command=f"python -m tests.bench.replay_record {program} --depth {depth} --values {values} --points {points}",
        structures=structures,
        points=tuple(known.values()),
        rules=recorder.rules,
        causes=space.known.causes,
        busy=dict(space.known.busy),
        gpu=baseline.conditions.gpu,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


def _point(structure: int, at: tuple[int, ...], verdict: Verdict) -> Point:
    noise = max((timing.noise for timing in verdict.timings), default=0.0)
    speedup = speedup_of(verdict) or (1.0 if verdict.state == "same" else 0.0)
    return Point(structure, at, verdict.state, speedup, noise, verdict.reason)


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
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--values", type=int, default=4)
    parser.add_argument("--points", type=int, default=2000)
    options = parser.parse_args()
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
    part = options.json.with_suffix(options.json.suffix + ".part")
    with open_judge(workload, options.kernel, "", Allowed()) as judge:
        table = record(
            space,
            text,
            inputs.rewrites,
            judge,
            program=options.program.name,
            part=part,
            depth=options.depth,
            values=options.values,
            points=options.points,
        )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    whole = options.json.with_suffix(".new")
    whole.write_bytes(msgspec.json.encode(table))
    os.replace(whole, options.json)  # noqa: PTH105
    sys.stdout.write(
        f"{len(table.points)} points of {len(table.structures)} structures, best {table.best:.2f}x\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
