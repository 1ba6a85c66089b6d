# SPDX-License-Identifier: Apache-2.0
"""Launches at which a candidate is examined beside the judged one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens.measure.kernel.survey import named
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens_tools.run.probe.job import JobCandidate, Shape
from warplens_tools.run.probe.records import SurveyedShape


class Place(msgspec.Struct, frozen=True):
    """A launch at which one candidate is examined beside the judged one."""

    spec: VisitSpec
    job: JobCandidate
    kernel: str

    @property
    def name(self) -> str:
        """The kernel and its shape, in words."""
        return f"{self.kernel} {named(self.spec.target.shape)}"

    @property
    def where(self) -> tuple[object, ...]:
        """The same for all candidates that one visit can hear of."""
        shape = self.spec.target.shape
        live = self.spec.target.live
        return (live, shape.grid, shape.block, shape.shared, self.spec.timed, self.spec.instead)


class Plan(msgspec.Struct, frozen=True):
    """What else of one candidate there is to judge."""

    #: Heaviest first.
    places: tuple[Place, ...] = ()
    #: In words: changed and never launched; changed and launched, and left out by the bound.
    not_run: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def lightest(surveyed: Sequence[SurveyedShape], share: float) -> set[SurveyedShape]:
    """The shapes that take less than `share` of the program's kernel time, all of them together."""
    left = share * sum(s.total_ns for s in surveyed)
    found: set[SurveyedShape] = set()
    for shape in sorted(surveyed, key=lambda s: s.total_ns):
        left -= shape.total_ns
        if left <= 0:
            break
        found.add(shape)
    return found


def launched_at(was: SurveyedShape) -> Shape:
    """The geometry of the program's own launch."""
    return Shape(was.grid, was.block, was.shared)


def given_at(job: JobCandidate, was: SurveyedShape) -> Shape:
    """A candidate's geometry there: the launch's, where it does not say another."""
    return Shape(
        job.grid or was.grid, job.block or was.block, was.shared if job.shared is None else job.shared
    )
