# SPDX-License-Identifier: Apache-2.0
"""The flags a unit is compiled with: its build's own, else configured ones, else defaults.

Kept is what changes the code: defines, include folders, language and floating-point options. Dropped is
what says where output goes, which architectures the build is for (kept apart), and linking.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from warplens_tools.evidence import CompilerMessage
from warplens_tools.toolchain.clang_flags import convert_clang, is_clang
from warplens_tools.toolchain.compile_commands import Command, find_command

DEFAULT_FLAGS = ("-std=c++17",)

#: Take a value as the next word; the value and the option are dropped.
_DROP_WITH_VALUE = {
    *("-o", "--output-file", "-odir", "--output-directory", "-MF", "--dependency-output", "-MT", "-MQ"),
    *("-l", "--library", "-L", "--library-path", "-Xlinker", "--linker-options", "-Xnvlink", "-Xarchive"),
    *("--dependency-target-name", "--keep-dir", "-keep-dir", "-x", "--x", "-t", "--threads", "--time"),
    *("-time", "-Werror", "--Werror", "-cudart", "--cudart", "-split-compile", "--split-compile"),
    *("-fdevice-time-trace", "--fdevice-time-trace", "-objtemp", "-run-args", "--run-args"),
}
_DROP = {
    *("-c", "--compile", "-dw", "-M", "-MM", "-MD", "-MMD", "-MP", "-MG", "-E", "--preprocess"),
    *("--generate-dependencies", "--generate-dependencies-with-compile", "--generate-dependency-targets"),
    *("--generate-nonsystem-dependencies", "--generate-nonsystem-dependencies-with-compile"),
    *("-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin", "-cuda", "--cuda", "-lib", "--lib"),
    *("-link", "--link", "-dlink", "--device-link", "-run", "--run", "-keep", "--keep", "-save-temps"),
    *("--save-temps", "-lineinfo", "--generate-line-info", "-v", "--verbose", "-dryrun", "--dryrun"),
    *("-shared", "--shared", "-g", "--debug", "-pg", "--profile", "-fPIC", "-clean", "--clean-targets"),
}
_ARCH_OPTIONS = {"-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code"}
#: Take a header that is read before all else.
_HEADER_OPTIONS = ("--pre-include", "-include")
#: Take a path, as the next word or joined; made absolute against the command's folder.
_PATH_OPTIONS = ("--include-path", "--system-include", "-isystem", "-I", *_HEADER_OPTIONS)
_KEEP_WITH_VALUE = {
    *("-D", "--define-macro", "-U", "--undefine-macro", "-std", "--std", "-Xcompiler", "--compiler-options"),
    *("-Xptxas", "--ptxas-options", "-Xcicc", "-Xcudafe", "-maxrregcount", "--maxrregcount", "-O"),
    *("--optimize", "-ftz", "--ftz", "-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt", "-fmad"),
    *("--fmad", "-rdc", "--relocatable-device-code", "-diag-suppress", "--diag-suppress", "-diag-error"),
    *("--diag-error", "-diag-warn", "--diag-warn", "-ccbin", "--compiler-bindir", "-default-stream"),
    *("--default-stream", "-dopt", "--dopt", "-Ofc", "--Ofast-compile", "-m", "--machine"),
    *(
        "-target-dir",
        "--target-directory",
        "-allow-unsupported-compiler",
        "-brief-diag",
        "--brief-diagnostics",
    ),
}
_SLOW_OPTIMISER = {"-O0", "--opt-level=0", "-O=0", "--opt-level", "0"}


_DEFINE = re.compile(r"(?:-D|--define-macro=)([A-Za-z_]\w*)(?:=(.*))?", re.DOTALL)
_UNDEFINE = re.compile(r"(?:-U|--undefine-macro=)([A-Za-z_]\w*)")


class CompileFlags(msgspec.Struct, frozen=True):
    """Flags for one unit, without output, source and architecture."""

    arguments: tuple[str, ...]
    #: e.g. "/p/build/compile_commands.json", "settings", "defaults".
    origin: str
    #: Folder the build runs the compiler in; "" for none.
    directory: str = ""
    #: Architectures the build names, e.g. ("sm_80", "sm_90"); "native" is kept as such.
    architectures: tuple[str, ...] = ()
    #: What to say before any finding: options that make the build's code differ from what is analysed.
    messages: tuple[CompilerMessage, ...] = ()

    @property
    def defines(self) -> dict[str, str]:
        """The object-like macros that the flags define for device code, name to body."""
        found: dict[str, str] = {}
        for word in self.arguments:
            define, undefine = _DEFINE.fullmatch(word), _UNDEFINE.fullmatch(word)
            if define:
                found[define[1]] = "1" if define[2] is None else define[2]
            elif undefine:
                found.pop(undefine[1], None)
        return found

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """The folders that headers are looked for in, as far as they are the user's."""
        words = iter(self.arguments)
        found: list[str] = []
        for word in words:
            option = next((o for o in ("-isystem", "--include-path", "-I") if word.startswith(o)), None)
            if option is not None:
                found.append(word.removeprefix(option).lstrip("=") or next(words, ""))
        return tuple(Path(self.directory, folder) for folder in found if folder)


def unit_flags(
    unit: Path,
    *,
    configured: Sequence[str] = (),
    root: Path | None = None,
    database: Path | None = None,
) -> CompileFlags:
    """The flags of `unit`: `compile_commands.json`, else `configured`, else the defaults.

    Args:
        configured: flags from the user's settings, as for nvcc; relative paths are against `root`.
        root: the workspace folder; the search for a database does not go above it.
        database: the `compile_commands.json` that counts, or its folder; searched for if None.

    Raises:
        InputError: a database or options file that was found cannot be read.
    """
    command = find_command(unit, root=root, database=database)
    if command is not None:
        return command_flags(command, unit)
    if configured:
        folder = str(root or unit.parent)
        return _reduce(tuple(configured), origin="settings", directory=folder, unit=unit)
    return CompileFlags(DEFAULT_FLAGS, "defaults")


def command_flags(command: Command, unit: Path) -> CompileFlags:
    """What of a build command matters for compiling its device code with nvcc."""
    words = _without_launcher(command.words)
    messages: list[CompilerMessage] = []
    if is_clang(words):
        words, unconverted = convert_clang(words)
        if unconverted:
            text = f"clang options with no nvcc counterpart were left out: {' '.join(unconverted)}"
            messages.append(_message("information", text, command.database))
    flags = _reduce(words, origin=command.database, directory=command.directory, unit=unit)
    return msgspec.structs.replace(flags, messages=(*messages, *flags.messages))


def foreign_target(flags: CompileFlags, arch: str) -> CompilerMessage | None:
    """What to say where the build is for other architectures than the one analysed; else None."""
    named = {name.rstrip("af") for name in flags.architectures}
    if not named or named & {arch.rstrip("af"), "native", "all", "all-major"}:
        return None
    targets = ", ".join(flags.architectures)
    return _message("warning", f"the build is for {targets}; analysed for {arch}", flags.origin)


def _without_launcher(words: tuple[str, ...]) -> tuple[str, ...]:
    """From the compiler on: ccache, sccache, `cmake -E env` and the like come before it."""
    for index, word in enumerate(words[:6]):
        name = Path(word).name
        if name.startswith(("nvcc", "clang", "cuda")) or name in ("c++", "g++"):
            return words[index + 1 :] if not name.startswith("clang") else words[index:]
    return words[1:]


def _reduce(words: tuple[str, ...], *, origin: str, directory: str, unit: Path) -> CompileFlags:
    reader = _Reader(Path(directory or unit.parent))
    reader.read(words)
    arguments, messages = _said_first(reader.kept, origin)
    return CompileFlags(
        arguments=tuple(arguments),
        origin=origin,
        directory=directory,
        architectures=tuple(dict.fromkeys(reader.architectures)),
        messages=tuple(messages),
    )


class _Reader:
    """Sorts the words of an nvcc command into kept flags and architectures."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kept: list[str] = []
        self.architectures: list[str] = []

    def read(self, words: Sequence[str]) -> None:
        rest = iter(words)

        def value(joined: str) -> str:
            return joined or next(rest, "")

        for word in rest:
            self._one(word, value)

    def _one(self, word: str, value: Callable[[str], str]) -> None:
        name, _, joined = word.partition("=")
        if name in _ARCH_OPTIONS:
            self.architectures += architectures_of(value(joined))
        elif word in ("-dc", "--device-c"):
            self.kept.append("-rdc=true")
        elif name in _DROP_WITH_VALUE:
            value(joined)
        elif word in _DROP or _drop_joined(word):
            return
        elif not self._path(word, value) and word.startswith("-"):
            self._keep(word, name, joined, value)

    def _path(self, word: str, value: Callable[[str], str]) -> bool:
        """Keep an option that names a path, made absolute; False where it names none."""
        for option in _PATH_OPTIONS:
            if word == option or word.startswith(option + "=") or (option == "-I" and word.startswith("-I")):
                path = value(word[len(option) :].removeprefix("="))
                self.kept += [option, self._placed(option, path)] if path else []
                return True
        return False

    def _placed(self, option: str, path: str) -> str:
        """A path of the command's folder; a header to read first is looked for there, then where all headers are."""
        here = os.path.normpath(self.directory / path)
        return path if option in _HEADER_OPTIONS and not Path(here).exists() else here

    def _keep(self, word: str, name: str, joined: str, value: Callable[[str], str]) -> None:
        if name in _KEEP_WITH_VALUE and not joined and word == name:
            self.kept.append(f"{name}={value('')}" if len(name) > 2 else f"{name}{value('')}")
        else:
            self.kept.append(word)


def _drop_joined(word: str) -> bool:
    """-lfoo, -L/dir, -o/x and dependency options given to the host compiler."""
    if word.startswith(("-l", "-L")) and not word.startswith("-lineinfo"):
        return True
    return word.startswith(("-Xcompiler=-M", "-Xcompiler=-o"))


def architectures_of(value: str) -> list[str]:
    """The targets an -arch, -code or -gencode value names: "arch=compute_90,code=[sm_90]" is ["sm_90"]."""
    codes = value.rsplit("code=", 1)[-1].removeprefix("arch=")
    names = codes.strip('[]"').replace('"', "").split(",")
    return [name.strip("[]").replace("compute_", "sm_") for name in names if name.strip("[]")]


def _said_first(kept: list[str], origin: str) -> tuple[list[str], list[CompilerMessage]]:
    """Take out options that switch the device optimiser off, and say so."""
    arguments: list[str] = []
    messages: list[CompilerMessage] = []
    for word in kept:
        name, _, value = word.partition("=")
        if word in ("-G", "--device-debug"):
            text = f"the build compiles with {word}, so its device code is not optimised; analysed without it"
            messages.append(_message("warning", text, origin))
        elif name in ("-Xptxas", "--ptxas-options", "-Xcicc") and _SLOW_OPTIMISER & set(value.split(",")):
            text = f"the build compiles with {name} {value}, so its device code is not optimised"
            messages.append(_message("warning", f"{text}; analysed without it", origin))
            others = [part for part in value.split(",") if part not in _SLOW_OPTIMISER]
            arguments += [f"{name}={','.join(others)}"] if others else []
        else:
            arguments.append(word)
            if word in ("-O0", "--optimize=0", "-O=0"):
                text = "the build compiles with -O0: host code is not optimised (device code is)"
                messages.append(_message("information", text, origin))
    return arguments, messages


def _message(severity: str, text: str, path: str) -> CompilerMessage:
    return CompilerMessage(
        severity="warning" if severity == "warning" else "information",
        text=text,
        path=path if Path(path).is_absolute() else "",
        code="build-option",
    )
