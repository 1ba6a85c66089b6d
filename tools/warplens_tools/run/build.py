# SPDX-License-Identifier: Apache-2.0
"""Builds a workload's program, as it is or with one file's text replaced, outside the user's tree."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from warplens_tools.errors import CompileError, InputError
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import Completed, run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.copy import copy_project
from warplens_tools.run.probe.visit import Command
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.flags import CompileFlags, unit_flags
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.messages import parse_messages

_OPERATORS = {"&&", "||", ";", "|"}
#: Names of variables that hold credentials.
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|AUTH|COOKIE", re.IGNORECASE)
_SEVERAL_UNITS = (
    "where the program has several units, say in warplens.toml how all are built: [[program]] source, build"
)


class Overlay(msgspec.Struct, frozen=True):
    """Another text for one file. `path` is absolute."""

    path: str
    text: str


class Placed(msgspec.Struct, frozen=True):
    """A unit to compile in place of the user's, and the options that make its includes resolve."""

    unit: str
    options: tuple[str, ...]


def flags_of(workload: Workload) -> CompileFlags:
    """The flags the workload's unit is compiled with.

    Raises:
        InputError: a compilation database that was found cannot be read.
    """
    database = Path(workload.compile_commands) if workload.compile_commands else None
    return unit_flags(Path(workload.unit), configured=workload.flags, database=database)


def place(overlay: Overlay | None, unit: Path, arguments: Sequence[str], folder: Path) -> Placed:
    """Lay the overlaid file out in `folder` so that `unit` sees it in place of the user's.

    A header is laid where each include folder, and the unit's own, would find it: the overlaid folders
    are searched first. A header that another unchanged header includes from its own folder is not reached.
    """
    if overlay is None:
        return Placed(str(unit), ())
    source = Path(overlay.path)
    folder.mkdir(parents=True, exist_ok=True)
    quoted = folder / unit.name
    text = overlay.text if source == unit else unit.read_text("utf-8", errors="replace")
    # the directive gives messages and line tables the file's own name
    quoted.write_text(f'#line 1 "{unit}"\n{text}', encoding="utf-8", newline="")
    # what the unit, and an overlaid header, include from their own folders is still found there
    options = [f'-Xcompiler=-iquote,"{home}"' for home in dict.fromkeys([unit.parent, source.parent])]
    if source != unit:
        options = [*_place_header(overlay, unit, arguments, folder), *options]
    return Placed(str(quoted), tuple(options))


def _place_header(overlay: Overlay, unit: Path, arguments: Sequence[str], folder: Path) -> list[str]:
    source, options = Path(overlay.path), []
    text = f'#line 1 "{source}"\n{overlay.text}'
    includes = [unit.parent, *include_folders(arguments)]
    for number, include in enumerate(includes):
        if not source.is_relative_to(include):
            continue
        root = folder if number == 0 else folder / f"include-{number}"
        target = root / source.relative_to(include)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
        if number:
            options.append(f"-I{root}")
    if not options and not source.is_relative_to(unit.parent):
        raise InputError(f"{source} is not under an include folder of {unit}, so it cannot be replaced")
    return options


def include_folders(arguments: Sequence[str]) -> list[Path]:
    """The folders that compile flags name for includes."""
    folders = []
    for index, word in enumerate(arguments):
        if word in ("-I", "--include-path", "-isystem", "--system-include"):
            folders += [Path(p) for p in arguments[index + 1 : index + 2]]
        elif word.startswith("-I"):
            folders.append(Path(word[2:]))
    return folders


def build_program(
    workload: Workload,
    *,
    toolchain: Toolchain,
    arch: str,
    folder: Path,
    overlay: Overlay | None = None,
    timeout: float | None = None,
    task: Task = UNATTENDED,
    through: Callable[[Sequence[str]], Sequence[str]] = die_with_parent,
) -> Path:
    """Build the program into `folder` (made by this call) and give its path.

    `through` makes of the build's command the one that is run, e.g. with a sandbox in front.

    Raises:
        InputError: the build command leaves no program at {output}, or cannot build an edited file.
        MissingToolError: no compiler.
        CompileError: the build failed; carries its messages.
        TimeLimitError, CancelledError: as named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "program"
    flags = flags_of(workload)
    if workload.build:
        command = _own(workload, overlay, flags, arch, folder)
        environment = {
            **_environment(workload, overlay),
            "TMPDIR": str(folder),
            **_variables(workload, output),
        }
        directory = folder
    else:
        placed = place(overlay, Path(workload.unit), flags.arguments, folder / "source")
        command = nvcc_command(workload, toolchain, flags, placed, output, arch)
        environment = tool_environment(folder)
        directory = Path(flags.directory) if flags.directory else Path(workload.unit).parent
    done = run(through(command), cwd=directory, env=environment, timeout=timeout, task=task)
    if done.status != 0:
        raise _failed(done, directory, workload.root, folder)
    if not output.is_file():
        raise InputError(
            f"the build command left no program at {output}",
            remedy="write the program to {output} in the build command",
        )
    return output


def _environment(workload: Workload, overlay: Overlay | None) -> dict[str, str]:
    kept = without_secrets(os.environ)
    if overlay is None or any("{root}" in word for word in workload.build):
        return kept
    # an edited {source} lies elsewhere; what it includes from its own folder is still found there
    homes = dict.fromkeys([Path(workload.unit).parent, Path(overlay.path).parent])
    options = " ".join(f'-Xcompiler=-iquote,"{home}"' for home in homes)
    return {**kept, "NVCC_APPEND_FLAGS": f"{kept.get('NVCC_APPEND_FLAGS', '')} {options}".strip()}


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what a build does not need to know and its output could give away."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name)}


def _own(
    workload: Workload, overlay: Overlay | None, flags: CompileFlags, arch: str, folder: Path
) -> list[str]:
    """The user's own build command, on a copy of the project where it asks for {root}."""
    text = " ".join(workload.build)
    if "{root}" in text:
        unit = str(_copy(workload, overlay, folder / "root"))
    elif "{source}" in text or overlay is None:
        unit = place(overlay, Path(workload.unit), flags.arguments, folder / "source").unit
    else:
        raise InputError(
            f"the build command would not build an edited file: {shlex.join(workload.build)}",
            remedy="name the file as {source}, or the project as {root}, in the build command",
        )
    filled = {
        "source": unit,
        "output": str(folder / "program"),
        "arch": arch,
        "root": str(folder / "root"),
        "folder": str(folder),
    }
    words = _fill(workload.build, filled)
    if not _OPERATORS & set(words):
        return words
    # the settings' command is one line, as it is typed in a shell
    return ["sh", "-ec", " ".join(word if word in _OPERATORS else shlex.quote(word) for word in words)]


def _copy(workload: Workload, overlay: Overlay | None, to: Path) -> Path:
    """Copy the project with the file's new text in it; the unit's path there."""
    root, source = Path(workload.root), Path(overlay.path if overlay is not None else workload.source)
    for path in (source, Path(workload.unit)):
        if not workload.root or not path.is_relative_to(root):
            raise InputError(f"{path} is not in the project folder {workload.root or '(none)'}")
    copy_project(root, to)
    text = overlay.text if overlay is not None else source.read_text("utf-8", errors="replace")
    target = to / source.relative_to(root)
    # messages and line tables name the user's own file
    target.write_text(f'#line 1 "{source}"\n{text}', encoding="utf-8", newline="")
    return to / Path(workload.unit).relative_to(root)


def _fill(words: Sequence[str], filled: Mapping[str, str]) -> list[str]:
    try:
        return [word.format(**filled) for word in words]
    except (KeyError, IndexError, ValueError) as error:
        names = ", ".join(f"{{{name}}}" for name in filled)
        raise InputError(
            f"the build command has a placeholder that means nothing: {shlex.join(words)}",
            remedy=f"use {names}; write a brace twice to mean itself",
        ) from error


def nvcc_command(
    workload: Workload, toolchain: Toolchain, flags: CompileFlags, placed: Placed, output: Path, arch: str
) -> list[str]:
    """How nvcc builds the program of one unit. Raises MissingToolError where there is no compiler."""
    toolchain.require("host_compiler")
    language = [] if Path(workload.unit).suffix == ".cu" else ["-x", "cu"]
    libraries = [word for word in workload.flags if word.startswith(("-l", "-L"))]
    nvcc = toolchain.require("nvcc").path
    options = [f"-arch={arch}", "-lineinfo", *placed.options, *flags.arguments]
    return [nvcc, *options, *language, placed.unit, "-o", str(output), *libraries]


def _failed(done: Completed, directory: Path, root: str, folder: Path) -> CompileError:
    output = (done.stderr + done.stdout).replace(str(folder / "root"), root or str(folder / "root"))
    messages = parse_messages(output, directory=directory)
    first = next((m for m in messages if m.severity == "error"), None)
    said = first.text if first is not None else next(iter(output.strip().splitlines()[-1:]), "no output")
    elsewhere = re.search(r"undefined reference to|Undefined reference to|Unresolved extern", output)
    return CompileError(
        f"the program does not build: {said}",
        remedy=_SEVERAL_UNITS if elsewhere else "",
        status=done.status,
        output=output,
        messages=tuple(messages),
    )


def start_command(workload: Workload, program: Path) -> Command:
    """How the built program is started: in its command, arguments and environment `{program}` (as in the build
    command: `{output}`) names what was built, `{folder}` the folder it lies in.

    Raises:
        InputError: the working directory does not exist.
    """
    words = [_named(word, program) for word in workload.command] or [str(program)]
    directory = workload.directory or str(Path(workload.source).parent)
    if not Path(directory).is_dir():
        raise InputError(f"the working directory {directory} does not exist")
    arguments = (*workload.wrapper, *words, *(_named(word, program) for word in workload.arguments))
    return Command(arguments, directory, _variables(workload, program))


def _variables(workload: Workload, program: Path) -> dict[str, str]:
    return {name: _named(value, program) for name, value in workload.environment.items()}


def _named(word: str, program: Path) -> str:
    # other braces are the user's own, as in JSON
    for name, path in (("{program}", program), ("{output}", program), ("{folder}", program.parent)):
        word = word.replace(name, str(path))
    return word
