# SPDX-License-Identifier: Apache-2.0
"""A winner's second examination: the whole program rebuilt, and fresh processes.

No process that holds the rebuilt program's host object runs outside the fence (`program/rebuilt.py`); where there is
no fence, or the program does not do the same behind it, the candidate stays unproven.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from warplens.measure.bound import sanitizer_seconds
from warplens.measure.build.candidates import Built
from warplens.measure.build.shipped import shipped_otherwise
from warplens.measure.build.transplant import transplanted
from warplens.measure.company import NoWinnerError, Step, beside, may_be_company, side_by_side, waited
from warplens.measure.conditions import conditions_together
from warplens.measure.costs import Costs
from warplens.measure.coverage import Coverage
from warplens.measure.fresh import (
    Visited,
    heard_together,
    in_fresh_processes,
    not_compared,
    not_faster,
    of_each,
    visit_alone,
)
from warplens.measure.kernel.accompany import Replacement
from warplens.measure.kernel.shapes import at_shape, keeps_geometry, others_of
from warplens.measure.kernel.stand_in import InPlace, StoodIn, stand_in, with_own_results
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens.measure.kernel.visits import VisitResult, Visits
from warplens.measure.program.rebuilt import Rebuilt
from warplens.measure.program.sanitize import new_reports
from warplens.measure.program.whole import LOWERED, ROUNDING, ProgramRun
from warplens.measure.session import PreparedWorkload
from warplens.measure.turn import Turn
from warplens.measure.verdict import Verdict
from warplens.measure.whole_gain import ProgramGain, energy_gain, timed, unsettled
from warplens_tools.collect.sanitizer import TOOLS
from warplens_tools.errors import CompileError, InputError, MissingToolError, TimeLimitError, ToolFailedError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import Task
from warplens_tools.run.build import start_command

_FREE = (
    "a build command of its own, or one that the fence kept from building the original, may read every file"
)


class Confirmation(msgspec.Struct, frozen=True):
    """A winner measured again; its `verdict` alone is what may be reported as a gain."""

    verdict: Verdict
    program: ProgramGain | None = None
    #: What could not be examined.
    unknown: tuple[Unknown, ...] = ()
    #: Seconds that each step took, by name; steps overlap.
    cost: dict[str, float] = {}


def confirm(
    built: Built,
    replacements: Sequence[Replacement],
    opened: PreparedWorkload,
    turn: Turn,
    task: Task,
    coverage: Coverage,
) -> Confirmation:
    """Rebuild, compare, measure in fresh processes, run. Raises as `Judge.confirm`.

    Others get the card between steps: a confirmation takes as long as dozens of their visits.

    `replacements`: every kernel that the edit changes and the program launches, for one run with all of them in place.
    """
    return _Confirming(built, opened, turn, task, coverage).run(replacements)


class _Confirming:
    """The steps of one confirmation; each raises `NoWinnerError` where it is the last."""

    def __init__(
        self, built: Built, opened: PreparedWorkload, turn: Turn, task: Task, coverage: Coverage
    ) -> None:
        self._built, self._opened, self._turn, self._task = built, opened, turn, task
        self._coverage = coverage
        self._folder = Path(tempfile.mkdtemp(dir=opened.session.folder, prefix="confirm-"))
        self._unknown: list[Unknown] = []
        self._costs = Costs()
        self._stood = StoodIn()
        #: Why the rebuilt program is not run behind the fence; "" if it is.
        self._unsettled = ""

    def run(self, replacements: Sequence[Replacement]) -> Confirmation:
        with self._task.branch() as compiling, ThreadPoolExecutor(2) as pool:
            # compilers need no card: they work meanwhile
            rebuilding = pool.submit(self._rebuilt, compiling)
            embedding = pool.submit(self._transplanted, compiling)
            try:
                found = self._run(replacements, rebuilding, embedding)
            finally:
                compiling.token.cancel()
        return msgspec.structs.replace(found, cost=self._costs.told())

    def _run(
        self,
        replacements: Sequence[Replacement],
        rebuilding: Future[Rebuilt],
        embedding: Future[Path | Unknown],
    ) -> Confirmation:
        try:
            # alone on the card, and first: most of those that are no winners end here
            self._at_shapes()
            self._task.say("measuring in fresh processes", None)
            with self._alone("fresh processes"):
                self._turn.leave()
                fresh = in_fresh_processes(self._opened, self._built, self._task)
            if odd := not_faster([visited.verdict for visited in fresh]):
                return Confirmation(odd)
            heards = [visited.heard for visited in fresh]
            self._task.say("comparing on all inputs, launches, whole runs and faults, side by side", None)
            compared, in_place = self._untimed(heards, replacements, rebuilding, embedding)
            verdict = self._of_all(fresh, compared)
            if verdict.state != "faster":
                return Confirmation(verdict)
            rounding = 0.0 if all(h.result.bitwise for h in (compared, *heards)) else ROUNDING
            rounding = LOWERED if any(h.result.lowered for h in (compared, *heards)) else rounding
            self._show(
                in_place.shown(self._opened.baseline.program, rounding, lambda: self._with_own(replacements))
            )
            self._unknown += self._coverage.of(self._opened, self._built, self._costs, self._at_lengths)
            self._turn.take()
            gain = self._whole(rebuilding.result(), rounding)
        except NoWinnerError as odd:
            return Confirmation(self._opened.untimed(self._built, odd.state, odd.reason))
        stood = self._stood
        reason = f"{verdict.reason}; {stood.reason}" if stood.reason else verdict.reason
        verdict = msgspec.structs.replace(verdict, reason=reason)
        return Confirmation(verdict, gain, tuple(dict.fromkeys(self._unknown)))

    def _alone(self, name: str) -> AbstractContextManager[None]:
        """A step that takes turns with others, whose time there is none of its own."""
        return self._costs.of(name, lambda: self._turn.waited)

    def _at_shapes(self) -> None:
        """Timed at the other launch shapes, where every one counts."""
        if not keeps_geometry(self._built):
            return
        for shape in others_of(self._opened):
            with self._alone("other shapes"):
                self._alone_at(at_shape(self._opened.place, shape, timed=True))

    def _untimed(
        self,
        fresh: Sequence[VisitResult],
        replacements: Sequence[Replacement],
        rebuilding: Future[Rebuilt],
        embedding: Future[Path | Unknown],
    ) -> tuple[VisitResult, InPlace]:
        """All that needs no clock, as much of it at once as the card's memory has room for, and beside other
        confirmations: how the candidate compares on all inputs, and what it did in its kernels' places."""
        place = self._opened.place
        shape = place.target.shape
        compared, in_place = list[VisitResult](), list[InPlace]()

        def step(name: str, does: Step) -> Step:
            def run(task: Task) -> None:
                with self._costs.of(name):
                    does(task)

            return run

        def at_launch(launch: int) -> Step:
            there = self._marking(msgspec.structs.replace(place, launch=launch))
            return lambda task: self._beside_at(there, task)

        def sanitized(tool: str) -> Step:
            return lambda task: self._sanitized(waited(embedding, task), tool, task)

        # what takes longest comes first, and what may wait for a compiler last
        steps = [
            step("all inputs", lambda task: compared.append(self._on_all_inputs(fresh, task))),
            step("in place", lambda task: in_place.append(self._stood_in(replacements, task))),
            *(
                step(f"launch {launch}", at_launch(launch))
                for launch in sorted({0, shape.visitable - 1} - {place.launch})
            ),
            step("rebuilt program", lambda task: self._settle(waited(rebuilding, task), task)),
            *(step("compute-sanitizer", sanitized(tool)) for tool in TOOLS),
        ]
        with self._turn.shared():
            at_once = beside(self._opened.session.gpu, fresh[0].opened.bytes)
            again = side_by_side(
                steps, at_once, self._task, lambda error: may_be_company(error, (rebuilding,))
            )
        if self._unsettled:
            # for want of memory, perhaps
            again.append(step("rebuilt program", lambda task: self._settle(rebuilding.result(), task)))
        for alone in again:
            self._turn.take()
            self._task.check()
            alone(self._task)
        return compared[-1], in_place[-1]

    def _of_all(self, fresh: Sequence[Visited], compared: VisitResult) -> Verdict:
        """What all fresh processes and the comparison on all inputs come to, under what each of them was timed."""
        heard = heard_together([visited.heard for visited in fresh], compared)
        conditions = conditions_together([visited.conditions for visited in fresh])
        return of_each(
            self._opened.verdict(self._built, heard, conditions), [visited.verdict for visited in fresh]
        )

    def _alone_at(self, there: VisitSpec) -> VisitResult:
        session = self._opened.session
        visits = Visits(there, session.settings, session.folder)
        visited = visit_alone(self._opened, self._built, visits, self._turn, self._task)
        return self._held(there, visited.heard, visited.verdict)

    def _beside_at(self, there: VisitSpec, task: Task, *, thorough: bool = False) -> VisitResult:
        """Beside this confirmation's other steps."""
        heard = self._heard(there, task, thorough=thorough)
        self._coverage.add(heard)
        return self._held(there, heard, None)

    def _heard(
        self, there: VisitSpec, task: Task, *, thorough: bool = True, lengths: bool = False
    ) -> VisitResult:
        heards: list[VisitResult] = []
        session = self._opened.session
        visits = Visits(there, session.settings, session.folder, thorough=thorough, lengths=lengths)
        visits.judge([self._built.job], heards.append, task)
        return heards[-1]

    def _at_lengths(self) -> VisitResult:
        """On other numbers by value alone."""
        there = self._marking(self._opened.place)
        with self._turn.shared(), self._costs.of("other lengths"):
            return self._held(there, self._heard(there, self._task, lengths=True), None)

    def _marking(self, place: VisitSpec) -> VisitSpec:
        """A place where nothing is timed, and what runs is marked."""
        coverage = self._coverage
        return msgspec.structs.replace(place, timed=False, twin=coverage.asked, own=coverage.own)

    @staticmethod
    def _held(there: VisitSpec, heard: VisitResult, found: Verdict | None) -> VisitResult:
        """One visit more, where the candidate has to be right, and faster or the same if it is timed."""
        result = heard.result
        grid = "x".join(map(str, there.target.shape.grid))
        where = f"at launch {there.launch} with grid {grid}"
        if result.state != "right":
            raise NoWinnerError(result.state, f"{where}: {result.reason}")
        if there.timed and found is not None and found.state not in ("faster", "same"):
            raise NoWinnerError(found.state, f"{where}: {found.reason}")
        return heard

    def _on_all_inputs(self, fresh: Sequence[VisitResult], task: Task) -> VisitResult:
        place = self._marking(self._opened.place)
        heard = self._beside_at(place, task, thorough=True)
        self._unknown += [*not_compared(heard, fresh), *place.unseen()]
        return heard

    def _rebuilt(self, task: Task) -> Rebuilt:
        """The program built from the candidate's text behind the fence; it holds the machine code that was judged."""
        with self._costs.of("rebuild"):
            return self._rebuild(task)

    def _rebuild(self, task: Task) -> Rebuilt:
        opened, session = self._opened, self._opened.session
        text = opened.builder.edited(self._built.candidate).text
        try:
            strange = opened.builder.host_differs(text, self._folder / "host", task)
        except (CompileError, ToolFailedError, InputError) as error:
            raise NoWinnerError("unproven", f"its host object cannot be compared: {error}") from error
        if strange:
            raise NoWinnerError("refused", strange)
        try:
            reads = opened.builder.fence.reads
            rebuilt = Rebuilt(session, self._folder / "fenced", opened.place.library, reads)
            program = rebuilt.build(text, task, original=opened.text.text)
        except CompileError as error:
            raise NoWinnerError("not_built", str(error)) from error
        except InputError as error:
            raise NoWinnerError("unproven", str(error)) from error
        if rebuilt.reads_freely:
            self._unknown.append(Unknown("a rebuild that reads only what the original's does", _FREE))
        if strange := opened.builder.differs(program, task):
            raise NoWinnerError("unproven", strange)
        strange = shipped_otherwise(
            Path(self._built.job.cubin),
            self._built.job.entry,
            program,
            toolchain=session.toolchain,
            folder=self._folder,
            task=task,
        )
        if strange:
            raise NoWinnerError("unproven", strange)
        return rebuilt

    def _stood_in(self, replacements: Sequence[Replacement], task: Task) -> InPlace:
        session = self._opened.session
        ran = stand_in(self._opened.place, replacements, session.settings, session.folder, task)
        if ran.stood.odd is not None:
            raise NoWinnerError(*ran.stood.odd)
        return ran

    def _with_own(self, replacements: Sequence[Replacement]) -> ProgramRun | None:
        session = self._opened.session
        with self._costs.of("in place once more"):
            return with_own_results(
                self._opened.place, replacements, session.settings, session.folder, self._task
            )

    def _show(self, stood: StoodIn) -> None:
        if stood.odd is not None:
            raise NoWinnerError(*stood.odd)
        self._stood = stood
        self._unknown += stood.unknown

    def _settle(self, rebuilt: Rebuilt, task: Task) -> None:
        """Whether the rebuilt program does behind the fence what the original does."""
        self._unsettled = unsettled(self._built, self._opened, rebuilt, task)

    def _whole(self, rebuilt: Rebuilt, rounding: float) -> ProgramGain | None:
        """The whole program's gain, behind the fence. Where it does not run there as it does outside it, that is
        unknown if the candidate stood in for its kernels in the program itself, else the candidate is unproven."""
        if self._unsettled:
            if not self._stood.right:
                raise NoWinnerError("unproven", self._unsettled)
            self._unknown.append(Unknown("the whole rebuilt program", self._unsettled))
            return None
        self._task.say("running the rebuilt program", None)
        with self._costs.of("whole program"):
            found = timed(self._opened, rebuilt, rounding, self._task)
        if not isinstance(found, ProgramGain):
            raise NoWinnerError(*found)
        if not self._opened.session.settings.energy:
            return found
        self._task.say("measuring energy", None)
        with self._costs.of("energy"):
            energy = energy_gain(self._opened, rebuilt, self._task)
        if not isinstance(energy, Unknown):
            return msgspec.structs.replace(found, energy=energy)
        self._unknown.append(energy)
        return found

    def _sanitized(self, program: Path | Unknown, tool: str, task: Task) -> None:
        """One tool of compute-sanitizer on the user's own program with the candidate's device code in it."""
        opened, session = self._opened, self._opened.session
        if isinstance(program, Unknown):
            self._unknown.append(program)
            return
        fault, unknown = new_reports(
            opened.place.command,
            start_command(session.workload, program),
            kernel=opened.target.compiled.qualified_name.rsplit("::", 1)[-1],
            toolchain=session.toolchain,
            time_limit=sanitizer_seconds(opened.baseline.program.seconds, session.settings),
            tools=(tool,),
            task=task,
        )
        if fault:
            raise NoWinnerError("wrong", fault)
        self._unknown += unknown

    def _transplanted(self, task: Task) -> Path | Unknown:
        """The user's program with the candidate's device code in it, or why there is none."""
        try:
            with self._costs.of("embed"):
                return self._embedded(task)
        except (InputError, CompileError, TimeLimitError, MissingToolError) as error:
            return Unknown("memory errors the GPU does not trap", str(error))

    def _embedded(self, task: Task) -> Path:
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
            task=task,
        )
