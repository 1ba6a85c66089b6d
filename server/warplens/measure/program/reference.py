# SPDX-License-Identifier: Apache-2.0
"""What the baseline does, learned from outside: what of it repeats, depends on the device, and changes with inputs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens.measure.program.device_work import DeviceWork, Tracer
from warplens.measure.program.effects import RunEffects, compared, left_out, unlike
from warplens.measure.program.program_sandbox import ProgramSandbox, Trial, build_in, observe, open_yard
from warplens.measure.program.variation import trials
from warplens.measure.program.whole import ProgramRun
from warplens.measure.session import Session
from warplens.measure.verdict import Outside
from warplens_tools.errors import CompileError, InputError, TimeLimitError, ToolFailedError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.confine import abilities
from warplens_tools.run.probe.visit import Command

#: The baseline's build and, in `sandbox`, its name.
BASELINE = "baseline"
#: No GPU is to be seen.
WITHOUT_DEVICE = Trial(environment={"CUDA_VISIBLE_DEVICES": "-1"}, title="no GPU")
#: Changed inputs on which candidates are compared too, at most: each costs them a run.
_VARIED = 3


class Varied(msgspec.Struct, frozen=True):
    """The baseline on another input."""

    trial: Trial
    runs: tuple[RunEffects, ...]


class Reference(msgspec.Struct, frozen=True):
    """What candidates' programs are held against."""

    sandbox: ProgramSandbox
    text: str
    runs: tuple[RunEffects, ...]
    #: None where it could not be traced.
    work: DeviceWork | None
    varied: tuple[Varied, ...]
    outside: Outside
    #: Why no candidate can be proven at all; "" if one can.
    blind: str
    #: What programs and builds are not held to here.
    unknown: tuple[Unknown, ...]


def learn(
    session: Session,
    folder: Path,
    text: str,
    plain: ProgramRun,
    tracer: Tracer,
    *,
    read: tuple[str, ...] = (),
    task: Task = UNATTENDED,
) -> Reference:
    """Build the baseline and run it as candidates will be, several times.

    Args:
        folder: for builds and runs; belongs to the reference alone.
        text: the baseline's source.
        plain: the program as it ran outside the fence.
        read: what runs may read besides, such as the tracer's library.

    Raises:
        InputError: the program does not do the same within the fence, or cannot be fenced in.
        CompileError, TimeLimitError, MissingToolError, CancelledError: as named.
    """
    sandbox, runs = _settled(session, folder, text, plain, read, task)
    sandbox, stale = _without_earlier_results(sandbox, runs, task)
    runs = (*runs, observe(sandbox, BASELINE, task=task))
    traced, work = traced_run(sandbox, BASELINE, tracer, task)
    strange = unlike(runs, traced)
    varied = _varied(sandbox, runs, task)
    return Reference(
        sandbox=sandbox,
        text=text,
        runs=runs,
        work=work,
        varied=varied,
        outside=Outside(compared(runs), left_out(runs), (*stale, *_doubts(varied))),
        blind=_blind(sandbox, runs, task) or _untraced(work, strange),
        unknown=_unknown(sandbox),
    )


def traced_run(
    sandbox: ProgramSandbox, name: str, tracer: Tracer, task: Task
) -> tuple[RunEffects, DeviceWork | None]:
    """One run whose devices are traced. Raises as `observe`."""
    seen: list[DeviceWork | None] = []

    def runner(command: Command, time_limit: float, part: Task) -> ProgramRun:
        run, work = tracer(command, sandbox.folder / "run" / "probe", time_limit, part)
        seen.append(work)
        return run

    return observe(sandbox, name, runner=runner, task=task), seen[0]


def _settled(
    session: Session, folder: Path, text: str, plain: ProgramRun, read: tuple[str, ...], task: Task
) -> tuple[ProgramSandbox, tuple[RunEffects, ...]]:
    """The narrowest sandbox in which the baseline does what it does outside."""
    strange = ""
    for wide in (False, True):
        sandbox = _built(open_yard(session, folder, wide=wide, read=read), text, task)
        runs = tuple(observe(sandbox, BASELINE, task=task) for _ in range(session.settings.outside_repeats))
        strange = unlike([msgspec.structs.replace(d, files={}) for d in runs], RunEffects(plain))
        if not strange:
            return sandbox, runs
    said = runs[0].run.stderr.strip().splitlines()
    how = strange.replace("the rebuilt program", "outside it").replace("the original", "inside")
    raise InputError(
        f"the program does not do the same inside a fence: {how}{f' ({said[-1]})' if said else ''}",
        remedy="name the files it reads in its arguments or its environment setting, and have it write in its folder",
    )


def _built(sandbox: ProgramSandbox, text: str, task: Task) -> ProgramSandbox:
    try:
        build_in(sandbox, BASELINE, text, task)
    except CompileError:
        # its own command may need what the fence does not know
        sandbox = msgspec.structs.replace(sandbox, free_builds=True)
        build_in(sandbox, BASELINE, text, task)
    return sandbox


def _without_earlier_results(
    sandbox: ProgramSandbox, runs: tuple[RunEffects, ...], task: Task
) -> tuple[ProgramSandbox, tuple[str, ...]]:
    """The sandbox with files gone that the program writes anew, so that none can be left as it was."""
    names = {name for d in runs for name, written in d.files.items() if written.kind == "file"}
    earlier = tuple(sorted(name for name in names if (sandbox.copied / name).is_file()))
    if not earlier:
        return sandbox, ()
    emptied = msgspec.structs.replace(sandbox, gone=earlier)
    try:
        if not unlike(runs, observe(emptied, BASELINE, task=task)):
            return emptied, ()
    except TimeLimitError:
        pass
    return sandbox, (f"earlier results kept in {', '.join(earlier[:3])}, which the program also reads",)


def _blind(sandbox: ProgramSandbox, runs: tuple[RunEffects, ...], task: Task) -> str:
    """Why nothing that the program shows would tell a wrong result."""
    if not compared(runs):
        return (
            "the program prints no number and writes no file that repeats, so its results cannot be compared"
        )
    if same_without_device(sandbox, BASELINE, runs, task):
        return (
            "the program prints and writes the same where it sees no GPU, so its results are not seen in that"
        )
    return ""


def _untraced(work: DeviceWork | None, strange: str) -> str:
    if strange:
        return f"the original program does otherwise while it is traced: {strange}"
    if work is None:
        return "what the device does for the original program could not be traced"
    return "" if work.busy_ns else "the device does nothing for the original program"


def same_without_device(sandbox: ProgramSandbox, name: str, runs: tuple[RunEffects, ...], task: Task) -> bool:
    """Whether a program does the same where it sees no GPU."""
    try:
        return not unlike(runs, observe(sandbox, name, WITHOUT_DEVICE, task=task))
    except (TimeLimitError, InputError, ToolFailedError):
        return False


def _varied(sandbox: ProgramSandbox, runs: tuple[RunEffects, ...], task: Task) -> tuple[Varied, ...]:
    """Inputs on which the baseline succeeds, repeats itself, and gives other results."""
    found: list[Varied] = []
    for trial in trials(sandbox, frozenset.union(*(d.read for d in runs))):
        if len(found) == _VARIED:
            break
        try:
            there = tuple(observe(sandbox, BASELINE, trial, task=task) for _ in range(2))
        except (TimeLimitError, InputError):
            continue
        usable = all(d.run.status == runs[0].run.status for d in there) and compared(there)
        if usable and not unlike(there[:1], there[1]) and unlike(runs, there[0]):
            found.append(Varied(trial, there))
    return tuple(found)


def _doubts(varied: tuple[Varied, ...]) -> tuple[str, ...]:
    common = (
        "a lower precision, or errors, that what is printed and written does not show",
        "a program that knows it is judged or traced: it could do otherwise elsewhere, or tell CUPTI of work undone",
        "memory errors the GPU does not trap: compute-sanitizer does not work through a fence",
    )
    if varied:
        return common
    return ("results remembered for this input: no other input could be given to the program", *common)


def _unknown(sandbox: ProgramSandbox) -> tuple[Unknown, ...]:
    free = Unknown("builds that read only the project", "the original's build command needs more")
    project = Unknown(
        "a program that reads only its inputs",
        "it needs the project's folder, with results of earlier runs if there are any",
    )
    return (
        *abilities().unknown_of_programs(),
        *([free] if sandbox.free_builds else []),
        *([project] if str(sandbox.copied) in sandbox.read else []),
    )
