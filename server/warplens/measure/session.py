"""A workload opened for judging: built, run as it is, its kernels surveyed, one launch chosen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from warplens.measure.build.candidates import Builder, Unit, control
from warplens.measure.build.fence import around_program
from warplens.measure.build.geometry import Geometries
from warplens.measure.conditions import Watch
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.survey import survey
from warplens.measure.kernel.target import KernelShare, Target, choose, shares
from warplens.measure.kernel.visits import Visits, VisitSpec
from warplens.measure.program.whole import ProgramRun, require_success, run_program
from warplens.measure.timing import bootstrap
from warplens.measure.verdict import Conditions
from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.evidence import CompiledKernel, LaunchTiming, Unknown
from warplens_tools.process.cancel import CancelToken, Progress
from warplens_tools.process.guard import die_with_parent
from warplens_tools.run.build import Overlay, build_program, start_command
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.run.probe.library import helper_kernels, probe_library
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain, tool_version


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

    def build(self, folder: Path, overlay: Overlay | None, cancel: CancelToken | None) -> Path:
        """The whole program, as it is or with one file replaced. Raises as `build_program`."""
        return build_program(
            self.workload,
            toolchain=self.toolchain,
            arch=self.arch,
            folder=folder,
            overlay=overlay,
            timeout=self.settings.compile_seconds,
            cancel=cancel,
            through=around_program(folder, self.settings) if overlay is not None else die_with_parent,
        )

    @contextmanager
    def card(self, what: str, progress: Progress, cancel: CancelToken | None) -> Iterator[Watch]:
        """The card, for this process alone, and its state watched."""
        nvcc = self.toolchain.find("nvcc")
        with gpu_lock(self.gpu.uuid, what, progress=progress, cancel=cancel):
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

    @property
    def text(self) -> SourceText:
        """The edited file as it is."""
        return self.builder.text


def open_workload(
    session: Session, kernel: str, progress: Progress, cancel: CancelToken | None
) -> PreparedWorkload:
    """Build, run and survey the program; choose the launch. Raises as `Judge.baseline`."""
    work, settings = session.workload, session.settings
    progress("building the program", None)
    builder = Builder(
        work, toolchain=session.toolchain, arch=session.arch, folder=session.folder, settings=settings
    )
    program = session.build(session.folder / "program", None, cancel)
    unit = builder.baseline(cancel, program=program)
    library = probe_library(session.toolchain, cancel=cancel)
    command = start_command(work, program)
    model = parse(builder.text, work.source)
    with session.card("measuring a baseline", progress, cancel) as watch:
        progress("running the program", None)
        alone = run_program(command, work.time_limit, cancel)
        require_success(alone)
        surveyed = survey(command, library, session.folder, work.time_limit, cancel)
        conditions = watch.stop()
    kernels = shares(surveyed, {k.qualified_name for k in model.kernels})
    target = choose(surveyed, kernels, unit.evidence.kernels, kernel)
    defined = model.kernel(target.compiled.qualified_name)
    names = unit.live(program.read_bytes())
    place = VisitSpec(
        command=command,
        target=target,
        parameters=defined.parameters if defined is not None else (),
        variables=tuple(name for name in names.values() if name),
        library=library,
        helpers=helper_kernels(session.toolchain, session.gpu.arch, cancel=cancel),
        time_limit=work.time_limit,
        launch=_launch(work, target, settings),
        from_events=unit.linked is not None and unit.linked.launches,
        control=control(unit, target.compiled, program.read_bytes()),
    )
    return PreparedWorkload(
        session=session,
        builder=builder,
        unit=unit,
        target=target,
        visits=Visits(place, settings, session.folder),
        program=program,
        place=place,
        baseline=_baseline(target, kernels, alone, conditions, settings, builder.unknown()),
        geometries=Geometries(
            work,
            toolchain=session.toolchain,
            arch=session.arch,
            library=library,
            folder=session.folder,
            settings=settings,
        ),
        surveyed=surveyed,
        model=model,
    )


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
