# SPDX-License-Identifier: Apache-2.0
"""A search whose candidates are judged elsewhere: ask, evaluate, tell, each a process of its own."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from warplens.agent.edits import text_hash
from warplens.agent.judging import JudgeSession
from warplens.agent.result import OptimizeResult
from warplens.measure.build.includes import uses_cutlass
from warplens.measure.exchange import (
    BASELINE,
    AwaitingError,
    Counted,
    Description,
    Exchange,
    FileJudge,
    evaluate,
)
from warplens.measure.judge_settings import Allowed
from warplens.service.library_build import built_for
from warplens.service.measured import counted_elsewhere, counted_here
from warplens.service.model import wants_counters
from warplens.service.optimize import (
    OpenJudge,
    OptimizeOptions,
    allowed_by,
    inputs_of,
    open_judge,
    optimize_file,
)
from warplens.service.report import FileReport
from warplens.service.service import Service
from warplens.service.specs import expecting
from warplens.service.workloads import require_main, workload_of
from warplens_tools.arch.load import load_gpu
from warplens_tools.decode import from_builtins
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.copy import copy_project
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText


class Standing(msgspec.Struct, frozen=True):
    """How far a search by files is: its result, or what it waits for."""

    result: OptimizeResult | None = None
    #: Names of the asks that wait for an answer.
    waiting: tuple[str, ...] = ()


def file_of(folder: Path, file: Path | None) -> Path:
    """The file that a search by files is about: as it is named now, else as it began.

    Raises:
        InputError: it has not begun, and no file is named; or it began with another.
    """
    exchange = Exchange(folder.absolute())
    if file is not None and not exchange.begun:
        return file
    began = Path(exchange.description().path)
    if file is not None and file.absolute() != began:
        raise InputError(
            f"the search in {folder} is about {began}", remedy="name a new folder for another file"
        )
    return began


def ask(
    service: Service, path: Path, folder: Path, options: OptimizeOptions, *, task: Task = UNATTENDED
) -> Standing:
    """Go on with the search in `folder`, which begins with the first call, and write what is to be measured next.

    Raises:
        InputError: the file or the folder cannot be used, or the file is not what the search began with.
        As `optimize_file`.
    """
    path, exchange = path.absolute(), Exchange(folder.absolute())
    if not exchange.begun:
        _begin(service, path, exchange, options, task)
    return _drive(service, path, exchange, options, task, asks=True)


def tell(
    service: Service, path: Path, folder: Path, options: OptimizeOptions, *, task: Task = UNATTENDED
) -> Standing:
    """Read the verdicts that are there. Raises as `ask`."""
    return _drive(service, path.absolute(), Exchange(folder.absolute()), options, task, asks=False)


def _begin(service: Service, path: Path, exchange: Exchange, options: OptimizeOptions, task: Task) -> None:
    inputs = inputs_of(service, path, options.arch, task=task)
    require_main(inputs.path, inputs.unit, inputs.loaded, options.kernel)
    root = Path(inputs.loaded.root)
    if not path.is_relative_to(root):
        root = path.parent
    exchange.folder.mkdir(parents=True, exist_ok=True)
    if any(exchange.folder.iterdir()):
        # what an earlier call left when it was killed
        if not _abandoned(exchange):
            raise InputError(f"{exchange.folder} is not empty", remedy="name a new folder")
        shutil.rmtree(exchange.project)
    task.say(f"copying {root}", None)
    copy_project(root, exchange.project, without=exchange.folder)
    given = {k: v for k, v in msgspec.to_builtins(options).items() if v is not None}
    description = Description(
        id=secrets.token_hex(8),
        source=path.relative_to(root).as_posix(),
        path=str(path),
        text_hash=text_hash(SourceText.read(path)),
        kernel=options.kernel,
        arch=options.arch,
        allowed=allowed_by(options, inputs.loaded),
        counters=wants_counters(inputs.loaded, options.model),
        options=given,
    )
    exchange.begin(description)


def _abandoned(exchange: Exchange) -> bool:
    names = {entry.name for entry in exchange.folder.iterdir()}
    return names <= {"project", "asks", "answers"} and "project" in names


def _drive(
    service: Service, path: Path, exchange: Exchange, options: OptimizeOptions, task: Task, *, asks: bool
) -> Standing:
    description = exchange.description()
    if text_hash(SourceText.read(path)) != description.text_hash:
        raise InputError(
            f"{path.name} is not the file that the search in {exchange.folder} began with",
            remedy="begin anew in another folder",
        )
    began = from_builtins(description.options, OptimizeOptions)
    options = msgspec.structs.replace(
        began,
        candidates=options.candidates or began.candidates,
        seconds=options.seconds or began.seconds,
        resume=True,
        name=description.id,
    )
    # counters are read by runs of the program, for which there is no card here
    counted = _counted(service, path, exchange, options.arch, task)
    inputs = msgspec.structs.replace(
        inputs_of(service, path, options.arch, task=task),
        measured=lambda *_: counted,
        card=exchange.card(),
        counted=counted,
    )
    try:
        result = optimize_file(
            inputs, options, task=task, judge=_opened(FileJudge(exchange, asks=asks)), elsewhere=True
        )
    except AwaitingError as error:
        return Standing(waiting=error.waiting)
    return Standing(result)


def _counted(service: Service, path: Path, exchange: Exchange, arch: str, task: Task) -> FileReport | None:
    answered = exchange.answer(BASELINE)
    if answered is None or answered.baseline is None or answered.counted is None:
        return None
    return counted_elsewhere(service, path, answered.baseline.kernel, arch, answered.counted, task)


def _opened(judge: FileJudge) -> OpenJudge:
    @contextmanager
    def opened(workload: Workload, kernel: str, arch: str, allowed: Allowed) -> Iterator[JudgeSession]:
        del workload, kernel, arch, allowed
        yield judge

    return opened


def answer(folder: Path, *, task: Task = UNATTENDED, judge: OpenJudge = open_judge) -> int:
    """Measure all that waits in `folder`, on this machine's card; how many asks were answered.

    Raises:
        InputError: the folder holds no exchange, or another process evaluates it.
        MissingToolError: nothing can be measured here.
        As the judge's methods.
    """
    exchange = Exchange(folder.absolute())
    description = exchange.description()
    source = (exchange.project / description.source).resolve()
    if not source.is_relative_to(exchange.project.resolve()):
        raise InputError(f"{description.source} is not in the project of {folder}")
    with exchange.alone():
        if not exchange.waiting():
            return 0
        service = Service(exchange.project)
        loaded = service.settings_for(source)
        unit = service.unit(source, loaded) or source
        workload = workload_of(source, unit, loaded, description.kernel)
        gpu = load_gpu(loaded.settings.architecture or None)
        workload, arch = built_for(workload, description.arch, gpu.arch, _versions(exchange, source))
        description = msgspec.structs.replace(description, arch=arch)
        arch = arch or gpu.arch
        workload = expecting(workload, source, loaded, description.kernel, arch, task=task)

        def count(kernel: str) -> Counted | None:
            return counted_here(service, source, kernel, task) if description.counters else None

        with judge(workload, description.kernel, description.arch, description.allowed) as session:
            card = gpu if gpu.present else None
            return evaluate(exchange, session, str(source), card=card, count=count, task=task)


def _versions(exchange: Exchange, source: Path) -> Iterator[str]:
    """Texts of the candidates that wait."""
    text = SourceText.read(source)
    if uses_cutlass(text.text):
        return
    for name in exchange.waiting():
        if name != BASELINE:
            with suppress(InputError):
                yield text.apply(list(exchange.candidate(name).edits)).text
