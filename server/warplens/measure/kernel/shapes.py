# SPDX-License-Identifier: Apache-2.0
"""Candidates measured at every distinct launch shape: faster only where slower at none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from warplens.measure.build.candidates import Built
from warplens.measure.kernel.survey import named
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens.measure.kernel.visits import VisitResult, Visits
from warplens.measure.session import PreparedWorkload
from warplens.measure.verdict import RIGHT, State, Verdict
from warplens_tools.process.task import Task
from warplens_tools.run.probe.job import Extent
from warplens_tools.run.probe.records import SurveyedShape


def others_of(opened: PreparedWorkload) -> tuple[SurveyedShape, ...]:
    """The shapes beside the heaviest at which candidates are measured; none unless every one is asked for."""
    if not opened.session.workload.every_shape:
        return ()
    return opened.place.target.others[: opened.session.settings.shapes_most - 1]


def at_shape(place: VisitSpec, shape: SurveyedShape, *, timed: bool) -> VisitSpec:
    """The same place, at another shape's launch of that number, or its last."""
    target = msgspec.structs.replace(place.target, shape=shape)
    launch = min(place.launch, shape.visitable - 1)
    return msgspec.structs.replace(place, target=target, launch=launch, timed=timed)


def keeps_geometry(built: Built) -> bool:
    """Whether a candidate is launched as the program launches it: a geometry of its own holds for one shape."""
    return (built.job.grid, built.job.block, built.job.shared) == (None, None, None)


def judge_shapes(
    opened: PreparedWorkload,
    built: Sequence[Built],
    first: dict[str, Verdict],
    verdict: Callable[[VisitResult], Verdict],
    task: Task,
) -> dict[str, Verdict]:
    """The verdicts over all shapes, by candidate; `first` are those at the heaviest.

    Raises:
        as `Visits.judge`.
    """
    found = {name: [("", one)] for name, one in first.items()}
    slower: dict[str, list[Extent]] = {}
    for shape in others_of(opened):
        alive = [b.job for b in built if keeps_geometry(b) and found[b.candidate.id][-1][1].state in RIGHT]

        def take(heard: VisitResult, shape: SurveyedShape = shape) -> None:
            one = verdict(heard)
            found[heard.result.candidate].append((named(shape), one))
            if one.state == "slower":
                slower.setdefault(heard.result.candidate, []).append(shape.grid)

        if alive:
            place = at_shape(opened.place, shape, timed=True)
            Visits(place, opened.session.settings, opened.session.folder).judge(alive, take, task)
    return {
        name: msgspec.structs.replace(over_shapes(verdicts), slower_at=tuple(slower.get(name, ())))
        for name, verdicts in found.items()
    }


def over_shapes(verdicts: Sequence[tuple[str, Verdict]]) -> Verdict:
    """One verdict of those at several shapes, by the shape's name; the timings stay the first one's."""
    first = verdicts[0][1]
    if len(verdicts) == 1:
        return first
    where, odd = next(((n, v) for n, v in verdicts if v.state not in RIGHT), ("", None))
    if odd is not None:
        reason = f"{where}: {odd.reason}" if where else odd.reason
        return msgspec.structs.replace(first, state=odd.state, reason=reason)
    states = {v.state for _, v in verdicts}
    state: State = "same"
    if len(states) == 1 or "slower" not in states:
        state = "faster" if "faster" in states else first.state
    elif "faster" not in states:
        state = "slower"
    words = "; ".join(f"{name}: {v.reason}" if name else v.reason for name, v in verdicts)
    mixed = "faster at one launch shape and slower at another: " if {"faster", "slower"} <= states else ""
    return msgspec.structs.replace(first, state=state, reason=mixed + words)
