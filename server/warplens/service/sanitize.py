# SPDX-License-Identifier: Apache-2.0
"""`check --sanitize`: compute-sanitizer's reports of a file's own program, on the file's lines."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens.service.report import FileReport, Report
from warplens.service.service import Service
from warplens.service.workloads import require_main, workload_of
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import load_gpu
from warplens_tools.collect.cache import work_folder
from warplens_tools.collect.sanitizer import RACES, TOOLS, Fault, examine
from warplens_tools.errors import CancelledError, MissingToolError, WarplensError
from warplens_tools.evidence import SourceLine, Unknown
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.build import build_program, start_command
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.run.probe.visit import Command, environment_of
from warplens_tools.toolchain.locate import Toolchain

#: A program under the tools takes some ten to a hundred times its own time.
SLOWER = 20


def with_faults(service: Service, report: Report, *, task: Task = UNATTENDED) -> Report:
    """The report with what compute-sanitizer says of each file's program; what it could not say is unknown.

    Raises:
        CancelledError: `task` was stopped.
    """
    files: list[FileReport] = []
    unknown = list(report.unknown)
    for file in report.files:
        try:
            faults, unseen = _faults(service, file.path, task)
        except CancelledError:
            raise
        except WarplensError as error:
            unseen = [Unknown(f"compute-sanitizer on {file.path}", str(error), error.remedy, failed=True)]
            faults = None
        files.append(msgspec.structs.replace(file, faults=faults))
        unknown += unseen
    return msgspec.structs.replace(report, files=tuple(files), unknown=tuple(dict.fromkeys(unknown)))


def _faults(service: Service, name: str, task: Task) -> tuple[tuple[Fault, ...] | None, list[Unknown]]:
    path = Path(name).absolute()
    loaded = service.settings_for(path)
    toolchain = service.toolchain(loaded.settings)
    toolchain.require("compute-sanitizer")
    gpu = load_gpu(None)
    if not gpu.present:
        raise MissingToolError("there is no GPU here to run the program on", remedy="run `warplens doctor`")
    unit = service.unit(path, loaded) or path
    require_main(path, unit, loaded)
    work = workload_of(path, unit, loaded)
    with work_folder() as folder:
        task.say(f"building {path.name}", None)
        built = build_program(work, toolchain=toolchain, arch=gpu.arch, folder=folder, task=task)
        start = start_command(work, built)
        limit = max(120.0, SLOWER * work.time_limit)
        found, unknown = _examined(start, gpu, toolchain, limit, task)
    return tuple(_on_lines_of(fault, name) for fault in found), unknown


def _examined(
    start: Command, gpu: Gpu, toolchain: Toolchain, time_limit: float, task: Task
) -> tuple[list[Fault], list[Unknown]]:
    found: list[Fault] = []
    unknown: list[Unknown] = []
    for number, tool in enumerate(TOOLS):
        task.say(f"compute-sanitizer: {tool}", number / len(TOOLS))
        try:
            with gpu_lock(gpu.uuid, f"running {tool}", task=task):
                found += examine(
                    tool,
                    start.arguments,
                    toolchain=toolchain,
                    cwd=Path(start.directory),
                    env=environment_of(start),
                    time_limit=time_limit,
                    task=task,
                ).faults
        except CancelledError:
            raise
        except WarplensError as error:
            unknown.append(Unknown(f"what {tool} sees", str(error), error.remedy, failed=True))
    return found, [*unknown, RACES]


def _on_lines_of(fault: Fault, path: str) -> Fault:
    return msgspec.structs.replace(
        fault,
        place=_here(fault.place, path) if fault.place is not None else None,
        others=tuple(_here(place, path) for place in fault.others),
    )


def _here(place: SourceLine, path: str) -> SourceLine:
    """The file itself by the name it was asked for; others as the line table names them."""
    return SourceLine(path, place.line) if Path(place.path).name == Path(path).name else place
