# SPDX-License-Identifier: Apache-2.0
"""A winner in its kernels' places for one whole run of the user's own program, and what that run shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.accompany import AccompaniedRun, Replacement, accompany
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens.measure.program.whole import ProgramRun, difference, run_program
from warplens.measure.verdict import State
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import UNATTENDED, Task

_WHAT = "launches compared at random, and the program's output with the candidate in place"


class StoodIn(msgspec.Struct, frozen=True):
    """What a whole run with the candidate's device code in place has shown."""

    #: Why the candidate is no winner; None if nothing speaks against it.
    odd: tuple[State, str] | None = None
    #: How many launches were compared, in words; "" where none could be.
    reason: str = ""
    unknown: tuple[Unknown, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the run was made to its end, and was the original's."""
        return self.odd is None and bool(self.reason)


def stand_in(
    place: VisitSpec,
    replacements: Sequence[Replacement],
    plain: ProgramRun,
    settings: MeasureSettings,
    folder: Path,
    *,
    rounding: float,
    task: Task = UNATTENDED,
) -> StoodIn:
    """Run the program with the candidate in place and compare launches, exit and output.

    Args:
        plain: one run of the program as it is; another is made, since what differs between two is not compared.
        rounding: as `difference` takes it.

    Raises:
        MissingToolError, CancelledError: as named.
    """
    try:
        ran = accompany(place, replacements, settings, folder, task=task)
    except InputError as error:
        return StoodIn(unknown=(Unknown(_WHAT, str(error)),))
    if ran.state == "unproven":
        # launches inside graphs, say: what was compared was right, and the rebuilt program is still to be run
        return StoodIn(unknown=(Unknown(_WHAT, ran.reason),))
    if ran.state != "right":
        return StoodIn(odd=(ran.state, ran.reason))
    return _output(ran, place, plain, rounding, task)


def _output(ran: AccompaniedRun, place: VisitSpec, plain: ProgramRun, rounding: float, task: Task) -> StoodIn:
    if ran.program is None:
        return StoodIn(unknown=(Unknown(_WHAT, "the program was ended before its own end"),))
    try:
        again = run_program(place.command, place.time_limit, task)
    except TimeLimitError as error:
        return StoodIn(unknown=(Unknown(_WHAT, str(error)),))
    strange = difference([plain, again], [ran.program], rounding=rounding)
    if strange:
        how = strange.replace("the rebuilt program", "with the candidate in place the program")
        return StoodIn(odd=("wrong", how))
    return StoodIn(reason=f"in the program itself {ran.reason}")
