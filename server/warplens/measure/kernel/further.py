# SPDX-License-Identifier: Apache-2.0
"""Everything else that an edit changes: other kernels, other instantiations, other launch shapes of the judged one.

An edit is faster only where every kernel whose machine code or launch geometry it changes, and that the program
launches, computes the same at every launch shape, and no one of them that takes a share of the time worth naming is
slower. What the program never launches cannot be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from warplens.measure.build.candidates import Built
from warplens.measure.build.geometry import NoGeometry
from warplens.measure.build.own_geometry import with_own_geometry
from warplens.measure.build.unit import Unit
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.accompany import Replacement
from warplens.measure.kernel.places import Place, Plan, given_at, launched_at, lightest
from warplens.measure.kernel.survey import paired
from warplens.measure.kernel.target import Target
from warplens.measure.kernel.twin import Marking
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens.measure.kernel.visits import VisitResult, Visits
from warplens.measure.verdict import Candidate, Further, State, Verdict
from warplens_tools.cuda.model import SourceModel
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.evidence import CompiledKernel
from warplens_tools.process.task import Task
from warplens_tools.run.elements import stands_in
from warplens_tools.run.probe.job import Extent, JobCandidate, Shape
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.text import SourceText
from warplens_tools.toolchain.demangle import qualified_name
from warplens_tools.toolchain.functions import Changes, changes
from warplens_tools.toolchain.symbols import unit_free_name

#: What a rebuilt program launches, or why that is not known.
Launched = Callable[[SourceText, Task], tuple[SurveyedShape, ...] | NoGeometry]
ToVerdict = Callable[[VisitResult], Verdict]


class Program(Protocol):
    """What is known of the program as it is."""

    @property
    def unit(self) -> Unit:
        """The unit by itself."""

    @property
    def place(self) -> VisitSpec:
        """The judged launch."""

    @property
    def surveyed(self) -> tuple[SurveyedShape, ...]:
        """All that it launches."""

    @property
    def model(self) -> SourceModel:
        """The edited file, parsed."""

    @property
    def text(self) -> SourceText:
        """The edited file as it is."""


class FurtherJudge:
    """Plans and makes the further visits of one workload's candidates."""

    def __init__(self, program: Program, launched: Launched, settings: MeasureSettings, folder: Path) -> None:
        self._program, self._launched = program, launched
        self._settings, self._folder = settings, folder
        self._light = lightest(program.surveyed, settings.further_share)
        self._changes: dict[str, Changes] = {}
        #: Grids of the judged kernel at which candidates were slower, by candidate.
        self._slower: dict[str, tuple[Extent, ...]] = {}

    def slower_at(self, candidate: str) -> tuple[Extent, ...]:
        """Grids of the program's at which a candidate for the judged kernel was found slower."""
        return self._slower.get(candidate, ())

    def refusal(self, built: Built) -> tuple[State, str] | None:
        """Why the candidate cannot be proven whatever it does where it can be judged."""
        found = self._changed(built)
        if found.variables:
            return (
                "unproven",
                f"the edit changes what {found.variables[0]} begins with, which is not compared",
            )
        run = self._run()
        gone = [name for name in found.removed if name in run and name != self._judged]
        if gone:
            return "unproven", f"the edited unit has no {gone[0]}, which the program launches"
        # other instantiations of a kernel that is judged are named in the proof; other kernels are not proven at all
        mine = {self._of(name).qualified for name in found.entries if name in run}
        mine.add(qualified_name(self._program.place.target.live))
        never = [name for name in self._never(found) if self._of(name).qualified not in mine]
        if never:
            names = ", ".join(never)
            return "unproven", f"the edit also changes {names}, which this program does not launch"
        return None

    def judge(
        self,
        built: Sequence[Built],
        text: Callable[[Candidate], SourceText],
        verdict: ToVerdict,
        task: Task,
        *,
        all_shapes: bool,
        marking: Marking | None = None,
    ) -> tuple[dict[str, tuple[State, str]], dict[str, Plan]]:
        """What speaks against candidates where else their edits reach, and what was looked at. The card is held.

        `marking`: marks what of the judged kernel runs at its other shapes, where there is one candidate.
        """
        odd: dict[str, tuple[State, str]] = {}
        plans: dict[str, Plan] = {}
        for one in built:
            plan = self.plan(one, text(one.candidate), task, all_shapes=all_shapes)
            if isinstance(plan, Plan):
                plans[one.candidate.id] = plan
            else:
                odd[one.candidate.id] = plan
        return odd | self.examine(plans, verdict, task, marking), plans

    def plan(
        self, built: Built, text: SourceText, task: Task, *, all_shapes: bool
    ) -> Plan | tuple[State, str]:
        """What there is to judge: with `all_shapes` every one within the bound, else each other kernel's heaviest."""
        found, run = self._changed(built), self._run()
        places: list[Place] = []
        for name, shapes in run.items():
            own = name == self._judged
            if own and not all_shapes:
                continue
            jobs = self._jobs(built, name, shapes, text, found, task)
            if isinstance(jobs, tuple):
                return jobs
            reachable = [s for s in shapes if s.visitable and s in jobs]
            if jobs and not reachable and not own:
                why = next((s.obstacle for s in shapes if s.obstacle), "it is launched only into graphs")
                return "unproven", f"the edit also changes {name}, which cannot be visited: {why}"
            chosen = reachable if all_shapes else reachable[:1]
            places += [self._place(name, s, jobs[s]) for s in chosen if s != self._heaviest]
        if all_shapes:
            places += self._instantiations(built, found, text, task)
        places.sort(key=lambda p: -p.spec.target.shape.total_ns)
        most = self._settings.further_most
        return Plan(
            places=tuple(places[:most]),
            not_run=tuple(self._never(found)),
            left_out=tuple(place.name for place in places[most:]),
        )

    def _instantiations(self, built: Built, found: Changes, text: SourceText, task: Task) -> Iterator[Place]:
        """Instantiations that the edit changes and the program launches nowhere, in the place of a launched one that
        takes such parameters. Not where the unit has variables: their contents would be the module's own."""
        own = self._of(self._judged)
        cubin = self._program.unit.evidence.cubin_path
        if self._program.place.variables or self._program.unit.linked is not None or own.compiled is None:
            return
        jobs = self._jobs(built, self._judged, [self._heaviest], text, found, task)
        if isinstance(jobs, tuple) or not jobs:
            return
        for name in self._never(found):
            other = self._of(name)
            if other.compiled is None or other.qualified != own.qualified or name not in found.kernels:
                continue
            converted = stands_in(other.compiled.demangled, own.compiled.demangled)
            if converted is None:
                continue
            job = msgspec.structs.replace(jobs[self._heaviest], entry=found.kernels[name])
            place = self._program.place
            target = msgspec.structs.replace(place.target, compiled=other.compiled)
            instead = (other.compiled.mangled, cubin)
            spec = msgspec.structs.replace(
                place, target=target, timed=False, control=None, instead=instead, converted=converted
            )
            yield Place(spec, job, other.compiled.demangled)

    def replacements(
        self, built: Built, text: SourceText, task: Task
    ) -> tuple[Replacement, ...] | NoGeometry:
        """The judged kernel and every other launched one that the edit changes, each with its own geometries."""
        found = self._changed(built)
        made: list[Replacement] = []
        for name, shapes in self._run().items():
            jobs = self._jobs(built, name, shapes, text, found, task)
            if isinstance(jobs, tuple):
                return NoGeometry(*jobs)
            if jobs:
                made.append(self._replacement(name, shapes, jobs))
        return tuple(made)

    def _replacement(
        self, name: str, shapes: Sequence[SurveyedShape], jobs: dict[SurveyedShape, JobCandidate]
    ) -> Replacement:
        place, kernel = self._program.place, self._of(name)
        parameters = place.parameters if name == self._judged else kernel.parameters
        compiled = kernel.compiled or place.target.compiled
        moved = len({(job.grid, job.block, job.shared) for job in jobs.values()}) > 1
        pairs = tuple((launched_at(was), given_at(job, was)) for was, job in jobs.items()) if moved else ()
        return Replacement(
            shapes[0].mangled,
            jobs[next(iter(jobs))],
            launches=sum(shape.runs for shape in shapes),
            parameters=place.probed(compiled, parameters),
            geometries=pairs,
        )

    def examine(
        self, plans: dict[str, Plan], verdict: ToVerdict, task: Task, marking: Marking | None = None
    ) -> dict[str, tuple[State, str]]:
        """Visit all places of all plans, by candidate; what is wrong, unproven or slower there, first found first."""
        odd: dict[str, tuple[State, str]] = {}
        todo: dict[tuple[object, ...], list[tuple[str, Place]]] = {}
        for candidate, plan in plans.items():
            for place in plan.places:
                todo.setdefault(place.where, []).append((candidate, place))
        for group in todo.values():
            alive = [(candidate, place) for candidate, place in group if candidate not in odd]
            if alive:
                odd |= self._visited(alive[0][1], [p.job for _, p in alive], verdict, task, marking)
        return odd

    def account(self, plan: Plan) -> Further:
        """What was judged further and what was not, in words, for the proof."""
        return Further(
            compared=tuple(p.name for p in plan.places),
            timed=tuple(p.name for p in plan.places if p.spec.timed),
            not_run=plan.not_run,
            left_out=plan.left_out,
        )

    def _visited(
        self,
        place: Place,
        jobs: Sequence[JobCandidate],
        verdict: ToVerdict,
        task: Task,
        marking: Marking | None,
    ) -> dict[str, tuple[State, str]]:
        odd: dict[str, tuple[State, str]] = {}

        own = place.kernel == self._judged
        spec = place.spec
        if marking is not None and own and not spec.instead[0]:
            spec = msgspec.structs.replace(spec, twin=marking.twin, own=marking.own)

        def take(heard: VisitResult) -> None:
            said = _said(heard, place.spec.timed, own, verdict)
            if marking is not None:
                marking.ran.append(heard.result.ran)
            if said is not None:
                odd[heard.result.candidate] = (said[0], f"{place.name}: {said[1]}")
            if own and said is not None and said[0] == "same":
                self._slower[heard.result.candidate] = (place.spec.target.shape.grid,)

        try:
            Visits(spec, self._settings, self._folder).judge(jobs, take, task)
        except (InputError, TimeLimitError) as error:
            if place.spec.instead[0]:
                # its own launches may be of another kind: it stays among what was not run
                return {}
            return {job.id: ("unproven", f"{place.name}: {error}") for job in jobs}
        return odd

    def _of(self, name: str) -> _Named:
        return _Named(name, self._program)

    @property
    def _judged(self) -> str:
        return unit_free_name(self._program.place.target.live)

    @property
    def _heaviest(self) -> SurveyedShape:
        return self._program.place.target.shape

    def _run(self) -> dict[str, list[SurveyedShape]]:
        """The shapes of every kernel that the program launches, heaviest first, by the kernel's name."""
        found: dict[str, list[SurveyedShape]] = {}
        for shape in sorted(self._program.surveyed, key=lambda s: -s.total_ns):
            found.setdefault(unit_free_name(shape.mangled), []).append(shape)
        return found

    def _changed(self, built: Built) -> Changes:
        if built.job.cubin not in self._changes:
            after = Path(built.job.cubin).read_bytes()
            self._changes[built.job.cubin] = changes(self._program.unit.cubin, after)
        return self._changes[built.job.cubin]

    def _never(self, found: Changes) -> Iterator[str]:
        """Changed kernels that nothing launches; those that kernels launch are judged with them."""
        run = self._run()
        if self._program.place.from_events:
            return
        yield from (name for name in [*found.entries, *found.removed] if name not in run)

    def _jobs(
        self,
        built: Built,
        name: str,
        shapes: Sequence[SurveyedShape],
        text: SourceText,
        found: Changes,
        task: Task,
    ) -> dict[SurveyedShape, JobCandidate] | tuple[State, str]:
        """What to load and launch for each shape of a kernel; none where nothing of it changes."""
        job = built.job
        if name != self._judged:
            kernel = self._of(name)
            bare = Candidate(job.id, built.candidate.path, "", ())
            own = with_own_geometry(bare, self._program.text, text, kernel.qualified)
            moved = own.asks_program or own.grid or own.block or own.dynamic_shared_bytes is not None
            if name not in found.entries and not (moved and name in found.kernels and kernel.in_source):
                return {}
            job = msgspec.structs.replace(
                job,
                entry=found.kernels[name],
                grid=own.grid,
                block=own.block,
                shared=own.dynamic_shared_bytes,
            )
            asks = own.asks_program
        else:
            asks = built.candidate.asks_program
        if not asks:
            return dict.fromkeys(shapes, job)
        launched = self._launched(text, task)
        if isinstance(launched, NoGeometry):
            return launched.state, launched.reason
        theirs = [s for s in launched if unit_free_name(s.mangled) == name]
        pairs = paired(shapes, theirs)
        if pairs is None:
            why = f"the rebuilt program launches {name} in {len(theirs)} geometries, the original in {len(shapes)}"
            return "unproven", f"{why}, and which stands for which is not known"
        return {was: _at(job, now) for was, now in pairs}

    def _place(self, name: str, shape: SurveyedShape, job: JobCandidate) -> Place:
        place, kernel = self._program.place, self._of(name)
        timed = shape not in self._light
        target = Target(shape.mangled, kernel.compiled or place.target.compiled, shape, shape.runs, 0.0)
        spec = msgspec.structs.replace(
            place,
            target=target,
            parameters=kernel.parameters if name != self._judged else place.parameters,
            launch=min(place.launch, shape.visitable - 1),
            timed=timed,
            control=place.control if name == self._judged else None,
        )
        return Place(spec, job, name)


class _Named:
    """What is known of a kernel by its name."""

    def __init__(self, name: str, program: Program) -> None:
        kernels = program.unit.evidence.kernels
        self.compiled: CompiledKernel | None = next(
            (k for k in kernels if unit_free_name(k.mangled) == name), None
        )
        self.qualified = self.compiled.qualified_name if self.compiled is not None else name
        defined = program.model.kernel(self.qualified)
        self.in_source = defined is not None
        self.parameters = defined.parameters if defined is not None else ()


def _at(job: JobCandidate, shape: Shape) -> JobCandidate:
    return msgspec.structs.replace(job, grid=shape.grid, block=shape.block, shared=shape.shared)


def _said(heard: VisitResult, timed: bool, own: bool, verdict: ToVerdict) -> tuple[State, str] | None:
    """What speaks against a candidate at one place; None if nothing does."""
    result, baseline = heard.result, heard.baseline
    if result.state != "right":
        return result.state, result.reason
    if heard.opened.opaque:
        return "unproven", f"the program writes {heard.opened.opaque[0]}, which is not compared"
    if baseline.changed_bytes == 0 and baseline.pure_bytes == 0:
        # the judged kernel is compared where it changes something; a launch that finds nothing to do is none's fault
        return None if own else ("unproven", "it changes no memory that could be compared")
    if not timed:
        return None
    found = verdict(heard)
    if found.state == "slower":
        return "same", f"slower there: {found.reason}"
    return None if found.state in ("faster", "same") else (found.state, found.reason)
