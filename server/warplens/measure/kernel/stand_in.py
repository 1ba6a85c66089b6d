# SPDX-License-Identifier: Apache-2.0
"""A winner in its kernels' places for one whole run of the user's own program, and what that run shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

_OWN_DOING = "the program prints otherwise with its own results, too, where launches of its are compared"


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

    def shown(self, plain: ProgramRun, rounding: float, control: Callable[[], ProgramRun | None]) -> StoodIn:
        """The same with what was printed compared: what differs between two runs of the program as it is, of which
        `plain` is one, is not. `rounding` as `difference` takes it.

        A program that prints otherwise is asked once more, by `control`, with its own results where launches are
        compared: one that looks at them while a kernel runs, from another stream, sees what comparing does.
        """
        if self.ran is None or self.ran.program is None or self.again is None:
            return self.stood
        own = [plain, self.again]
        strange = difference(own, [self.ran.program], rounding=rounding)
        if not strange:
            return StoodIn(reason=f"in the program itself {self.ran.reason}")
        other = control()
        if other is not None and difference(own, [other], rounding=rounding):
            return StoodIn(unknown=(Unknown(_WHAT, _OWN_DOING),))
        how = strange.replace("the rebuilt program", "with the candidate in place the program")
        return StoodIn(odd=("wrong", how))


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


def with_own_results(
    place: VisitSpec,
    replacements: Sequence[Replacement],
    settings: MeasureSettings,
    folder: Path,
    task: Task = UNATTENDED,
) -> ProgramRun | None:
    """The program's run in which launches are compared as in `stand_in`, and all results are its own kernels'; None
    where it was not made.

    Raises:
        MissingToolError, CancelledError: as named.
    """
    try:
        ran = accompany(place, replacements, settings, folder, stands=False, task=task)
    except InputError:
        return None
    return ran.program if ran.state == "right" else None


def _unknown(why: str) -> InPlace:
    return InPlace(StoodIn(unknown=(Unknown(_WHAT, why),)))
