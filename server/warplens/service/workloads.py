"""From a file and the settings to the program that runs its kernels."""

from __future__ import annotations

import fnmatch
import shlex
from pathlib import Path

from warplens.settings import Loaded, Program
from warplens_tools.errors import InputError
from warplens_tools.run.workload import Workload
from warplens_tools.source.model import SourceModel


def workload_of(path: Path, model: SourceModel, loaded: Loaded) -> Workload:
    """How to run the kernels of `path`: a `[[program]]` of the settings that names it, else its own `main`.

    Raises:
        InputError: the settings name no program for it and it has no `main`.
    """
    source = path.absolute()
    root = Path(loaded.root)
    for program in loaded.settings.program:
        if _names(program, source, root):
            return _configured(program, source, loaded)
    if not model.has_main:
        raise InputError(
            f"{path.name} has no main, and no program that runs it is known",
            remedy="add a [[program]] with its source, build and command to warplens.toml",
        )
    return Workload(source=str(source), unit=str(source), flags=loaded.settings.flags)


def _names(program: Program, source: Path, root: Path) -> bool:
    relative = source.relative_to(root).as_posix() if source.is_relative_to(root) else source.as_posix()
    return fnmatch.fnmatch(relative, program.source) or fnmatch.fnmatch(source.as_posix(), program.source)


def _configured(program: Program, source: Path, loaded: Loaded) -> Workload:
    root = loaded.root
    directory = str(Path(root) / program.directory) if program.directory else ""
    return Workload(
        source=str(source),
        unit=str(source),
        build=_words(program.build, root),
        flags=loaded.settings.flags,
        command=_words(program.command, root),
        arguments=program.arguments,
        wrapper=program.wrapper,
        directory=directory,
        environment=program.environment,
        time_limit=program.time_limit,
    )


def _words(command: str, root: str) -> tuple[str, ...]:
    try:
        return tuple(word.replace("{root}", root) for word in shlex.split(command))
    except ValueError as error:
        raise InputError(f"the command {command!r} in the settings cannot be split: {error}") from error
