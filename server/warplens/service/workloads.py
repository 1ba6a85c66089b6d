# SPDX-License-Identifier: Apache-2.0
"""From a file and the settings to the program that runs its kernels."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePath

from warplens.service.specs import generated, specs_of
from warplens.settings import Loaded, Program
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import unit_flags


def workload_of(path: Path, unit: Path, loaded: Loaded, kernel: str = "") -> Workload:
    """How the program that launches the kernels of `path` is built and run: the first `program` that matches, else
    what is generated from its launch specs (of `kernel` alone where one is named), else the unit itself.

    `unit` is the translation unit the file is compiled in, itself for a `.cu`; both paths are absolute.

    Raises:
        InputError: a command in the settings, the compile database or a launch spec cannot be used.
    """
    settings, root = loaded.settings, loaded.root
    matching = _program(path, unit, loaded)
    program = matching or Program(source="")
    flags = unit_flags(
        unit, configured=settings.flags, root=loaded.bound, database=settings.database
    ).arguments
    # What is linked counts for the program alone; compile flags leave it out.
    libraries = tuple(word for word in settings.flags if word.startswith(("-l", "-L")))
    directory = Path(root, program.directory) if program.directory else path.parent
    workload = Workload(
        source=str(path),
        unit=str(unit),
        # {root} in a build is a copy of the folder, see `Workload`
        build=_words(program.build, "{root}"),
        flags=(*flags, *libraries),
        command=_words(program.command, root),
        arguments=program.arguments,
        wrapper=program.wrapper,
        directory=str(directory),
        environment=program.environment,
        time_limit=program.time_limit,
        launch=program.launch,
        every_shape=program.every_shape,
        root=root,
        compile_commands=settings.compile_commands,
    )
    specs = specs_of(path, loaded, kernel) if matching is None else ()
    return generated(workload, specs) if specs else workload


def require_main(path: Path, unit: Path, loaded: Loaded, kernel: str = "") -> None:
    """Refuse a file whose program is not known.

    Raises:
        InputError: no `program` of the settings builds or starts it, no launch spec says how its kernels (`kernel`
            where one is named) are launched, and its unit has no `main`.
    """
    program = _program(path, unit, loaded)
    if program is not None and (program.build or program.command):
        return
    if program is None and specs_of(path, loaded, kernel):
        return
    if not parse(SourceText.read(unit), str(unit)).has_main:
        raise InputError(
            f"{unit.name} has no main, so it cannot be run as a program",
            remedy="say in warplens.toml how the program is built and started ([[program]] source, build, command), or "
            f"how the kernel is launched: warplens spec {path.name} writes a first launch spec",
        )


def _program(path: Path, unit: Path, loaded: Loaded) -> Program | None:
    return next((p for p in loaded.settings.program if any(_names(p, x, loaded) for x in (path, unit))), None)


def _names(program: Program, path: Path, loaded: Loaded) -> bool:
    if not path.is_relative_to(loaded.root):
        return path.as_posix() == program.source
    relative = PurePath(path.relative_to(loaded.root))
    return relative.match(program.source) or str(relative) == program.source


def _words(command: str, root: str) -> tuple[str, ...]:
    try:
        return tuple(word.replace("{root}", root) for word in shlex.split(command))
    except ValueError as error:
        raise InputError(
            f"the command `{command}` does not parse: {error}", remedy="see docs/settings.md"
        ) from error
