# SPDX-License-Identifier: Apache-2.0
"""Has the compiler split a unit into host and device code, as it does to build it: nvcc's own first two steps.

nvcc says with `--dryrun` how it would preprocess for the host and call cudafe++; these two commands are run, in
the fence where the text is a candidate's, and nothing is compiled.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from warplens.measure.build.host_gate import HostGate, HostSide, take_apart
from warplens.measure.build.host_tokens import read_host
from warplens_tools.errors import CompileError, ToolFailedError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.run import run
from warplens_tools.run.build import Overlay, place
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.messages import parse_messages

Through = Callable[[Sequence[str | Path]], Sequence[str | Path]]
_SETTING = re.compile(r"([A-Z_]+)=(.*)")
_MARKER = re.compile(rb'^# \d+ "([^"<][^"]*)"', re.MULTILINE)
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

    def gate(self, text: str, folder: Path, through: Through, cancel: CancelToken | None) -> HostGate:
        """The gate that compares with `text`. Raises as `split`."""
        headers = self._toolchain.find("cuda_headers")
        system = tuple({headers.path, str(Path(headers.path).resolve())}) if headers is not None else ()

        def moved() -> HostSide | None:
            try:
                return self.split("\n" + text, folder, through, cancel)
            except (CompileError, ToolFailedError):
                return None

        return HostGate(self.split(text, folder, through, cancel), moved, system)

    def split(
        self,
        text: str,
        folder: Path,
        through: Through,
        cancel: CancelToken | None,
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
        script = self._script(command, place_of, cancel)
        done = run(
            through(["/bin/sh", "-c", script]),
            cwd=self._directory,
            env=tool_environment(place_of),
            timeout=self._timeout,
            cancel=cancel,
        )
        written = next(iter(place_of.glob("*.cudafe1.cpp")), None)
        if done.status != 0 or written is None:
            output = done.stderr + done.stdout
            messages = parse_messages(output, directory=self._directory)
            said = next(
                (m.text for m in messages if m.severity == "error"), output.strip()[-200:] or "no output"
            )
            raise CompileError(
                f"the host side cannot be told: {said}",
                status=done.status,
                output=output,
                messages=tuple(messages),
            )
        # within a place of its own, so that texts at different places are alike
        read = written.read_text("utf-8", errors="replace").replace(str(folder), "")
        return take_apart(read_host(read, like.host if like is not None else None), like)

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

    def _script(self, command: Sequence[str], folder: Path, cancel: CancelToken | None) -> str:
        done = run(command, cwd=self._directory, env=tool_environment(folder), timeout=_SAYING, cancel=cancel)
        lines = [line.removeprefix("#$ ") for line in done.stderr.splitlines() if line.startswith("#$ ")]
        steps = [line for line in lines if _splits(line)]
        if done.status != 0 or len(steps) != 2:
            raise ToolFailedError(
                "nvcc does not say how it splits host and device code", status=done.status, output=done.stderr
            )
        settings = [
            f"export {match[1]}={shlex.quote(match[2])}"
            for line in lines
            if (match := _SETTING.fullmatch(line)) is not None and match[1] in ("PATH", "LD_LIBRARY_PATH")
        ]
        return "\n".join(["set -e", *settings, *steps])

    def dependencies(self, folder: Path) -> tuple[str, ...]:
        """The files that the last split in `folder` read."""
        found: dict[str, None] = {}
        for text in (folder / "host").glob("*.cpp4.ii"):
            for marker in _MARKER.findall(text.read_bytes()):
                path = os.path.normpath(self._directory / os.fsdecode(marker))
                found[path] = None
        ours = str(folder) + os.sep
        return tuple(path for path in found if not path.startswith(ours) and Path(path).is_file())


def _splits(line: str) -> bool:
    """Whether this is the host's preprocessing or cudafe++'s call."""
    return bool(re.match(r'"?(?:\S*/)?cudafe\+\+"? ', line)) or bool(re.search(r'-o "[^"]*\.cpp4\.ii"', line))
