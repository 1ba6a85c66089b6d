# SPDX-License-Identifier: Apache-2.0
"""`optimize` for a file: gathers what the search needs, and runs it."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from warplens.agent.actions import KernelSpace
from warplens.agent.judging import JudgeSession
from warplens.agent.llm.editor import AskEditor
from warplens.agent.policies import PolicyName
from warplens.agent.priors import Cause
from warplens.agent.problem import Learned, Problem
from warplens.agent.report import unproven
from warplens.agent.result import OptimizeResult
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget, Objective
from warplens.measure.judge import Judge
from warplens.measure.judge_settings import Allowed, MeasureSettings
from warplens.service.build_messages import NOT_COMPILED
from warplens.service.measured import (
    Launched,
    busy_of,
    counted_report,
    headroom_of,
    report_of,
    version_report,
)
from warplens.service.model import Choice, FileCase, open_part
from warplens.service.report import FileReport
from warplens.service.service import Service
from warplens.service.specs import expecting
from warplens.service.workloads import require_main, workload_of
from warplens.settings import Loaded
from warplens.store.database import data_folder, open_store
from warplens.store.rates import hit_rates
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import load_gpu
from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError, MissingToolError, WarplensError
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.rewrite.base import Rewrite
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText

#: Opens a judge for a workload, a kernel ("" for the hottest), an architecture ("" for the card's own), and whether
#: edits of host code are judged too.
OpenJudge = Callable[[Workload, str, str, Allowed], AbstractContextManager[JudgeSession]]


class OptimizeOptions(msgspec.Struct, frozen=True):
    """What to make faster and how much to spend; None means the setting."""

    #: Plain or qualified name; "" for the hottest by total time.
    kernel: str = ""
    candidates: int | None = None
    seconds: float | None = None
    #: Candidates that are asked for at once; 0 for the usual number.
    batch: int = 0
    arch: str = ""
    #: Judge edits of host code too, which runs them; None means the setting.
    host_edits: bool | None = None
    #: Results of a lower precision may win; None means the setting.
    lower_precision: bool | None = None
    #: Idioms are tried, too; None means the setting.
    idioms: bool | None = None
    #: What is to be less; None means the setting.
    objective: Objective | None = None
    seed: int = 0
    #: Go on with the last run of the same text, workload, card and seed.
    resume: bool = False
    #: Run a random-search baseline on the same budget as well.
    control: bool = False
    #: What sets this search apart from others on the same text, beside its seed.
    name: str = ""
    #: Who answers as the model.
    model: Choice = Choice()
    search: PolicyName = "mcts"
    #: Sources of steps to do without: "rewrites", "idioms", "parameters", "templates", "model".
    without: tuple[str, ...] = ()


class FileInputs(msgspec.Struct, frozen=True):
    """What is known of a file before anything runs."""

    #: Absolute.
    path: Path
    #: The translation unit it is compiled in; itself for a `.cu`.
    unit: Path
    loaded: Loaded
    gpu: Gpu
    rewrites: Sequence[Rewrite]
    #: Gives the file's findings, of the tiers that need no run of its program.
    report: Callable[[], FileReport]
    #: Gives them with one kernel's counters, which takes runs; None where none can be had.
    measured: Callable[[str, Task], FileReport | None] = lambda *_: None
    #: Gives the report of another text of it that was judged, as it was launched where that is known.
    check: Callable[[str, Launched | None], FileReport] | None = None
    #: Macros of the command line it is compiled with.
    defines: Mapping[str, str] = {}
    #: The card that judges, where that is another machine's and is known.
    card: Gpu | None = None
    #: The report with counters that were read before the search, on the card that judges.
    counted: FileReport | None = None

    def text(self) -> SourceText:
        """The file as it is on disk, read as its build reads it."""
        return SourceText.read(self.path).compiled_with(self.defines)


def open_judge(
    workload: Workload, kernel: str, arch: str, allowed: Allowed
) -> AbstractContextManager[JudgeSession]:
    """The judge of this machine's GPU."""
    settings = MeasureSettings(
        host_edits=allowed.host_edits, lower_precision=allowed.lower_precision, energy=allowed.energy
    )
    return Judge(workload, kernel=kernel, arch=arch, settings=settings)


def optimize_file(
    inputs: FileInputs,
    options: OptimizeOptions,
    *,
    task: Task = UNATTENDED,
    judge: OpenJudge = open_judge,
    ask_editor: AskEditor | None = None,
    elsewhere: bool = False,
) -> OptimizeResult:
    """Search for a faster version of one kernel; unproven offers where nothing can be measured. `elsewhere`: the judge
    is on another machine, and nothing is built here.

    Raises:
        InputError: the file, the kernel's name or the settings cannot be used, or the program fails or
            never launches the kernel.
        CompileError: the program does not build.
        CancelledError: `task` was stopped.
    """
    started = time.monotonic()
    text = inputs.text()
    model = parse(text, str(inputs.path))
    kernels = kernels_of(model, options.kernel, inputs.path)
    task.say(f"reading {inputs.path.name}", None)
    workload = workload_of(inputs.path, inputs.unit, inputs.loaded, options.kernel)
    allowed = allowed_by(options, inputs.loaded)
    rewrites = rewrites_for(inputs, allowed)
    idioms = idioms_for(options, inputs.loaded)
    budget = _budget(options, inputs.loaded)
    round_of = budget.batch if elsewhere else 0
    with _beside(inputs.report) as report, open_store(data_folder(os.environ)) as store:
        case = FileCase(
            path=inputs.path,
            text=text,
            workload=workload,
            gpu=inputs.gpu,
            allowed=allowed,
            report=report,
            arch=options.arch,
            round_of=round_of,
            card=inputs.card,
            check=inputs.check,
        )
        part = open_part(inputs.loaded, options.model, case, ask_editor)
        if part is not None and inputs.counted is not None:
            part.counted(inputs.counted)
        workload, arch = (part.workload, part.arch) if part is not None else (workload, options.arch)

        def space(kernel: str) -> KernelSpace:
            return KernelSpace(
                text,
                path=str(inputs.path),
                kernel=kernel,
                limits=inputs.gpu.limits,
                rewrites=rewrites,
                idioms=idioms,
                causes=causes_of(report()),
                rates=functools.partial(hit_rates, store),
                busy=busy_of(report(), kernel),
                further=(part.source(kernel),) if part is not None else (),
                without=options.without,
                seed=options.seed,
            )

        def learn(kernel: str, task: Task) -> Learned:
            counted = inputs.measured(kernel, task)
            if counted is None:
                return Learned()
            if part is not None:
                part.counted(counted)
            return Learned(causes_of(counted), busy_of(counted, kernel), headroom_of(counted, kernel))

        problem = Problem(
            text=text,
            path=str(inputs.path),
            name=shown_name(inputs),
            space=space,
            workload=msgspec.json.encode((workload, allowed) if allowed != Allowed() else workload).decode()
            + "".join((options.name, *options.without, *(["idioms"] if idioms else []))),
            search=options.search,
            budget=budget,
            # a model is asked with what was measured, but where that is far away
            kernel=kernels[0]
            if len(kernels) == 1 and (part is None or (elsewhere and not part.needs_counters))
            else "",
            seed=options.seed,
            resume=options.resume,
            control=options.control,
            objective=objective_of(options, inputs.loaded),
            headroom=lambda baseline: headroom_of(report(), baseline.kernel),
            measured=part.measured if part is not None else lambda _: None,
            learn=learn,
            started=started,
        )
        try:
            require_main(inputs.path, inputs.unit, inputs.loaded, options.kernel)
            named = kernels[0] if options.kernel else ""
            if not elsewhere:
                card = arch or inputs.gpu.arch
                workload = expecting(workload, inputs.path, inputs.loaded, options.kernel, card, task=task)
            with judge(workload, named, arch, allowed) as session:
                result = optimize(problem, session, store, task=task)
                return result if part is None else msgspec.structs.replace(result, model=part.used())
        except MissingToolError as error:
            require_compiled(report())
            return unproven(problem, [space(kernel) for kernel in kernels], error)


@contextlib.contextmanager
def _beside(report: Callable[[], FileReport]) -> Iterator[Callable[[], FileReport]]:
    """Makes a report while something else is done, such as the judge's first look at the program.

    What is wrong with the file is said rather than what is wrong with its program.
    """
    with ThreadPoolExecutor(1) as aside:
        making = aside.submit(report)
        try:
            yield making.result
        except WarplensError:
            making.result()
            raise


def require_compiled(report: FileReport) -> None:
    """Refuse to offer edits of what no compiler takes.

    Raises:
        InputError: names the first error.
    """
    for finding in report.findings:
        if finding.code == NOT_COMPILED[0]:
            place = f"{report.path}:{finding.line}"
            raise InputError(f"{place} does not compile: {finding.message}", remedy=finding.guidance)


def optimize_path(
    service: Service,
    path: Path,
    options: OptimizeOptions,
    *,
    task: Task = UNATTENDED,
    judge: OpenJudge = open_judge,
    ask_editor: AskEditor | None = None,
) -> OptimizeResult:
    """`optimize_file` with what the workspace's service knows of the file. Raises the same."""
    inputs = inputs_of(service, path, options.arch, task=task)
    return optimize_file(inputs, options, task=task, judge=judge, ask_editor=ask_editor)


def inputs_of(service: Service, path: Path, arch: str = "", *, task: Task = UNATTENDED) -> FileInputs:
    """What the workspace's service knows of a file.

    Raises:
        InputError: the settings or the architecture cannot be used.
    """
    path = path.absolute()
    loaded = service.settings_for(path)
    unit = service.unit(path, loaded)
    if unit is None:
        raise InputError(
            f"no .cu file of the workspace includes {path.name}, so nothing launches its kernels",
            remedy="optimize it from a workspace that holds the program, or list a unit in compile_commands.json",
        )

    return FileInputs(
        path=path,
        unit=unit,
        loaded=loaded,
        gpu=load_gpu(arch or loaded.settings.architecture or None),
        rewrites=REWRITES,
        report=lambda: report_of(service, path, arch, task),
        measured=lambda kernel, task: counted_report(service, path, kernel, arch, task),
        check=functools.partial(version_report, service, path, unit, arch, task),
        defines=service.build_defines(path, unit, loaded),
    )


def causes_of(report: FileReport) -> tuple[Cause, ...]:
    """A file's findings as the search reads them."""
    return tuple(
        Cause(
            code=finding.code,
            slug=finding.slug,
            kernel=finding.kernel,
            confidence=finding.confidence,
            gain=finding.gain,
            rewrites=tuple(dict.fromkeys(fix.rewrite for fix in finding.fixes)),
        )
        for finding in report.findings
    )


def shown_name(inputs: FileInputs) -> str:
    """The file as diffs name it."""
    path, root = inputs.path, inputs.loaded.root
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def kernels_of(model: SourceModel, name: str, path: Path) -> list[str]:
    """Qualified names of the file's kernels, or of the one that `name` means.

    Raises:
        InputError: there is none.
    """
    names = [kernel.qualified_name for kernel in model.kernels]
    if not names:
        raise InputError(f"{path.name} defines no kernel")
    if not name:
        return names
    kernel = model.kernel(name)
    if kernel is None:
        raise InputError(f"{path.name} has no kernel {name}", remedy=f"it has {', '.join(names)}")
    return [kernel.qualified_name]


def allowed_by(options: OptimizeOptions, loaded: Loaded) -> Allowed:
    """What candidates may do, by the options or else the settings."""
    configured = loaded.settings.optimize
    host = configured.host_edits if options.host_edits is None else options.host_edits
    lower = configured.lower_precision if options.lower_precision is None else options.lower_precision
    return Allowed(host, lower, energy=objective_of(options, loaded) != "time")


def rewrites_for(inputs: FileInputs, allowed: Allowed) -> list[Rewrite]:
    """The rewrites whose results may win: those that lower the precision where that is allowed."""
    return [rewrite for rewrite in inputs.rewrites if allowed.lower_precision or not rewrite.lowers]


def idioms_for(options: OptimizeOptions, loaded: Loaded) -> tuple[Rewrite, ...]:
    """The idioms that are tried, by the options or else the settings."""
    wanted = loaded.settings.optimize.idioms if options.idioms is None else options.idioms
    return IDIOMS if wanted else ()


def objective_of(options: OptimizeOptions, loaded: Loaded) -> Objective:
    """What is to be less, by the options or else the settings."""
    return options.objective or loaded.settings.optimize.objective


def _budget(options: OptimizeOptions, loaded: Loaded) -> Budget:
    configured = loaded.settings.optimize
    candidates = configured.candidates if options.candidates is None else options.candidates
    seconds = configured.seconds if options.seconds is None else options.seconds
    if candidates < 1 or not seconds > 0:
        raise InputError("the budget needs at least one candidate and some time")
    return Budget(candidates, seconds, options.batch or Budget().batch)
