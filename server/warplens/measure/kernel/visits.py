# SPDX-License-Identifier: Apache-2.0
"""Visits the launch as often as it takes to hear of every candidate."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from warplens.measure.costs import ARRIVAL, LARGER, LEARN, LOST, SNAPSHOT, START, WAITING, WARM_UP
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.questions import Questions, joined
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.elements import with_optional
from warplens_tools.run.probe.job import Job, JobCandidate, Shape, Variant
from warplens_tools.run.probe.records import (
    BaselineRecord,
    Begin,
    Closed,
    Damaged,
    Failed,
    Never,
    Opened,
    Record,
    ResultRecord,
)
from warplens_tools.run.probe.visit import ProbeRun, run_with_probe
from warplens_tools.toolchain.ptx_asks import Asked
from warplens_tools.toolchain.ptx_asks import asked as asked_of
from warplens_tools.toolchain.ptx_chance import by_chance
from warplens_tools.toolchain.ptx_marks import MARKS
from warplens_tools.toolchain.ptx_modes import modes_of

#: Of a comparison with one candidate, in times of what learning the kernel may take: it is run once where the kernel
#: was run several times.
_COMPARING = 8.0
#: Times as long as the settings say the kernel may be learned: for every set of inputs, in company of others on the
#: card; for a search's candidates, of which those that win are compared on every one; and for timings.
_THOROUGH, _ROUGHLY, _BRIEFLY = 3.0, 0.5, 0.25
#: Of that time, for what the kernel's twin says of which blocks run.
_TWIN = 0.5
#: Sets of inputs, the program's own among them, that a candidate is compared on before it is timed against a bar
#: (`kFirstCases` of the probe): wrong ones are mostly so on the first.
FIRST_CASES = 3
#: Of the card's memory, what has to be free for a next program to begin while this one still gives back its own.
_ROOMY = 0.5
#: A program may need as long again to reach the launch under the probe.
_OVERHEAD = 30.0


class CardTurn(Protocol):
    """The card, which others have meanwhile."""

    def take(self) -> object:
        """Have it, after others if need be."""

    def leave(self) -> None:
        """Let others have it."""


class Look(msgspec.Struct, frozen=True):
    """How closely candidates are looked at."""

    #: The speedup that a candidate has to beat to be looked at in full; 0 for all in full.
    bar: float = 0.0
    #: Only whether they beat it, on few sets of inputs.
    sifts: bool = False
    #: On the card as it was left: the caller still has it.
    at_once: bool = False


IN_FULL = Look()


class VisitResult(msgspec.Struct, frozen=True):
    """What a visit said of one candidate, with the baseline that it was measured against."""

    result: ResultRecord
    baseline: BaselineRecord
    opened: Opened
    #: The same of the control, where there is one.
    control: ResultRecord | None = None
    #: Whether the kernel launches others.
    children: bool = False
    #: Its share, in seconds by name, of what its visit did once for all: the program's start, the memory's copy, what
    #: was learned of the kernel, and its warming up.
    shared: dict[str, float] = {}
    #: Sets of inputs, and other questions, that the kernel itself did not stand.
    given_up: tuple[str, ...] = ()
    #: The bar that the candidate was held to first.
    bar: float = 0.0

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the sets of inputs that the candidate was compared on, if all went well."""
        cases = self.baseline.cases
        return cases[:FIRST_CASES] if self.result.state == "provisional" else cases


class Visits:
    """Runs visits for one launch; remembers which questions the baseline itself does not stand."""

    def __init__(
        self,
        place: VisitSpec,
        settings: MeasureSettings,
        folder: Path,
        *,
        thorough: bool = False,
        roughly: bool = False,
        briefly: bool = False,
        lengths: bool = False,
    ) -> None:
        """`thorough`: on every set of inputs, as a winner is confirmed, instead of some drawn at random. `roughly`:
        what is much faster or slower is timed in few rounds, as a search's candidates are before one is confirmed.
        `briefly`: for its timings above all, on few sets of inputs where they take long. `lengths`: on those sets alone
        in which numbers by value are others."""
        self._place, self._settings, self._folder = place, settings, folder
        self._learns = _BRIEFLY if briefly else _THOROUGH if thorough else _ROUGHLY if roughly else 1.0
        self._thorough, self._roughly = thorough, roughly
        apart = any(p.restrict for p in place.parameters)
        self.asks = Questions(settings, launch=place.launch, apart=apart, thorough=thorough, lengths=lengths)
        self._opened: Opened | None = None
        self._baseline: BaselineRecord | None = None
        self._control: ResultRecord | None = None
        self._began, self._start, self._together = 0.0, 0.0, 1
        self._turn: CardTurn | None = None
        self._look, self._keeps = IN_FULL, False
        self._arrival = self._waited = 0.0

    def judge(
        self,
        candidates: Sequence[JobCandidate],
        on_heard: Callable[[VisitResult], None],
        task: Task = UNATTENDED,
        turn: CardTurn | None = None,
        look: Look = IN_FULL,
    ) -> None:
        """Hear of every candidate, in as many visits as faults and hangs make of it.

        With a bar, "provisional" is said of who is right on the first sets of inputs and does not beat it, nor who was
        found to be better before in the same visit; where the look `sifts`, "right" says no more than that it does.

        `turn` is taken each time when the program is about to use the card, and left while it starts: that is others'
        time. It is left again once all was heard, as ending takes a program up to half a second, unless memory is
        scarce, or a candidate of a look that `sifts` is to be looked at in full: others' visits would take longer than
        programs take to end and to start, and the search waits for what it has found. Without it the card is the
        caller's already. It is held while `on_heard` is called.

        Raises:
            InputError: the launch cannot be visited; says why.
            TimeLimitError: the program never came to the launch in its time.
            MissingToolError, CancelledError: as named.
        """
        left, self._turn, self._look, self._keeps = list(candidates), turn, look, look.at_once
        while left:
            if turn is not None and not self._keeps:
                turn.leave()
            self._keeps = self._keeps and look.sifts
            batch = left[: self._settings.candidates_per_visit]
            heard: set[str] = set()

            def take(record: Record, heard: set[str] = heard) -> None:
                self._note(record)
                if isinstance(record, ResultRecord) and not self._is_control(record) and self._stands():
                    heard.add(record.candidate)
                    self._keeps = self._keeps or (look.sifts and record.state == "right")
                    on_heard(self._heard(record))

            self._control, self._together, self._began = None, len(batch), time.monotonic()
            self._arrival = self._waited = 0.0
            run = self._visit([*self._controls(), *batch], take, task)
            lost = self._lost(run, heard)
            if lost is not None and self._is_control(lost):
                self._control = lost
            if not self._stands():
                raise self._no_stand()
            if lost is not None:
                heard.add(lost.candidate)
                on_heard(self._heard(lost))
            elif not heard and not self.asks.give_up(run, time.monotonic() - self._began, self._start):
                raise self._unusable(run)
            left = [c for c in left if c.id not in heard]

    @property
    def may_sift(self) -> bool:
        """Whether a bar means anything: not where nothing is timed, or where a control says how all timings vary."""
        return self._place.control is None and self._place.timed and not self._settings.assume_faster

    def _note(self, record: Record) -> None:
        if isinstance(record, Opened):
            self._opened, self._start = record, time.monotonic() - self._began - record.seconds
        elif isinstance(record, BaselineRecord):
            self._baseline = record
        elif isinstance(record, ResultRecord) and self._is_control(record):
            self._control = record
        elif isinstance(record, Closed) and record.free_share >= _ROOMY and self._turn and not self._keeps:
            self._turn.leave()

    def _own_twin(self, batch: Sequence[JobCandidate]) -> JobCandidate | None:
        """What marks which blocks of the one candidate of a batch run, launched as it is."""
        own = self._place.own
        ones = [one for one in batch if one not in self._controls()]
        if own is None or self._place.twin is None or not self.asks.twin or len(ones) != 1:
            return None
        job = own.job
        return msgspec.structs.replace(ones[0], cubin=job.cubin, entry=job.entry, variables=job.variables)

    def _controls(self) -> list[JobCandidate]:
        return [self._place.control] if self._place.control is not None else []

    def _is_control(self, result: ResultRecord) -> bool:
        return any(result.candidate == control.id for control in self._controls())

    def _stands(self) -> bool:
        """Whether the control, as far as it was heard of, gives the kernel's own results."""
        return self._control is None or self._control.state in ("right", "unproven")

    def _no_stand(self) -> InputError:
        why = self._control.reason if self._control is not None else ""
        return InputError(f"the kernel as it is, linked anew, is not what the program runs: {why}")

    def _heard(self, result: ResultRecord) -> VisitResult:
        if self._opened is None or self._baseline is None:
            raise InputError("the probe spoke of a candidate before it knew the kernel")
        once = {
            ARRIVAL: self._arrival,
            WAITING: self._waited,
            START: self._start,
            SNAPSHOT: self._opened.seconds,
            LEARN: self._baseline.learn_seconds - self._baseline.room_seconds,
            LARGER: self._baseline.room_seconds,
            WARM_UP: self._baseline.warm_up_seconds,
            LOST: self.asks.lost_seconds,
        }
        skipped = (*self._baseline.skipped, *self.asks.unasked)
        return VisitResult(
            result,
            msgspec.structs.replace(self._baseline, skipped=skipped),
            self._opened,
            self._control,
            self._place.from_events,
            {name: round(seconds / self._together, 4) for name, seconds in once.items()},
            tuple(name.removeprefix("variant ") for name in self.asks.given_up),
            self._look.bar,
        )

    def _visit(
        self, batch: Sequence[JobCandidate], on_record: Callable[[Record], None], task: Task
    ) -> ProbeRun:
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="visit-") as folder:
            job = self._job(batch, str(Path(folder) / "records.jsonl"))
            each = self._settings.visit_seconds_per_candidate
            return run_with_probe(
                self._place.command,
                job,
                self._place.library,
                timeout=self._place.time_limit + _OVERHEAD + each * len(batch),
                stall=each,
                task=task,
                on_record=on_record,
                on_arrival=self._arrive if self._turn is not None else None,
            )

    def _arrive(self) -> None:
        """Take the card; the program's start so far is none of its time there."""
        self._arrival = time.monotonic() - self._began
        asked = time.monotonic()
        if self._turn is not None:
            self._turn.take()
        self._began = time.monotonic()
        self._waited = self._began - asked

    def _job(self, batch: Sequence[JobCandidate], result: str) -> Job:
        place, s = self._place, self._settings
        shape = place.target.shape
        asked = asked_of(place.ptx, place.target.compiled.mangled)
        modes = modes_of(place.ptx, place.target.compiled.mangled)
        return Job(
            mode="visit",
            result=result,
            parent=os.getpid(),
            helpers=str(place.helpers),
            kernel=place.target.live,
            instead=place.instead,
            converted=place.converted,
            shape=Shape(shape.grid, shape.block, shape.shared),
            launch=min(shape.visitable - 1, self.asks.launch),
            seed=random.SystemRandom().getrandbits(48),
            parameters=with_optional(
                place.probed(place.target.compiled, place.parameters),
                place.parameters,
                place.optional,
                asked.optional,
            ),
            variables=place.variables,
            held=place.held,
            variants=self._variants(asked),
            rooms=() if self._look.sifts else self.asks.rooms(),
            constants=joined(asked.constants, (c for one in batch for c in one.constants)),
            loose=modes.loose,
            masks=modes.masks,
            below=asked.below,
            tags=asked.tags,
            sentinels=joined(asked.floats, (f for one in batch for f in one.sentinels)),
            rule=place.rule,
            unread=asked.unread,
            free=asked.free,
            gathered=asked.gathered,
            widened=asked.widened,
            tells_nan=asked.nan,
            candidates=tuple(batch),
            twin=place.twin.job if place.twin is not None and self.asks.twin else None,
            own_twin=self._own_twin(batch),
            marks=MARKS,
            options={
                "repeats": s.repeats,
                "tolerance_factor": s.tolerance_factor,
                "lowered": s.lowered_error if s.lower_precision else 0.0,
                "baseline_limit": self._patience(),
                "hang_factor": s.hang_factor,
                "hang_seconds": s.hang_seconds,
                "warm_up_seconds": s.warm_up_seconds,
                "timing_seconds": s.timing_seconds,
                "timing_seconds_most": s.timing_seconds_most,
                "learn_seconds": self._learning(),
                "compare_seconds": _COMPARING * s.learn_seconds * max(1.0, self._learns),
                "twin_seconds": _TWIN * self._learning(),
                "rounds_min": s.rounds_min,
                "rounds_max": s.rounds_max,
                "precision": s.precision,
                "clear": s.clear_gain if self._roughly and place.control is None else 0.0,
                "checked_share": s.checked_share,
                "flush_cache": s.flush_cache,
                "poison": self.asks.poison,
                "fill": self.asks.fill,
                "perturb": self.asks.moves,
                "time": place.timed and not s.assume_faster,
                # whoever is to be called faster is looked at longer; a control's timings say how all others vary
                "sift": 0.0 if self._thorough or place.control is not None else s.smallest_gain / 2,
                "bar": self._look.bar,
                "sifts": self._look.sifts,
                "events": place.from_events,
                "any_block": place.any_block,
                # bounds of rounding are learned of a set of inputs once somebody's results are other bits there; where
                # nothing in the kernel goes by chance its own results, too, are computed when they are asked for
                "lazily": 1 if by_chance(place.ptx, place.target.live) else 2,
            },
        )

    def _variants(self, asked: Asked) -> tuple[Variant, ...]:
        drawn = self.asks.drawn(rounded=asked.rounded, whole=asked.whole, infinite=asked.infinite)
        # the program's own inputs are the first
        return drawn[: FIRST_CASES - 1] if self._look.sifts else drawn

    def _learning(self) -> float:
        return self._settings.learn_seconds * self._learns

    def _patience(self) -> float:
        """Seconds after which a launch of the kernel itself, on its own inputs, has not come back: the first one loads
        its code, too."""
        samples = self._place.target.shape.samples
        longest = max(samples, default=0.0) / 1e9
        if longest <= 0:
            return self._place.time_limit
        most = self._settings.hang_factor * longest + 2 * self._settings.hang_seconds
        return min(self._place.time_limit, most)

    def _lost(self, run: ProbeRun, heard: set[str]) -> ResultRecord | None:
        """The candidate that the visit ended with and that it could not speak of any more."""
        last = next((r for r in reversed(run.records) if isinstance(r, Begin | Damaged)), None)
        if last is None or last.candidate in heard:
            return None
        if run.stalled:
            return ResultRecord(last.candidate, "hung", "the card or the driver did not come back from it")
        return ResultRecord(last.candidate, "crashed", "the program died under it")

    def _unusable(self, run: ProbeRun) -> InputError | TimeLimitError:
        for record in reversed(run.records):
            if isinstance(record, Failed):
                return InputError(f"the launch cannot be visited: {record.reason}")
            if isinstance(record, Never):
                return record.why()
        if run.completed is None:
            return TimeLimitError(
                "the program did not come to the launch within its time",
                remedy="give it less work by its arguments, or raise its time limit",
            )
        words = (run.completed.stderr.strip() or "no message").splitlines()[-1]
        return InputError(f"the program ended with {run.completed.status} before the launch: {words}")
