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


class InPlace(msgspec.Struct, frozen=True):
    """Such a run, and one of the program as it is; `stood` says all where either of them was not made."""

    stood: StoodIn = StoodIn()
    ran: AccompaniedRun | None = None
    again: ProgramRun | None = None

    def shown(self, plain: ProgramRun, rounding: float) -> StoodIn:
        """The same with what was printed compared: what differs between two runs of the program as it is, of which
        `plain` is one, is not. `rounding` as `difference` takes it."""
        if self.ran is None or self.ran.program is None or self.again is None:
            return self.stood
        strange = difference([plain, self.again], [self.ran.program], rounding=rounding)
        if strange:
            how = strange.replace("the rebuilt program", "with the candidate in place the program")
            return StoodIn(odd=("wrong", how))
        return StoodIn(reason=f"in the program itself {self.ran.reason}")


def stand_in(
    place: VisitSpec,
    replacements: Sequence[Replacement],
    settings: MeasureSettings,
    folder: Path,
    task: Task = UNATTENDED,
) -> InPlace:
    """Run the program with the candidate in place and compare launches and exit.

    Raises:
        MissingToolError, CancelledError: as named.
    """
    try:
        ran = accompany(place, replacements, settings, folder, task=task)
    except InputError as error:
        return _unknown(str(error))
    if ran.state == "unproven":
        # launches inside graphs, say: what was compared was right, and the rebuilt program is still to be run
        return _unknown(ran.reason)
    if ran.state != "right":
        return InPlace(StoodIn(odd=(ran.state, ran.reason)))
    if ran.program is None:
        return _unknown("the program was ended before its own end")
    try:
        return InPlace(ran=ran, again=run_program(place.command, place.time_limit, task))
    except TimeLimitError as error:
        return _unknown(str(error))


def _unknown(why: str) -> InPlace:
    return InPlace(StoodIn(unknown=(Unknown(_WHAT, why),)))
