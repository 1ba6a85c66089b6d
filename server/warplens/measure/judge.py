"""The judge: opens a workload, measures its baseline, judges candidates against it.

    with Judge(workload, kernel="ns::scale") as judge:
        baseline = judge.baseline()
        verdicts = judge.judge(candidates, on_verdict=tell)
        proof = judge.confirm(best)

The order of the gate: edit allowed, builds, resources legal, runs within its limit, right, faster than
the noise of the same visit; `confirm` adds the rebuilt program and fresh processes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import msgspec

from warplens.measure.builds import Builder, Built, Unit
from warplens.measure.conditions import Watch
from warplens.measure.confirm import Confirmation, ProgramGain, confirm
from warplens.measure.gate import verdict_of
from warplens.measure.geometry import Geometries
from warplens.measure.program import ProgramRun, require_success, run_program
from warplens.measure.settings import MeasureSettings
from warplens.measure.survey import survey
from warplens.measure.target import KernelShare, Target, choose, shares
from warplens.measure.timing import bootstrap
from warplens.measure.verdict import Candidate, Conditions, Verdict
from warplens.measure.visits import Heard, Place, Visits
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import present_gpus, query_devices, target_architecture
from warplens_tools.collect.toolchain import Toolchain, resolve_toolchain, tool_version
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.evidence import CompiledKernel, LaunchTiming, Unknown
from warplens_tools.run.build import build_program, start_command
from warplens_tools.run.cancel import CancelToken, Progress, no_progress
from warplens_tools.run.cubin import live_names, variables
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.run.probe.library import helper_kernels, probe_library
from warplens_tools.run.workload import Workload
from warplens_tools.source.parse import parse

__all__ = ["Baseline", "Confirmation", "Judge", "KernelShare", "ProgramGain", "ProgramRun"]


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


class _Opened(msgspec.Struct, frozen=True):
    """What is known once the baseline was measured."""

    builder: Builder
    unit: Unit
    target: Target
    visits: Visits
    program: Path
    place: Place
    baseline: Baseline
    geometries: Geometries


class Judge:
    """Judges candidates for one kernel of one workload.

    Holds the GPU lock only while the GPU is in use. Not safe for use from several threads at once; the
    cancel token may be triggered from any thread, and stops builds and programs with their children.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        kernel: str = "",
        arch: str = "",
        device: int = 0,
        settings: MeasureSettings | None = None,
        toolchain: Toolchain | None = None,
    ) -> None:
        """`kernel`: plain, qualified or mangled name, "" for the hottest that the source defines.

        `arch`: e.g. "sm_90"; "" means the device's own. `device` is the ordinal as the CUDA driver counts.
        """
        self.workload = workload
        self.settings = settings or MeasureSettings()
        self._kernel, self._arch, self._device = kernel, arch, device
        self._toolchain = toolchain or resolve_toolchain()
        self._folder = Path(tempfile.mkdtemp(prefix="warplens-judge-"))
        self._opened: _Opened | None = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the build folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def baseline(self, *, progress: Progress = no_progress, cancel: CancelToken | None = None) -> Baseline:
        """Build the program, run it as it is, survey its kernels; repeated calls answer from memory.

        Raises:
            MissingToolError: no GPU, driver, compiler or CUPTI.
            CompileError: the program does not build.
            InputError: it fails, or never launches the kernel, or its launch cannot be visited.
            TimeLimitError, CancelledError: as named.
        """
        if self._opened is None:
            self._opened = self._open(progress, cancel)
        return self._opened.baseline

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        progress: Progress = no_progress,
        cancel: CancelToken | None = None,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        """One verdict per candidate, in their order; `on_verdict` gets each as soon as it is known.

        A candidate never raises: what is wrong with it is its verdict. Calls `baseline` first if needed.

        Raises:
            as `baseline`, where the workload itself fails.
        """
        self.baseline(progress=progress, cancel=cancel)
        verdicts: dict[str, Verdict] = {}

        def tell(verdict: Verdict) -> None:
            verdicts[verdict.candidate] = verdict
            progress(f"{len(verdicts)} of {len(candidates)} judged", len(verdicts) / len(candidates))
            if on_verdict is not None:
                on_verdict(verdict)

        progress(f"building {len(candidates)} candidates", 0.0)
        built = self._build(candidates, tell, cancel)
        if built:
            self._visit(built, tell, progress, cancel)
        return tuple(verdicts[c.id] for c in candidates)

    def confirm(
        self,
        candidate: Candidate,
        *,
        progress: Progress = no_progress,
        cancel: CancelToken | None = None,
    ) -> Confirmation:
        """Rebuild the whole program with the candidate and measure it again in fresh processes.

        The verdict is `faster` only if the rebuilt program exits and prints as before, and every fresh
        process finds it faster; its timings are of samples that did not choose the candidate.
        """
        self.baseline(progress=progress, cancel=cancel)
        refused: list[Verdict] = []
        built = self._build([candidate], refused.append, cancel)
        if not built:
            return Confirmation(refused[0])
        opened = self._known()
        gpu = self._gpu()
        with self._card(f"confirming {opened.baseline.kernel}", progress, cancel) as watch:
            return confirm(
                built[0],
                workload=self.workload,
                text=opened.builder.edited(candidate).text,
                toolchain=self._toolchain,
                arch=self._architecture(gpu),
                gpu=gpu,
                program=opened.program,
                visits=lambda: Visits(opened.place, self.settings, self._folder),
                library=opened.place.library,
                baseline_resources=opened.target.compiled.resources,
                target=opened.target,
                settings=self.settings,
                folder=Path(tempfile.mkdtemp(dir=self._folder, prefix="confirm-")),
                watch=watch,
                progress=progress,
                cancel=cancel,
            )

    def _known(self) -> _Opened:
        if self._opened is None:
            raise InputError("the baseline was not measured")
        return self._opened

    def _gpu(self) -> Gpu:
        gpus = present_gpus()
        if self._device < len(gpus):
            return gpus[self._device]
        why = query_devices().error or f"there is no GPU {self._device}"
        raise MissingToolError(
            f"nothing can be measured: {why}", remedy="run on a machine with an NVIDIA GPU"
        )

    def _architecture(self, gpu: Gpu) -> str:
        if self._arch:
            return self._arch
        model = parse(Builder.read(self.workload), self.workload.source)
        return target_architecture(None, present=gpu, arch_specific=model.needs_arch_specific)

    @contextmanager
    def _card(self, what: str, progress: Progress, cancel: CancelToken | None) -> Iterator[Watch]:
        """The card, for this process alone, and its state watched."""
        gpu = self._gpu()
        nvcc = self._toolchain.find("nvcc")
        with gpu_lock(gpu.uuid, what, progress=progress, cancel=cancel):
            watch = Watch(gpu, cuda=tool_version(nvcc) if nvcc is not None else "")
            watch.start()
            try:
                yield watch
            finally:
                watch.stop()

    def _open(self, progress: Progress, cancel: CancelToken | None) -> _Opened:
        gpu = self._gpu()
        arch = self._architecture(gpu)
        progress("building the program", None)
        builder = Builder(
            self.workload, toolchain=self._toolchain, arch=arch, folder=self._folder, settings=self.settings
        )
        program = build_program(
            self.workload,
            toolchain=self._toolchain,
            arch=arch,
            folder=self._folder / "program",
            timeout=self.settings.compile_seconds,
            cancel=cancel,
        )
        unit = builder.baseline(cancel)
        library = probe_library(self._toolchain, cancel=cancel)
        command = start_command(self.workload, program)
        model = parse(builder.text, self.workload.source)
        with self._card("measuring a baseline", progress, cancel) as watch:
            progress("running the program", None)
            alone = run_program(command, self.workload.time_limit, cancel)
            require_success(alone)
            surveyed = survey(command, library, self._folder, self.workload.time_limit, cancel)
            conditions = watch.stop()
        kernels = shares(surveyed, {k.qualified_name for k in model.kernels})
        target = choose(surveyed, kernels, unit.evidence.kernels, self._kernel)
        names = tuple(v.name for v in variables(unit.cubin))
        kernel = model.kernel(target.compiled.qualified_name)
        place = Place(
            command=command,
            target=target,
            parameters=kernel.parameters if kernel is not None else (),
            variables=tuple(n for n in live_names(names, program.read_bytes()).values() if n),
            library=library,
            helpers=helper_kernels(self._toolchain, gpu.arch, cancel=cancel),
            time_limit=self.workload.time_limit,
            launch=self.settings.launch,
        )
        return _Opened(
            builder=builder,
            unit=unit,
            target=target,
            visits=Visits(place, self.settings, self._folder),
            program=program,
            place=place,
            baseline=_baseline(target, kernels, alone, conditions, self.settings),
            geometries=Geometries(
                self.workload,
                toolchain=self._toolchain,
                arch=arch,
                library=library,
                folder=self._folder,
                settings=self.settings,
            ),
        )

    def _build(
        self, candidates: Sequence[Candidate], tell: Callable[[Verdict], None], cancel: CancelToken | None
    ) -> list[Built]:
        opened = self._known()
        built: list[Built] = []

        def take(done: Built | Verdict) -> None:
            if isinstance(done, Verdict):
                tell(done)
            elif done.identical and not self.settings.measure_identical:
                tell(_identical(done, opened.target.compiled))
            else:
                built.append(done)

        opened.builder.build_all(
            candidates,
            opened.unit,
            opened.target.compiled,
            opened.program.read_bytes(),
            cancel=cancel,
            on_done=take,
        )
        built = self._placed(built, tell, cancel)
        order = {c.id: index for index, c in enumerate(candidates)}
        return sorted(built, key=lambda b: order[b.candidate.id])

    def _placed(
        self, built: list[Built], tell: Callable[[Verdict], None], cancel: CancelToken | None
    ) -> list[Built]:
        """The candidates with the geometry that their rebuilt programs launch with."""
        if not any(b.candidate.asks_program for b in built):
            return built
        opened, placed = self._known(), list[Built]()
        with self._card("reading launch geometry", no_progress, cancel):
            for one in built:
                done: Built | Verdict = one
                if one.candidate.asks_program:
                    done = opened.geometries.place(one, opened.builder.edited(one.candidate), cancel)
                if isinstance(done, Verdict):
                    tell(done)
                else:
                    placed.append(done)
        return placed

    def _visit(
        self,
        built: Sequence[Built],
        tell: Callable[[Verdict], None],
        progress: Progress,
        cancel: CancelToken | None,
    ) -> None:
        opened = self._known()
        gpu = self._gpu()
        by_id = {b.candidate.id: b for b in built}
        with self._card(f"judging {opened.baseline.kernel}", progress, cancel) as watch:

            def take(heard: Heard) -> None:
                mine = by_id[heard.result.candidate]
                tell(
                    verdict_of(
                        heard,
                        gpu=gpu,
                        settings=self.settings,
                        resources=mine.compiled.resources,
                        baseline_resources=opened.target.compiled.resources,
                        conditions=watch.now(),
                        build_seconds=mine.seconds,
                    )
                )

            opened.visits.judge([b.job for b in built], take, cancel)


def _identical(built: Built, baseline: CompiledKernel) -> Verdict:
    return Verdict(
        candidate=built.candidate.id,
        state="same",
        reason="it compiles to the baseline's own machine code",
        resources=built.compiled.resources,
        baseline_resources=baseline.resources,
        cost={"build": built.seconds},
    )


def _baseline(
    target: Target,
    kernels: tuple[KernelShare, ...],
    alone: ProgramRun,
    conditions: Conditions,
    settings: MeasureSettings,
) -> Baseline:
    shape = target.shape
    interval = bootstrap(shape.samples, settings)
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
    )
