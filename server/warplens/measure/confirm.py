# SPDX-License-Identifier: Apache-2.0
"""A winner's second examination: the whole program rebuilt, and fresh processes.

No process that holds the rebuilt program's host object runs outside the fence (`program/rebuilt.py`); where there is
no fence, or the program does not do the same behind it, the candidate stays unproven.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median

import msgspec

from warplens.measure.bound import sanitizer_seconds
from warplens.measure.build.candidates import Built
from warplens.measure.build.shipped import shipped_otherwise
from warplens.measure.build.transplant import transplanted
from warplens.measure.conditions import Watch
from warplens.measure.energy import EnergyGain, EnergyMeter
from warplens.measure.kernel.accompany import Replacement
from warplens.measure.kernel.gate import pooled, verdict_of
from warplens.measure.kernel.shapes import at_shape, keeps_geometry, others_of
from warplens.measure.kernel.stand_in import StoodIn, stand_in
from warplens.measure.kernel.target import Target
from warplens.measure.kernel.visits import VisitResult, Visits
from warplens.measure.program.rebuilt import Rebuilt
from warplens.measure.program.sanitize import new_reports
from warplens.measure.program.whole import LOWERED, ROUNDING, ProgramRun, difference
from warplens.measure.session import PreparedWorkload
from warplens.measure.verdict import Interval, State, Verdict
from warplens_tools.errors import CompileError, InputError, MissingToolError, TimeLimitError, ToolFailedError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import Task
from warplens_tools.run.build import start_command
from warplens_tools.toolchain.symbols import unit_free_name

_FREE = (
    "a build command of its own, or one that the fence kept from building the original, may read every file"
)


class ProgramGain(msgspec.Struct, frozen=True):
    """The whole program, original against rebuilt, in alternating runs. Intervals are whole ranges."""

    baseline_seconds: Interval
    candidate_seconds: Interval
    #: baseline / candidate: above 1 is faster.
    speedup: Interval
    #: Where it was asked for, and could be measured.
    energy: EnergyGain | None = None


class Confirmation(msgspec.Struct, frozen=True):
    """A winner measured again; its `verdict` alone is what may be reported as a gain."""

    verdict: Verdict
    program: ProgramGain | None = None
    #: What could not be examined.
    unknown: tuple[Unknown, ...] = ()


def confirm(
    built: Built, replacements: Sequence[Replacement], opened: PreparedWorkload, watch: Watch, task: Task
) -> Confirmation:
    """Rebuild, compare, measure in fresh processes, run. The card is the caller's. Raises as `Judge.confirm`.

    `replacements`: every kernel that the edit changes and the program launches, for one run with all of them in place.
    """
    return _Confirming(built, opened, watch, task).run(replacements)


class _NoWinnerError(Exception):
    """The candidate is no winner: its state and why."""

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


class _Confirming:
    """The steps of one confirmation; each raises `_NoWinnerError` where it is the last."""

    def __init__(self, built: Built, opened: PreparedWorkload, watch: Watch, task: Task) -> None:
        self._built, self._opened, self._watch, self._task = built, opened, watch, task
        self._folder = Path(tempfile.mkdtemp(dir=opened.session.folder, prefix="confirm-"))
        self._unknown: list[Unknown] = []

    def run(self, replacements: Sequence[Replacement]) -> Confirmation:
        with ThreadPoolExecutor(1) as pool:
            # compilers need no card: the program is rebuilt meanwhile
            rebuilding = pool.submit(self._rebuilt)
            return self._run(replacements, rebuilding)

    def _run(self, replacements: Sequence[Replacement], rebuilding: Future[Rebuilt]) -> Confirmation:
        opened = self._opened
        try:
            self._task.say("comparing other launches", None)
            elsewhere = _elsewhere(
                self._built,
                opened,
                self._folder,
                lambda heard: _one(heard, self._built, opened, self._watch),
                self._task,
            )
            if elsewhere is not None:
                raise _NoWinnerError(*elsewhere)
            self._task.say("measuring in fresh processes", None)
            heards = _fresh(self._built, opened, self._task)
            verdict = _verdict(heards, self._built, opened, self._watch)
            if verdict.state != "faster":
                return Confirmation(verdict)
            rounding = 0.0 if all(h.result.bitwise for h in heards) else ROUNDING
            rounding = LOWERED if any(h.result.lowered for h in heards) else rounding
            self._task.say("rebuilding the program", None)
            rebuilt = rebuilding.result()
            self._task.say("running the program with the candidate in place", None)
            stood = self._stood_in(replacements, rounding)
            self._task.say("running the rebuilt program", None)
            gain = self._whole(rebuilt, rounding, needed=not stood.right)
            if gain is not None and opened.session.settings.energy:
                gain = msgspec.structs.replace(gain, energy=self._energy(rebuilt))
            self._task.say("looking for faults with compute-sanitizer", None)
            self._sanitized()
        except _NoWinnerError as odd:
            return _failed(self._built, opened, odd.state, odd.reason)
        reason = f"{verdict.reason}; {stood.reason}" if stood.reason else verdict.reason
        return Confirmation(msgspec.structs.replace(verdict, reason=reason), gain, tuple(self._unknown))

    def _rebuilt(self) -> Rebuilt:
        """The program built from the candidate's text behind the fence; it holds the machine code that was judged."""
        opened, session = self._opened, self._opened.session
        text = opened.builder.edited(self._built.candidate).text
        try:
            strange = opened.builder.host_differs(text, self._folder / "host", self._task)
        except (CompileError, ToolFailedError, InputError) as error:
            raise _NoWinnerError("unproven", f"its host object cannot be compared: {error}") from error
        if strange:
            raise _NoWinnerError("refused", strange)
        try:
            reads = opened.builder.fence.reads
            rebuilt = Rebuilt(session, self._folder / "fenced", opened.place.library, reads)
            program = rebuilt.build(text, self._task, original=opened.text.text)
        except CompileError as error:
            raise _NoWinnerError("not_built", str(error)) from error
        except InputError as error:
            raise _NoWinnerError("unproven", str(error)) from error
        if rebuilt.reads_freely:
            self._unknown.append(Unknown("a rebuild that reads only what the original's does", _FREE))
        if strange := opened.builder.differs(program, self._task):
            raise _NoWinnerError("unproven", strange)
        strange = shipped_otherwise(
            Path(self._built.job.cubin),
            self._built.job.entry,
            program,
            toolchain=session.toolchain,
            folder=self._folder,
            task=self._task,
        )
        if strange:
            raise _NoWinnerError("unproven", strange)
        return rebuilt

    def _stood_in(self, replacements: Sequence[Replacement], rounding: float) -> StoodIn:
        opened = self._opened
        stood = stand_in(
            opened.place,
            replacements,
            opened.baseline.program,
            opened.session.settings,
            opened.session.folder,
            rounding=rounding,
            task=self._task,
        )
        if stood.odd is not None:
            raise _NoWinnerError(*stood.odd)
        self._unknown += stood.unknown
        return stood

    def _whole(self, rebuilt: Rebuilt, rounding: float, *, needed: bool) -> ProgramGain | None:
        """The whole program's gain, behind the fence. Where it does not run there as it does outside it, that is
        unknown if the candidate stood in for its kernels in the program itself, else the candidate is unproven."""
        found = _whole(self._built, self._opened, rebuilt, rounding, self._task)
        if isinstance(found, ProgramGain):
            return found
        if found[0] != "unproven" or needed:
            raise _NoWinnerError(*found)
        self._unknown.append(Unknown("the whole rebuilt program", found[1]))
        return None

    def _energy(self, rebuilt: Rebuilt) -> EnergyGain | None:
        """Of the whole program, original against rebuilt."""
        self._task.say("measuring energy", None)

        def once(*, original: bool) -> None:
            self._task.check()
            rebuilt.run(self._task, original=original)

        meter = EnergyMeter(self._opened.session.gpu.uuid)
        try:
            return meter.compare(lambda: once(original=True), lambda: once(original=False))
        except (MissingToolError, ToolFailedError, TimeLimitError) as error:
            self._unknown.append(Unknown("the energy of a run", str(error), error.remedy))
            return None

    def _sanitized(self) -> None:
        """compute-sanitizer on the user's own program with the candidate's device code in it."""
        opened, session = self._opened, self._opened.session
        try:
            program = self._transplanted()
        except (InputError, CompileError, TimeLimitError, MissingToolError) as error:
            self._unknown.append(Unknown("memory errors the GPU does not trap", str(error)))
            return
        fault, unknown = new_reports(
            opened.place.command,
            start_command(session.workload, program),
            kernel=opened.target.compiled.qualified_name.rsplit("::", 1)[-1],
            toolchain=session.toolchain,
            time_limit=sanitizer_seconds(opened.baseline.program.seconds, session.settings),
            task=self._task,
        )
        if fault:
            raise _NoWinnerError("wrong", fault)
        self._unknown += unknown

    def _transplanted(self) -> Path:
        opened, session = self._opened, self._opened.session
        if not keeps_geometry(self._built) or not opened.builder.keeps_sizes(
            opened.builder.edited(self._built.candidate).text
        ):
            raise InputError(
                "the edit changes launches or allocations, so that the program's host code is not its own"
            )
        if opened.unit.linked is not None:
            raise InputError("the unit's device code is linked with others'")
        return transplanted(
            session.workload,
            Path(self._built.job.cubin),
            toolchain=session.toolchain,
            arch=session.arch,
            folder=self._folder / "transplanted",
            timeout=session.settings.compile_seconds,
            task=self._task,
        )


def _failed(built: Built, opened: PreparedWorkload, state: State, reason: str) -> Confirmation:
    return Confirmation(
        Verdict(
            built.candidate.id,
            state,
            reason,
            resources=built.compiled.resources,
            baseline_resources=opened.target.compiled.resources,
        )
    )


def _whole(
    built: Built, opened: PreparedWorkload, rebuilt: Rebuilt, rounding: float, task: Task
) -> ProgramGain | tuple[State, str]:
    """The whole program's gain, or how the rebuilt one does not do the same; both run behind the fence."""
    work, settings = opened.session.workload, opened.session.settings
    try:
        rebuilt.settle(opened.program, opened.text.text, opened.baseline.program, task)
    except (InputError, CompileError, TimeLimitError, ToolFailedError) as error:
        return "unproven", str(error)
    try:
        before, after = _alternating(rebuilt, settings.program_runs, task)
    except TimeLimitError:
        return "hung", f"the rebuilt program did not end within {work.time_limit:g} s"
    except ToolFailedError as error:
        return "unproven", str(error)
    strange = difference(before, after, rounding=rounding)
    if strange:
        return "wrong", strange
    strange = _geometry(rebuilt, built, opened.target, task)
    return ("unproven", strange) if strange else _gain(before, after)


def _elsewhere(
    built: Built,
    opened: PreparedWorkload,
    folder: Path,
    verdict: Callable[[VisitResult], Verdict],
    task: Task,
) -> tuple[State, str] | None:
    """What is not right at the first and the last launch; nor faster at other shapes where every one counts."""
    place, settings = opened.place, opened.session.settings
    shape = place.target.shape
    places = [
        msgspec.structs.replace(place, launch=launch, timed=False)
        for launch in sorted({0, shape.visitable - 1} - {place.launch})
    ]
    if keeps_geometry(built):
        places = [*(at_shape(place, s, timed=True) for s in others_of(opened)), *places]
    for there in places:
        heards: list[VisitResult] = []
        Visits(there, settings, folder).judge([built.job], heards.append, task)
        result = heards[-1].result
        grid = "x".join(map(str, there.target.shape.grid))
        where = f"at launch {there.launch} with grid {grid}"
        if result.state != "right":
            return result.state, f"{where}: {result.reason}"
        found = verdict(heards[-1]) if there.timed else None
        if found is not None and found.state not in ("faster", "same"):
            return found.state, f"{where}: {found.reason}"
    return None


def _fresh(built: Built, opened: PreparedWorkload, task: Task) -> list[VisitResult]:
    """One visit per process; stops at the first that does not find it right."""
    session = opened.session
    heards: list[VisitResult] = []
    # every set of inputs in the first process, some drawn anew in the others
    for number in range(session.settings.confirmations):
        visits = Visits(opened.place, session.settings, session.folder, thorough=not number)
        visits.judge([built.job], heards.append, task)
        if heards[-1].result.state != "right":
            break
    return heards


def _one(heard: VisitResult, built: Built, opened: PreparedWorkload, watch: Watch) -> Verdict:
    return verdict_of(
        heard,
        gpu=opened.session.gpu,
        settings=opened.session.settings,
        resources=built.compiled.resources,
        baseline_resources=opened.target.compiled.resources,
        conditions=watch.now(),
        build_seconds=built.seconds,
    )


def _verdict(heards: list[VisitResult], built: Built, opened: PreparedWorkload, watch: Watch) -> Verdict:
    each = [_one(heard, built, opened, watch) for heard in heards]
    odd = next((v for v in each if v.state != "faster"), None)
    if odd is not None:
        words = f"in fresh process {each.index(odd) + 1}: {odd.reason}"
        return msgspec.structs.replace(odd, reason=words)
    # the one that was compared on every set of inputs
    first = heards[0]
    result = msgspec.structs.replace(first.result, timings=pooled(heards))
    verdict = _one(msgspec.structs.replace(first, result=result), built, opened, watch)
    ratios = ", ".join(f"{t.speedup.median:.3f}" for v in each for t in v.timings[:1])
    return msgspec.structs.replace(
        verdict, reason=f"{verdict.reason}; in each of {len(each)} fresh processes: {ratios}"
    )


def _alternating(rebuilt: Rebuilt, runs: int, task: Task) -> tuple[list[ProgramRun], list[ProgramRun]]:
    before: list[ProgramRun] = []
    after: list[ProgramRun] = []
    for turn in range(runs):
        # each goes first in every other turn: whoever does pays for what has gone cold
        for original in (True, False) if turn % 2 else (False, True):
            (before if original else after).append(rebuilt.run(task, original=original))
    return before, after


def _geometry(rebuilt: Rebuilt, built: Built, target: Target, task: Task) -> str:
    """Why the rebuilt program's launches are not those that were judged; "" if they are."""
    try:
        surveyed = rebuilt.launches(60.0, task)
    except (InputError, TimeLimitError) as error:
        return f"the rebuilt program cannot be followed: {error}"
    job, shape = built.job, target.shape
    wanted = (
        job.grid or shape.grid,
        job.block or shape.block,
        shape.shared if job.shared is None else job.shared,
    )
    name = unit_free_name(job.entry)
    found = {(s.grid, s.block, s.shared) for s in surveyed if unit_free_name(s.mangled) == name}
    if wanted in found:
        return ""
    return f"the rebuilt program launches the kernel as {sorted(found)}, judged was {wanted}"


def _gain(before: list[ProgramRun], after: list[ProgramRun]) -> ProgramGain:
    """The interval is the whole range: a handful of runs has no finer one."""
    old, new = _range([r.seconds for r in before]), _range([r.seconds for r in after])
    speedup = Interval(old.median / new.median, old.low / new.high, old.high / new.low)
    return ProgramGain(old, new, speedup)


def _range(seconds: list[float]) -> Interval:
    return Interval(median(seconds), min(seconds), max(seconds))
