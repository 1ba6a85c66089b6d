# SPDX-License-Identifier: Apache-2.0
"""A workload opened for judging: built, run as it is, its kernels surveyed, one launch chosen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from warplens.measure.bound import confirmation_about, confirmation_seconds
from warplens.measure.build.ahead import Ahead
from warplens.measure.build.candidates import Builder, Built
from warplens.measure.build.fence import around_program
from warplens.measure.build.geometry import Geometries
from warplens.measure.build.linking import asks_linking
from warplens.measure.build.probe_job import control
from warplens.measure.build.unit import Unit
from warplens.measure.conditions import Watch
from warplens.measure.costs import WAITING, Costs
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kept import Kept, kept_of
from warplens.measure.kernel.gate import of_equal_code, verdict_of
from warplens.measure.kernel.survey import survey_run
from warplens.measure.kernel.target import KernelShare, Target, choose, shares
from warplens.measure.kernel.types import ends_of, scratch_of, source_types
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens.measure.kernel.visits import VisitResult, Visits
from warplens.measure.program.whole import ProgramRun, require_success, run_program
from warplens.measure.timing import bootstrap
from warplens.measure.verdict import Conditions, Launch, State, Verdict
from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.evidence import CompiledKernel, LaunchTiming, Unknown
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import Task
from warplens_tools.run.build import Overlay, build_program, flags_of, start_command
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.run.probe.job import JobCandidate
from warplens_tools.run.probe.library import helper_kernels, probe_library
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.probe.visit import Command
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.link import carries_relocatable
from warplens_tools.toolchain.locate import Toolchain, tool_version
from warplens_tools.toolchain.symbols import code_digest
from warplens_tools.tunable.grid_rule import grid_rule
from warplens_tools.tunable.left_open import any_block
from warplens_tools.tunable.source import File


class Baseline(msgspec.Struct, frozen=True):
    """The kernel as the user wrote it, in the user's own program."""

    #: Qualified name of the judged kernel; the hottest that the source defines if none was named.
    kernel: str
    #: The instantiation that takes most time.
    compiled: CompiledKernel
    #: Its heaviest launch shape; `share` is the kernel's share over all shapes and instantiations.
    timing: LaunchTiming
    program: ProgramRun
    conditions: Conditions
    #: Every kernel the program ran, hottest first.
    kernels: tuple[KernelShare, ...]
    #: What could not be established, e.g. that output differs from run to run.
    unknown: tuple[Unknown, ...] = ()


class Session(msgspec.Struct, frozen=True):
    """What is judged, with which tools, on which card."""

    workload: Workload
    toolchain: Toolchain
    #: What is compiled for, e.g. "sm_90a".
    arch: str
    gpu: Gpu
    settings: MeasureSettings
    #: For builds and records; belongs to the judge.
    folder: Path
    #: Where the time of all that is judged goes.
    costs: Costs = msgspec.field(default_factory=Costs)
    #: Candidates that are compiled while the baseline is measured.
    ahead: Ahead[Unit | str] = msgspec.field(default_factory=Ahead)

    def build(self, folder: Path, overlay: Overlay | None, task: Task) -> Path:
        """The whole program, as it is or with one file replaced. Raises as `build_program`."""
        with self.costs.of("building programs"):
            return build_program(
                self.workload,
                toolchain=self.toolchain,
                arch=self.arch,
                folder=folder,
                overlay=overlay,
                timeout=self.settings.compile_seconds,
                task=task,
                through=around_program(folder, self.settings) if overlay is not None else die_with_parent,
            )

    @contextmanager
    def card(self, what: str, task: Task, *, shared: bool = False) -> Iterator[Watch]:
        """The card, for this process alone, or beside others who need no clock, and its state watched."""
        nvcc = self.toolchain.find("nvcc")
        asked = time.monotonic()
        with gpu_lock(self.gpu.uuid, what, shared=shared, task=task), self.costs.of(f"card, {what}"):
            self.costs.add(WAITING, time.monotonic() - asked)
            watch = Watch(self.gpu, cuda=tool_version(nvcc) if nvcc is not None else "")
            watch.start()
            try:
                yield watch
            finally:
                watch.stop()


class PreparedWorkload(msgspec.Struct, frozen=True):
    """What is known once the baseline was measured."""

    session: Session
    builder: Builder
    unit: Unit
    target: Target
    visits: Visits
    program: Path
    place: VisitSpec
    baseline: Baseline
    geometries: Geometries
    #: All that the program launches.
    surveyed: tuple[SurveyedShape, ...]
    #: The edited file, parsed.
    model: SourceModel
    #: Seconds the program's build took.
    build_seconds: float
    #: Where the baseline comes from, if it was kept from an earlier run.
    kept: Kept | None = None

    @property
    def text(self) -> SourceText:
        """The edited file as it is."""
        return self.builder.text

    def verdict(self, built: Built, heard: VisitResult, conditions: Conditions) -> Verdict:
        """What a visit's result says of a candidate, against its baseline and under its conditions."""
        found = verdict_of(
            heard,
            gpu=self.session.gpu,
            settings=self.session.settings,
            resources=built.compiled.resources,
            baseline_resources=self.target.compiled.resources,
            conditions=conditions,
            build_seconds=built.seconds,
        )
        found = msgspec.structs.replace(found, launch=self._launch(built.job))
        return of_equal_code(found) if built.identical else found

    def _launch(self, job: JobCandidate) -> Launch:
        timing = self.baseline.timing
        return Launch(
            grid=None if job.by_rule else job.grid or timing.grid,
            block=job.block or timing.block,
            dynamic_shared_bytes=timing.dynamic_shared_bytes if job.shared is None else job.shared,
        )

    def untimed(self, built: Built, state: State, reason: str) -> Verdict:
        """The verdict on a candidate that no timing decides."""
        return Verdict(
            built.candidate.id,
            state,
            reason,
            resources=built.compiled.resources,
            baseline_resources=self.target.compiled.resources,
        )

    @property
    def confirmation_seconds(self) -> float:
        """How long confirming a candidate may take at most."""
        return confirmation_seconds(self.baseline.program.seconds, self.build_seconds, self.session.settings)

    @property
    def confirmation_about(self) -> float:
        """How long it takes as a rule."""
        return confirmation_about(
            self.baseline.program.seconds, self.build_seconds, len(self.target.others), self.session.settings
        )


class _Seen(msgspec.Struct, frozen=True):
    """The program, its unit compiled alone, and what it launches."""

    program: Path
    unit: Unit
    surveyed: tuple[SurveyedShape, ...]
    alone: ProgramRun
    conditions: Conditions
    build_seconds: float


def open_workload(session: Session, kernel: str, task: Task, *, fresh: bool = False) -> PreparedWorkload:
    """Build, run and survey the program, or take what an earlier run has kept unless `fresh`; choose the launch.

    Raises:
        as `Judge.baseline`.
    """
    work, settings = session.workload, session.settings
    builder = Builder(
        work,
        toolchain=session.toolchain,
        arch=session.arch,
        folder=session.folder,
        settings=settings,
        ahead=session.ahead,
    )
    task.say("preparing the probe", None)
    library = probe_library(session.toolchain, task=task)
    kept = _kept(session, builder, library)
    seen = None if fresh else _taken(kept, session, builder, task)
    was_kept = seen is not None
    if seen is None:
        seen = _seen(session, builder, library, task)
        if seen.unit.linked is None:
            kept.put(seen.unit.evidence, seen.program, seen.surveyed, seen.alone, seen.build_seconds)
    program, unit, surveyed, alone = seen.program, seen.unit, seen.surveyed, seen.alone
    file = File(builder.text, model := parse(builder.text, work.source))
    kernels = shares(surveyed, {k.qualified_name for k in model.kernels})
    target = choose(surveyed, kernels, unit.evidence.kernels, kernel)
    defined = model.kernel(target.compiled.qualified_name)
    variables = tuple(name for name in unit.live(program.read_bytes()).values() if name)
    types = source_types(builder.text, Path(work.source), unit.evidence.dependencies, variables)
    place = VisitSpec(
        command=start_command(work, program),
        target=target,
        parameters=defined.parameters if defined is not None else (),
        variables=variables,
        library=library,
        helpers=helper_kernels(session.toolchain, session.gpu.arch, task=task),
        time_limit=work.time_limit,
        launch=_launch(work, target, settings),
        from_events=unit.linked is not None and unit.linked.launches,
        records=types.records,
        held=types.held,
        optional=types.optional,
        scratch=scratch_of(file, unit),
        most=ends_of(file, unit),
        ptx=unit.ptx,
        rule=grid_rule(file, target.compiled.qualified_name) or (),
        any_block=any_block(file, target.compiled.qualified_name),
        control=control(unit, target.compiled, program.read_bytes()),
    )
    return PreparedWorkload(
        session=session,
        builder=builder,
        unit=unit,
        target=target,
        visits=Visits(place, settings, session.folder, roughly=True),
        program=program,
        place=place,
        baseline=_baseline(target, kernels, alone, seen.conditions, settings, builder.unknown()),
        geometries=Geometries(
            work,
            toolchain=session.toolchain,
            arch=session.arch,
            library=library,
            folder=session.folder,
            settings=settings,
            heavy=builder.heavy,
        ),
        surveyed=surveyed,
        model=model,
        build_seconds=seen.build_seconds,
        kept=kept if was_kept else None,
    )


def _kept(session: Session, builder: Builder, library: Path) -> Kept:
    gpu = session.gpu
    if session.settings.host_edits:
        # those are judged against how the program runs without the probe, just now
        return Kept("")
    return kept_of(
        session.workload,
        text=builder.text.text,
        toolchain=session.toolchain,
        arch=session.arch,
        card=f"{gpu.uuid} {gpu.name} {gpu.driver}",
        probe=library,
    )


def _taken(kept: Kept, session: Session, builder: Builder, task: Task) -> _Seen | None:
    if (found := kept.take(session.folder / "program")) is None:
        return None
    known, program, cubin = found
    builder.begin(task)
    code = cubin.read_bytes()
    builder.fence.learn(known.evidence)
    builder.build_ahead(task)
    unit = Unit(known.evidence, code, code_digest(code), code)
    with session.card("looking at the card", task) as watch:
        return _Seen(program, unit, known.surveyed, known.alone, watch.stop(), known.build_seconds)


def _seen(session: Session, builder: Builder, library: Path, task: Task) -> _Seen:
    """Build and survey the program; its unit is compiled by itself meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        task.say("building the program", None)
        early = None if asks_linking(flags_of(session.workload)) else pool.submit(builder.baseline, task)
        started = time.monotonic()
        program = session.build(session.folder / "program", None, task)
        seconds = time.monotonic() - started
        command = start_command(session.workload, program)
        with session.card("measuring a baseline", task) as watch:
            task.say("running the program", None)
            surveyed, alone = _surveyed(session, command, library, task)
            conditions = watch.stop()
    if early is None or early.exception() is not None or carries_relocatable(program.read_bytes()):
        unit = builder.baseline(task, program=program)
    else:
        unit = early.result()
    return _Seen(program, unit, surveyed, alone, conditions, seconds)


def _surveyed(
    session: Session, command: Command, library: Path, task: Task
) -> tuple[tuple[SurveyedShape, ...], ProgramRun]:
    """What the program launches and how it runs: one run is both, unless something is amiss or must be precise."""
    limit = session.workload.time_limit
    alone = _succeeding(command, limit, task) if session.settings.host_edits else None
    try:
        surveyed, run = survey_run(command, library, session.folder, limit, task)
    except (InputError, TimeLimitError):
        # a program that fails by itself is told so rather than that the probe found nothing
        if alone is None:
            _succeeding(command, limit, task)
        raise
    if alone is None and run.status != 0:
        alone = _succeeding(command, limit, task)
    return surveyed, alone or run


def _succeeding(command: Command, limit: float, task: Task) -> ProgramRun:
    run = run_program(command, limit, task)
    require_success(run)
    return run


def _launch(work: Workload, target: Target, settings: MeasureSettings) -> int:
    """Which launch of the heaviest shape is visited, from 0.

    Raises:
        InputError: the one asked for is never reached.
    """
    if work.launch > target.shape.visitable:
        raise InputError(
            f"{target.compiled.qualified_name} has no launch {work.launch} of its heaviest shape: there are "
            f"{target.shape.visitable}",
            remedy="correct `launch` in the program's settings",
        )
    return work.launch - 1 if work.launch else settings.launch


def _baseline(
    target: Target,
    kernels: tuple[KernelShare, ...],
    alone: ProgramRun,
    conditions: Conditions,
    settings: MeasureSettings,
    unknown: tuple[Unknown, ...],
) -> Baseline:
    shape = target.shape
    samples = [duration for duration in shape.samples if duration > 0]
    if not samples:
        raise InputError(
            f"none of the {shape.runs} launches of {target.compiled.qualified_name} could be timed: CUPTI told of none",
            remedy="let the program end by itself, without a profiler of its own, and with fewer launches",
        )
    interval = bootstrap(samples, settings)
    return Baseline(
        kernel=target.compiled.qualified_name,
        compiled=target.compiled,
        timing=LaunchTiming(
            origin="CUPTI activity",
            launches=target.launches,
            grid=shape.grid,
            block=shape.block,
            dynamic_shared_bytes=shape.shared,
            median_ns=interval.median,
            low_ns=interval.low,
            high_ns=interval.high,
            share=target.share,
        ),
        program=alone,
        conditions=conditions,
        kernels=kernels,
        unknown=unknown,
    )
