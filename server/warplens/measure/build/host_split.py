# SPDX-License-Identifier: Apache-2.0
"""Has the compiler split a unit into host and device code, as it does to build it: nvcc's own steps for the host.

nvcc says with `--dryrun` how it would preprocess for the host and call cudafe++; these two commands are run, in
the fence where the text is a candidate's. What they write is compiled to a winner's host object, which nobody runs.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from warplens.measure.build.host_gate import HostGate, HostSide, take_apart
from warplens.measure.build.host_object import HostObject, read_object
from warplens.measure.build.host_tokens import HostTokens, Replacement, alike, read_host, replaced
from warplens.measure.build.nvcc_steps import script_of, steps_said
from warplens_tools.errors import CompileError, ToolFailedError
from warplens_tools.process.run import run
from warplens_tools.process.task import Task
from warplens_tools.run.build import Overlay, place
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.messages import parse_messages

Through = Callable[[Sequence[str | Path]], Sequence[str | Path]]
#: Settings of nvcc that its steps need here.
_KEPT = ("PATH", "LD_LIBRARY_PATH")
_MARKER = re.compile(rb'^# \d+ "([^"<][^"]*)"', re.MULTILINE)
_TEXT = re.compile(r'"[^"]*\.cudafe1\.cpp"')
_OUTPUT = re.compile(r'\s-o\s+"[^"]*"')
#: Appended to the host compiler's flags: one section for each function and variable, constants by their value.
_PLAIN = "-O0 -g0 -w -fno-lto -ffunction-sections -fdata-sections -fmerge-constants -frandom-seed=warplens"
#: Seconds for nvcc to say what it would do.
_SAYING = 30.0


class HostSplit:
    """Splits one workload's unit with texts in place of its file's."""

    def __init__(
        self,
        unit: Path,
        source: Path,
        *,
        toolchain: Toolchain,
        flags: CompileFlags,
        arch: str,
        timeout: float,
    ) -> None:
        self._unit, self._source = unit, source
        self._toolchain, self._flags, self._arch, self._timeout = toolchain, flags, arch, timeout

    def gate(self, text: str, folder: Path, through: Through, task: Task) -> HostGate:
        """The gate that compares with `text`. Raises as `split`."""
        headers = self._toolchain.find("cuda_headers")
        system = tuple({headers.path, str(Path(headers.path).resolve())}) if headers is not None else ()

        def moved() -> HostSide | None:
            try:
                return self.split("\n" + text, folder / "moved", through, task)
            except (CompileError, ToolFailedError):
                return None

        return HostGate(self.split(text, folder, through, task), moved, system)

    def split(
        self,
        text: str,
        folder: Path,
        through: Through,
        task: Task,
        like: HostSide | None = None,
    ) -> HostSide:
        """The unit's host side with `text` as the source's; `folder` takes what the compiler writes.

        Raises:
            CompileError: the compiler's front end rejects it.
            ToolFailedError: nvcc does not say how it works.
            TimeLimitError, CancelledError: as named.
        """
        place_of = folder / "host"
        place_of.mkdir(parents=True, exist_ok=True)
        placed = place(Overlay(str(self._source), text), self._unit, self._flags.arguments, folder / "source")
        options = [f"-I{folder / 'source'}"] if self._source != self._unit else []
        command = self._command([*options, *placed.options], placed.unit, place_of)
        said = self._dryrun(command, place_of, task)
        self._run(script_of(said, [line for line in said if _splits(line)], _KEPT), place_of, through, task)
        return take_apart(read_host(_written(folder), like.host if like is not None else None), like)

    def compiled(
        self,
        folder: Path,
        host: HostTokens,
        replacements: Sequence[Replacement],
        through: Through,
        task: Task,
    ) -> HostObject:
        """The host object of what was split in `folder` and read as `host`, with other tokens in some places.

        It is compiled as nvcc would, but without optimisation, so that every function stands for itself, and without
        the registration of device code, which nvcc writes. It is never linked, nor run.

        Raises:
            as `split`.
        """
        place_of = folder / "object"
        place_of.mkdir(parents=True, exist_ok=True)
        text = place_of / "unit.cpp"
        text.write_text(replaced(alike(_written(folder)), host, replacements), "utf-8")
        (written,) = (folder / "host").glob("*.cudafe1.cpp")
        # what cudafe++'s text includes at its end
        (place_of / written.name.replace(".cudafe1.cpp", ".cudafe1.stub.c")).write_text("")
        command = self._command([], str(self._unit), place_of)
        said = self._dryrun(command, place_of, task)
        steps = [_OUTPUT.sub("", _TEXT.sub(shlex.quote(str(text)), line)) for line in said if _compiles(line)]
        target = place_of / "unit.o"
        self._run(
            script_of(said, [f"{step} {_PLAIN} -o {shlex.quote(str(target))}" for step in steps], _KEPT),
            place_of,
            through,
            task,
        )
        return read_object(target.read_bytes())

    def _run(self, script: str, folder: Path, through: Through, task: Task) -> None:
        done = run(
            through(["/bin/sh", "-c", script]),
            cwd=self._directory,
            env=tool_environment(folder),
            timeout=self._timeout,
            task=task,
        )
        if done.status == 0:
            return
        output = done.stderr + done.stdout
        messages = parse_messages(output, directory=self._directory)
        said = next((m.text for m in messages if m.severity == "error"), output.strip()[-200:] or "no output")
        raise CompileError(
            f"the host side cannot be told: {said}",
            status=done.status,
            output=output,
            messages=tuple(messages),
        )

    @property
    def _directory(self) -> Path:
        directory = self._flags.directory
        return Path(directory) if directory and Path(directory).is_dir() else self._unit.parent

    def _command(self, options: Sequence[str], unit: str, folder: Path) -> list[str]:
        nvcc = self._toolchain.require("nvcc").path
        language = [] if self._unit.suffix == ".cu" else ["-x", "cu"]
        keep = ["--dryrun", "--keep", "--keep-dir", str(folder)]
        return [
            *(nvcc, "-c", f"-arch={self._arch}", *keep, *options, *self._flags.arguments, *language, unit),
            *("-o", str(folder / "unit.o")),
        ]

    def _dryrun(self, command: Sequence[str], folder: Path, task: Task) -> list[str]:
        """What nvcc would do: settings and commands, a line each."""
        done = run(command, cwd=self._directory, env=tool_environment(folder), timeout=_SAYING, task=task)
        lines = steps_said(done.stderr)
        steps = [_splits(line) for line in lines].count(True), [_compiles(line) for line in lines].count(True)
        if done.status != 0 or steps != (2, 1):
            raise ToolFailedError(
                "nvcc does not say how it splits host and device code", status=done.status, output=done.stderr
            )
        return lines

    def dependencies(self, folder: Path) -> tuple[str, ...]:
        """The files that the last split in `folder` read."""
        found: dict[str, None] = {}
        for text in (folder / "host").glob("*.cpp4.ii"):
            for marker in _MARKER.findall(text.read_bytes()):
                path = os.path.normpath(self._directory / os.fsdecode(marker))
                found[path] = None
        ours = str(folder) + os.sep
        return tuple(path for path in found if not path.startswith(ours) and Path(path).is_file())


def _written(folder: Path) -> str:
    """What cudafe++ wrote of the last split in `folder`; without the folder, so that texts elsewhere are alike.

    Raises:
        ToolFailedError: it wrote nothing.
    """
    written = next(iter((folder / "host").glob("*.cudafe1.cpp")), None)
    if written is None:
        raise ToolFailedError("cudafe++ wrote no host code", status=0, output="")
    return written.read_text("utf-8", errors="replace").replace(str(folder), "")


def _splits(line: str) -> bool:
    """Whether this is the host's preprocessing or cudafe++'s call."""
    return bool(re.match(r'"?(?:\S*/)?cudafe\+\+"? ', line)) or bool(re.search(r'-o "[^"]*\.cpp4\.ii"', line))


def _compiles(line: str) -> bool:
    """Whether this compiles the host side."""
    return " -c -x c++ " in line and _TEXT.search(line) is not None
