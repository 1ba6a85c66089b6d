# SPDX-License-Identifier: Apache-2.0
"""Where programs with edited host code are built and run: fenced in, each in a fresh copy of its working directory.

Baseline and candidate are built and run at the same paths, one after the other, so that neither tells which
one it is; what another run wrote is gone by then.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from warplens.measure.build.fence import limits_of
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.program.effects import RunEffects, Stamp, stamps_of, written_since
from warplens.measure.program.whole import ProgramRun, run_program
from warplens_tools.errors import InputError, ToolFailedError
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.build import (
    Overlay,
    build_program,
    flags_of,
    include_folders,
    start_command,
    without_secrets,
)
from warplens_tools.run.confine import Confinement, Limits, abilities, confined, readable
from warplens_tools.run.copy import copy_project
from warplens_tools.run.probe.visit import Command
from warplens_tools.run.sandbox import OUTPUTS
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.locate import Toolchain, ToolName

#: Variables that a program keeps: where libraries are, how words and times are written, how CUDA and OpenMP work.
_KEPT = re.compile(r"PATH|LD_LIBRARY_PATH|PYTHONPATH|LANG|LC_\w+|TZ|USER|CUDA_\w+|NVIDIA_\w+|OMP_\w+")
_LOST = re.compile(r"CUDA_INJECTION\w*|CUDA_CACHE_PATH")
#: Bytes of output that are compared: a program that prints more says the rest in vain.
_MOST_PRINTED = 64 << 20
#: Variables that are lists of folders.
_FOLDERS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_TOOLS: tuple[ToolName, ...] = ("nvcc", "host_compiler", "cuda_headers", "cupti_library")

#: Runs a command that the sandbox made: its result, and what the device did where that is looked at.
Runner = Callable[[Command, float, Task], ProgramRun]


class Fenced(Protocol):
    """What is known of a workload whose programs are fenced in; a session is one."""

    @property
    def workload(self) -> Workload:
        """What is built and run."""

    @property
    def toolchain(self) -> Toolchain:
        """By which it is built."""

    @property
    def arch(self) -> str:
        """What it is built for, e.g. "sm_90"."""

    @property
    def settings(self) -> MeasureSettings:
        """Its limits."""


class ProgramSandbox(msgspec.Struct, frozen=True):
    """One workload's place to run. `folder` belongs to it alone."""

    session: Fenced
    folder: Path
    #: What each run gets a fresh copy of: the working directory, or the project around it.
    copied: Path
    #: Files and folders outside that a run may read.
    read: tuple[str, ...] = ()
    #: Files of the copy that the baseline writes without having read them: earlier results, removed before a run.
    gone: tuple[str, ...] = ()
    #: Whether builds may read what they like: the baseline does not build otherwise.
    free_builds: bool = False
    #: What builds may read besides the system, where that is known of the baseline's; None: what is the project's.
    build_reads: tuple[str, ...] | None = None

    @property
    def workload(self) -> Workload:
        """What is built and run."""
        return self.session.workload

    @property
    def work(self) -> Path:
        """The copy."""
        return self.folder / "run" / "work"


class Trial(msgspec.Struct, frozen=True):
    """How a run is unlike the workload's own."""

    #: None means the workload's.
    arguments: tuple[str, ...] | None = None
    #: New contents of files of the copy, by path within it.
    files: dict[str, bytes] = {}
    environment: dict[str, str] = {}
    #: In words.
    title: str = ""


def open_yard(
    session: Fenced, folder: Path, *, wide: bool = False, read: Sequence[str] = ()
) -> ProgramSandbox:
    """A sandbox with a copy of the working directory, or (`wide`) of the project, which may then be read too.

    `read`: what runs may read besides.

    Raises:
        InputError: the program is started by a wrapper, which no fence reaches through.
    """
    work = session.workload
    if work.wrapper:
        raise InputError(
            f"a program behind {work.wrapper[0]} cannot be fenced in", remedy="judge it without run.wrapper"
        )
    directory = Path(work.directory or Path(work.source).parent).resolve()
    root = Path(work.root).resolve() if work.root else directory
    copied = root if wide and directory.is_relative_to(root) else directory
    if folder.resolve().is_relative_to(copied) or holds_home(copied):
        raise InputError(
            f"{copied} holds more than the program's files, so no run gets a copy of it",
            remedy="give the program a working directory of its own, as a setting",
        )
    project = [str(root)] if wide and not holds_home(root) else []
    return ProgramSandbox(session, folder, copied, (*project, *_tools(session), *read))


def holds_home(path: Path) -> bool:
    """Whether a folder is, or is above, the user's home, where keys lie."""
    return Path.home().resolve().is_relative_to(path)


def _tools(session: Fenced) -> tuple[str, ...]:
    found = [tool for name in _TOOLS if (tool := session.toolchain.find(name)) is not None]
    folders = readable([path for tool in found for path in (tool.path, tool.root) if path], [])
    return tuple(path for path in folders if not holds_home(Path(path)))


def build_in(sandbox: ProgramSandbox, name: str, text: str, task: Task = UNATTENDED) -> None:
    """Build the program with the source's new text, fenced in, and keep it under `name`.

    Raises:
        as `build_program`.
    """
    work, place = sandbox.workload, sandbox.folder / "build"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    known = sandbox.build_reads
    read = None if sandbox.free_builds else _read_by_builds(sandbox) if known is None else known
    confinement = Confinement((str(place),), read, limits_of(sandbox.session.settings))
    try:
        build_program(
            work,
            toolchain=sandbox.session.toolchain,
            arch=sandbox.session.arch,
            folder=place,
            overlay=Overlay(work.source, text),
            timeout=sandbox.session.settings.compile_seconds,
            task=task,
            through=lambda command: die_with_parent(confined(command, confinement)),
        )
        shutil.rmtree(_kept(sandbox, name), ignore_errors=True)
        _kept(sandbox, name).parent.mkdir(parents=True, exist_ok=True)
        place.rename(_kept(sandbox, name))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _read_by_builds(sandbox: ProgramSandbox) -> tuple[str, ...]:
    work = sandbox.workload
    named = [Path(word) for word in work.build if Path(word).is_absolute()]
    includes = include_folders(flags_of(work).arguments)
    folders = [Path(work.root)] if work.root else []
    folders += [Path(work.unit).parent, Path(work.source).parent, *includes, *named]
    own = [str(path) for path in folders if path.exists() and not holds_home(path.resolve())]
    return (*_tools(sandbox.session), *readable([], own))


def require_fence() -> None:
    """Refuse to run candidates' host objects where nothing can hold them.

    Raises:
        InputError: this kernel closes neither files nor sockets to a process.
    """
    held = abilities()
    if not (held.files and held.network):
        raise InputError(
            "a rebuilt program is run behind a fence alone, which this system has not (Landlock, seccomp)",
            remedy="Linux 5.13 or later",
        )


def keep_built(sandbox: ProgramSandbox, name: str, program: Path) -> None:
    """Keep a program that is built already under `name`, with what lies beside it."""
    kept = _kept(sandbox, name)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    shutil.copy2(program, kept / "program")


def program_of(sandbox: ProgramSandbox, name: str) -> Path:
    """The file of a build that is kept."""
    return _kept(sandbox, name) / "program"


@contextmanager
def fenced_command(sandbox: ProgramSandbox, name: str) -> Iterator[Command]:
    """How a build is started behind the fence, once, in a fresh copy that is gone afterwards.

    Raises:
        InputError: the working directory cannot be copied.
    """
    _fresh(sandbox, Trial())
    try:
        with _in_place(sandbox, name) as build:
            yield _command(sandbox, build, Trial())
    finally:
        _remove(sandbox.folder / "run")


def probe_folder(sandbox: ProgramSandbox) -> Path:
    """Where a probe inside a run may write."""
    return sandbox.folder / "run" / "probe"


def forget(sandbox: ProgramSandbox, name: str) -> None:
    """Remove a build."""
    shutil.rmtree(_kept(sandbox, name), ignore_errors=True)


def _kept(sandbox: ProgramSandbox, name: str) -> Path:
    return sandbox.folder / "kept" / name


@contextmanager
def _in_place(sandbox: ProgramSandbox, name: str) -> Iterator[Path]:
    """The build, where it was built."""
    place = sandbox.folder / "build"
    _kept(sandbox, name).rename(place)
    try:
        yield place
    finally:
        place.rename(_kept(sandbox, name))


def observe(
    sandbox: ProgramSandbox,
    name: str,
    trial: Trial = Trial(),  # noqa: B008
    *,
    runner: Runner = run_program,
    task: Task = UNATTENDED,
) -> RunEffects:
    """Run a build in a fresh copy and see what it does. `runner` starts it and may look at more.

    Raises:
        InputError: the working directory cannot be copied.
        TimeLimitError: it ran longer than the workload's limit.
        MissingToolError, CancelledError: as named.
    """
    before = _fresh(sandbox, trial)
    with _in_place(sandbox, name) as build:
        command = _command(sandbox, build, trial)
        started = time.monotonic()
        result = _without_fence(
            runner(command, sandbox.workload.time_limit, task), started, sandbox.folder / "run"
        )
    try:
        files, read = written_since(sandbox.work, before)
    finally:
        _remove(sandbox.folder / "run")
    return RunEffects(result, files, read)


def _fresh(sandbox: ProgramSandbox, trial: Trial) -> dict[str, Stamp]:
    run = sandbox.folder / "run"
    _remove(run)
    run.mkdir(parents=True)
    copy_project(sandbox.copied, sandbox.work)
    for name in ("home", "probe"):
        (run / name).mkdir()
    for name in sandbox.gone:
        (sandbox.work / name).unlink(missing_ok=True)
    for name, data in trial.files.items():
        (sandbox.work / name).write_bytes(data)
    return stamps_of(sandbox.work)


def _remove(folder: Path) -> None:
    """Whatever modes a program gave its folders."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            with contextlib.suppress(OSError):
                if not (Path(path) / name).is_symlink():
                    (Path(path) / name).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _command(sandbox: ProgramSandbox, build: Path, trial: Trial) -> Command:
    """How the build is started: the workload's command, in the copy, behind the fence."""
    work = sandbox.workload
    if trial.arguments is not None:
        work = msgspec.structs.replace(work, arguments=trial.arguments)
    start = start_command(work, build / "program")
    words = [_moved(word, sandbox) for word in start.arguments]
    environment = {**_environment(sandbox, work), **trial.environment}
    settings = sandbox.session.settings
    seconds = math.ceil(work.time_limit * (os.cpu_count() or 1))
    limits = Limits(seconds, None, settings.outside_file_bytes)
    read = (*sandbox.read, str(build), *_named((*words, *environment.values())), *_folders(environment))
    confinement = Confinement((str(sandbox.folder / "run"),), read, limits, program=True)
    directory = Path(start.directory).resolve()
    return Command(
        confined(words, confinement),
        str(sandbox.work / directory.relative_to(sandbox.copied)),
        environment,
        inherits=False,
    )


def _environment(sandbox: ProgramSandbox, work: Workload) -> dict[str, str]:
    kept = {
        name: value
        for name, value in without_secrets(os.environ).items()
        if _KEPT.fullmatch(name) and not _LOST.fullmatch(name)
    }
    home = str(sandbox.folder / "run" / "home")
    own = {name: _moved(value, sandbox) for name, value in work.environment.items()}
    return {**kept, "HOME": home, "TMPDIR": home, **own}


def _moved(word: str, sandbox: ProgramSandbox) -> str:
    """A word with paths into the copied folder leading into the copy."""
    return re.sub(rf"{re.escape(str(sandbox.copied))}(?=/|$)", str(sandbox.work), word)


def _named(words: tuple[str, ...]) -> list[str]:
    """Files and folders that words of a command name, also as `--in=/a/b`."""
    paths = [Path(part) for word in words for part in (word, word.partition("=")[2]) if part.startswith("/")]
    return [str(path) for path in paths if path.exists() and not holds_home(path.resolve())]


def _folders(environment: Mapping[str, str]) -> list[str]:
    listed = [part for name in _FOLDERS for part in environment.get(name, "").split(":") if part]
    return [part for part in listed if not holds_home(Path(part).resolve())]


def _without_fence(result: ProgramRun, started: float, run: Path) -> ProgramRun:
    """The run as the program's own: from when it began, with what it printed into `run`."""
    began = result.stderr.strip()
    if not began.isdigit():
        raise ToolFailedError(f"sandbox setup failed ({began or 'no output'})")
    seconds = started + result.seconds - int(began) / 1e9
    stdout, stderr = (_printed(run / name) for name in OUTPUTS)
    return ProgramRun(result.status, max(seconds, 1e-9), stdout, stderr)


def _printed(path: Path) -> str:
    # a program may have removed its own output, or made something else of it
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(_MOST_PRINTED).decode("utf-8", errors="replace")
