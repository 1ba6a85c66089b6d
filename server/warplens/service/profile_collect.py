# SPDX-License-Identifier: Apache-2.0
"""Gathers measurements of one file's kernels: from reports that were named, or by running its program."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.survey import survey
from warplens.measure.timing import bootstrap
from warplens.service.workloads import require_main, workload_of
from warplens.settings import Loaded
from warplens_tools.arch.gpu import Gpu
from warplens_tools.collect.cache import work_folder
from warplens_tools.collect.cupti import trace_timeline
from warplens_tools.collect.match import match_launches
from warplens_tools.collect.ncu import NcuRequest, collect_counters
from warplens_tools.collect.ncu_csv import require_csv
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.nsys import collect_timeline, read_timeline
from warplens_tools.collect.profile_cache import content_key, load_profile, named_files, store_profile
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.collect.recording import SUFFIX, read_recording
from warplens_tools.collect.report_gpu import report_gpu
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.errors import CancelledError, InputError, MissingToolError, WarplensError
from warplens_tools.evidence import (
    TIERS,
    BinaryEvidence,
    CounterEvidence,
    Instruction,
    LaunchTiming,
    Tier,
    TimelineEvidence,
    Unknown,
)
from warplens_tools.process.task import Task
from warplens_tools.run.build import build_program, start_command
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.run.probe.library import probe_library
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.probe.visit import environment_of
from warplens_tools.run.workload import Workload
from warplens_tools.sass.pipes import GLOBAL_ATOMICS, pipe_of
from warplens_tools.text import SourceText
from warplens_tools.toolchain.demangle import qualified_name
from warplens_tools.toolchain.locate import Toolchain, tool_version

#: A text export larger than this is refused: the raw page of a thousand launches has about 30 MB.
MAX_TEXT_BYTES = 512 * 1024 * 1024


class Gathered(msgspec.Struct):
    """What was measured, by qualified kernel name, and on which card."""

    counters: dict[str, CounterEvidence] = {}
    #: The imported report each kernel's counters came from; absent for those collected here.
    reports: dict[str, str] = {}
    timings: dict[str, LaunchTiming] = {}
    timeline: TimelineEvidence | None = None
    gpu: Gpu | None = None
    unknown: list[Unknown] = []


class Subject(msgspec.Struct, frozen=True):
    """The file that is profiled, as it is now."""

    path: Path
    #: The translation unit the file is compiled in, absolute: itself unless it is a header; None for a header
    #: that no unit includes.
    unit: Path | None
    text: SourceText
    model: SourceModel
    loaded: Loaded
    binary: BinaryEvidence | None
    arch: str


def import_reports(paths: Sequence[Path], subject: Subject, *, toolchain: Toolchain, task: Task) -> Gathered:
    """Read every report and match it to the file. Of two reports of one kernel the later named counts.

    Raises:
        InputError: a report does not exist, or is none that is known.
        MissingToolError: a report needs a tool that is not here.
    """
    gathered = Gathered()
    for path in paths:
        launches = _read(path, gathered, toolchain, task)
        if launches:
            take_launches(launches, gathered, subject, str(path))
    return gathered


def take_launches(
    launches: Sequence[ProfiledLaunch], gathered: Gathered, subject: Subject, report: str
) -> None:
    """Match the launches of one report, which are some, to the file."""
    compiled, name = subject.binary.kernels if subject.binary is not None else (), Path(report).name
    found = match_launches(launches, subject.model, subject.text, report=name, compiled=compiled)
    gathered.counters |= found.counters
    gathered.reports |= dict.fromkeys(found.counters, report)
    gathered.unknown += found.unknown
    card = report_gpu(launches[0])
    if gathered.gpu is None and card is not None and not launches[0].gpu_name:
        gathered.unknown.append(_unnamed(name, card))
    gathered.gpu = gathered.gpu or card


def _unnamed(report: str, card: Gpu) -> Unknown:
    """That a report does not say on which card it was recorded."""
    return Unknown(
        f"the card of {report}",
        f"the report names none, so a typical one of its architecture stands in: {card.name}",
        "import the .ncu-rep, or export it with the raw page: ncu --import REPORT --csv --page raw",
    )


def _read(path: Path, gathered: Gathered, toolchain: Toolchain, task: Task) -> tuple[ProfiledLaunch, ...]:
    """The launches of a report; a timeline goes into `gathered` instead."""
    if not path.is_file():
        raise InputError(f"there is no report {path}")
    with path.open("rb") as file:
        head = file.read(16)
    if path.suffix == ".nsys-rep" or head.startswith(b"SQLite format 3"):
        with work_folder() as folder:
            gathered.timeline = read_timeline(path, toolchain=toolchain, workdir=folder, task=task)
        return ()
    if path.suffix == ".ncu-rep":
        return read_report(path, toolchain=toolchain, task=task)
    if path.name.endswith(SUFFIX):
        return read_recording(path)
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise InputError(f"{path} is too large for a text export of Nsight Compute")
    return require_csv(path.read_text("utf-8", errors="replace"), name=str(path))


def run_and_collect(
    subject: Subject, kernels: Sequence[Kernel], gpu: Gpu, *, tier: Tier, toolchain: Toolchain, task: Task
) -> Gathered:
    """Build and run the file's program: for its counters, its timeline, and its kernels' durations.

    `tier` is the highest that is collected. Durations take a run of their own, so where counters give one
    of every kernel they are left out, unless `tier` asks for no more than them. What cannot be collected
    is said in `unknown`, never raised; only a cancellation is.
    """
    gathered = Gathered(gpu=gpu)
    try:
        path = subject.path.absolute()
        unit = subject.unit or path
        require_main(path, unit, subject.loaded)
        workload = workload_of(path, unit, subject.loaded)
        with work_folder() as folder:
            started = _Run(subject, workload, gpu, toolchain, folder)
            _collect(started, kernels, gathered, tier, task)
    except CancelledError:
        raise
    except WarplensError as error:
        gathered.unknown.append(
            Unknown(f"counters of {subject.path.name}", str(error), error.remedy, failed=True)
        )
    return gathered


class _Run(msgspec.Struct):
    """One program to run; it is built when the first collector needs it."""

    subject: Subject
    workload: Workload
    gpu: Gpu
    toolchain: Toolchain
    folder: Path
    built: Path | None = None

    def program(self, task: Task) -> Path:
        """The built program."""
        if self.built is None:
            self.built = build_program(
                self.workload, toolchain=self.toolchain, arch=self.subject.arch, folder=self.folder, task=task
            )
        return self.built

    def key(self, what: bytes, task: Task) -> str:
        """The content of everything that could change what `what` collects."""
        binary = self.subject.binary
        sources = [Path(p) for p in binary.dependencies] if binary is not None else []
        if self.workload.build or not sources:
            sources = [self.program(task)]
        directory = Path(self.workload.directory or self.subject.path.absolute().parent)
        words = (*self.workload.wrapper, *self.workload.command, *self.workload.arguments)
        parts: list[bytes | str] = [
            what, msgspec.msgpack.encode(self.workload), self.subject.text.text, self.subject.arch,
            binary.origin if binary is not None else "", self.gpu.uuid, self.gpu.driver,
        ]  # fmt: skip
        return content_key(parts, [*sources, *named_files(words, directory)])


def _collect(run: _Run, kernels: Sequence[Kernel], gathered: Gathered, tier: Tier, task: Task) -> None:
    highest = TIERS.index(tier)
    if highest >= TIERS.index("counters"):
        for kernel in kernels:
            with _said(f"counters of {kernel.qualified_name}", gathered):
                _count(run, kernel, gathered, task)
    if any(k.qualified_name not in gathered.counters for k in kernels):
        with _said("how long the kernels take", gathered):
            gathered.timings = launch_timings(_surveyed(run, task))
    if highest >= TIERS.index("timeline"):
        with _said("the timeline", gathered):
            gathered.timeline = _timeline(run, task)


def count_launches(
    subject: Subject, kernel: Kernel, gpu: Gpu, *, toolchain: Toolchain, task: Task
) -> tuple[ProfiledLaunch, ...]:
    """Build and run the file's program for one kernel's counters.

    Raises:
        MissingToolError: there is no Nsight Compute.
        WarplensError: the program cannot be built or run, or its counters not be read.
    """
    path = subject.path.absolute()
    workload = workload_of(path, subject.unit or path, subject.loaded)
    with work_folder() as folder:
        return _counters(_Run(subject, workload, gpu, toolchain, folder), kernel, task)


def _count(run: _Run, kernel: Kernel, gathered: Gathered, task: Task) -> None:
    launches, subject = _counters(run, kernel, task), run.subject
    compiled = subject.binary.kernels if subject.binary is not None else ()
    found = match_launches(launches, subject.model, subject.text, report="this run", compiled=compiled)
    gathered.counters |= found.counters
    gathered.unknown += found.unknown


class _said(contextlib.AbstractContextManager[None]):  # noqa: N801
    """Turns a failed collector into an unknown, so that it does not take the others with it."""

    def __init__(self, what: str, gathered: Gathered) -> None:
        self._what, self._gathered = what, gathered

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, WarplensError) or isinstance(error, CancelledError):
            return False
        self._gathered.unknown.append(Unknown(self._what, str(error), error.remedy, failed=True))
        return True


def _counters(run: _Run, kernel: Kernel, task: Task) -> tuple[ProfiledLaunch, ...]:
    ncu = run.toolchain.find("ncu")
    if ncu is None:
        raise MissingToolError(run.toolchain.missing["ncu"].why, remedy=run.toolchain.missing["ncu"].remedy)
    request = ncu_request(run.subject.binary, kernel)
    key = run.key(msgspec.msgpack.encode(request) + tool_version(ncu).encode(), task)
    known = load_profile(key, tuple[ProfiledLaunch, ...])
    if known is not None:
        return known
    start = start_command(run.workload, run.program(task))
    task.say(f"profiling {kernel.name}", None)
    with gpu_lock(run.gpu.uuid, f"profiling {kernel.name}", task=task):
        launches = collect_counters(
            start.arguments,
            request,
            toolchain=run.toolchain,
            workdir=run.folder / "ncu",
            cwd=Path(start.directory),
            env=environment_of(start),
            # Replay repeats the kernel once per pass; sixteen programs' time bounds the passes of this request.
            time_limit=max(120.0, 16 * run.workload.time_limit),
            task=task,
        )
    store_profile(key, launches)
    return launches


def _surveyed(run: _Run, task: Task) -> tuple[SurveyedShape, ...]:
    library = probe_library(run.toolchain, task=task)
    key = run.key(f"survey {library.parent.name}".encode(), task)
    known = load_profile(key, tuple[SurveyedShape, ...])
    if known is not None:
        return known
    start = start_command(run.workload, run.program(task))
    task.say("timing the kernels", None)
    with gpu_lock(run.gpu.uuid, "timing", task=task):
        shapes = survey(start, library, run.folder, run.workload.time_limit, task)
    store_profile(key, shapes)
    return shapes


def _timeline(run: _Run, task: Task) -> TimelineEvidence:
    """Through Nsight Systems, or through the probe where it is not here."""
    nsys = run.toolchain.find("nsys")
    library = probe_library(run.toolchain, task=task) if nsys is None else None
    tool = tool_version(nsys) if nsys is not None else f"probe {library.parent.name if library else ''}"
    key = run.key(f"timeline {tool}".encode(), task)
    known = load_profile(key, TimelineEvidence)
    if known is not None:
        return known
    start = start_command(run.workload, run.program(task))
    limit = max(120.0, 4 * run.workload.time_limit)
    task.say("tracing the program", None)
    with gpu_lock(run.gpu.uuid, "tracing", task=task):
        if library is not None:
            timeline = trace_timeline(
                start,
                library,
                workdir=run.folder / "trace",
                gpu_name=run.gpu.name,
                time_limit=limit,
                task=task,
            )
        else:
            timeline = collect_timeline(
                start.arguments,
                toolchain=run.toolchain,
                workdir=run.folder / "nsys",
                cwd=Path(start.directory),
                env=environment_of(start),
                time_limit=limit,
                task=task,
            )
    store_profile(key, timeline)
    return timeline


def ncu_request(binary: BinaryEvidence | None, kernel: Kernel) -> NcuRequest:
    """What to ask Nsight Compute of a kernel: the counters of a unit only where its code uses that unit."""
    code = [
        instruction
        for k in (binary.kernels if binary is not None else ())
        if k.qualified_name == kernel.qualified_name
        for instruction in k.instructions
    ]
    return NcuRequest(
        kernel=kernel.name,
        tensor=any(pipe_of(x) == "tensor" for x in code),
        atomics=any(x.opcode in GLOBAL_ATOMICS for x in code),
        constants=any(x.opcode == "LDC" and not _is_parameter(x) for x in code),
    )


def _is_parameter(load: Instruction) -> bool:
    """Whether a constant load names its word, as those of a kernel's parameters do."""
    return re.search(r"\[(?:U?R\d+)", load.operands[-1]) is None


def measured_gpu(gathered: Gathered, judged: Gpu) -> Gpu:
    """The card whose roofs the counters stand under: the one here if it is the same, else the report's."""
    if gathered.gpu is None or gathered.gpu.name == judged.name:
        return judged
    return gathered.gpu


def launch_timings(surveyed: Sequence[SurveyedShape]) -> dict[str, LaunchTiming]:
    """Timings by qualified name: of each kernel's heaviest shape, with its share of all kernel time.

    A kernel that CUPTI timed no launch of is absent.
    """
    total = sum(s.total_ns for s in surveyed)
    groups: dict[str, list[SurveyedShape]] = {}
    for shape in surveyed:
        if any(shape.samples):
            groups.setdefault(qualified_name(shape.mangled), []).append(shape)
    return {name: _timing(group, total) for name, group in groups.items()}


def _timing(group: Sequence[SurveyedShape], total: float) -> LaunchTiming:
    shape = max(group, key=lambda s: s.total_ns)
    interval = bootstrap([ns for ns in shape.samples if ns > 0], MeasureSettings())
    return LaunchTiming(
        origin="CUPTI activity",
        launches=sum(s.timed for s in group),
        grid=shape.grid,
        block=shape.block,
        dynamic_shared_bytes=shape.shared,
        median_ns=interval.median,
        low_ns=interval.low,
        high_ns=interval.high,
        share=sum(s.total_ns for s in group) / total if total else None,
    )
