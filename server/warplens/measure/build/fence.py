# SPDX-License-Identifier: Apache-2.0
"""Holds the builds of candidates to their own folder and to what the baseline was built from."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.evidence import BinaryEvidence, Unknown
from warplens_tools.process.guard import die_with_parent
from warplens_tools.run.build import include_folders
from warplens_tools.run.confine import Confinement, Limits, abilities, confined, readable
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain, ToolName

_TOOLS: tuple[ToolName, ...] = ("nvcc", "host_compiler", "cuda_headers")
#: Folders of include paths that a candidate may read anew: see `builds`.
_LIBRARIES = {"cutlass", "cute"}


def limits_of(settings: MeasureSettings) -> Limits:
    """What one process of a build may use."""
    return Limits(cpu_seconds=math.ceil(settings.compile_seconds), memory_bytes=settings.build_memory_bytes)


def around_program(folder: Path, settings: MeasureSettings) -> Callable[[Sequence[str]], Sequence[str]]:
    """The fence around a whole program's build in `folder`: its own command may read what it likes."""
    confinement = Confinement((str(folder),), None, limits_of(settings))
    return lambda command: _gently(confined(command, confinement))


def _gently(command: Sequence[str]) -> tuple[str, ...]:
    """After whatever else this machine does: several candidates compile while another is measured."""
    return die_with_parent(("nice", "-n", "10", *command))


class Fence:
    """Closes compilations in once it was told what the baseline's read."""

    def __init__(self, toolchain: Toolchain, flags: CompileFlags, settings: MeasureSettings) -> None:
        found = [tool for name in _TOOLS if (tool := toolchain.find(name)) is not None]
        self._tools = [path for tool in found for path in (tool.path, tool.root) if path]
        self._includes, self._limits = include_folders(flags.arguments), limits_of(settings)
        self._read: tuple[str, ...] | None = None
        self._also: tuple[str, ...] = ()
        self._doubted = False
        self._lock = threading.Lock()

    def learn(self, baseline: BinaryEvidence, linked: Sequence[str] = ()) -> None:
        """From here on only what this compilation read may be read, what it is linked with, the toolkit, CUTLASS."""
        libraries = [folder for folder in self._includes if any((folder / n).is_dir() for n in _LIBRARIES)]
        self._read = readable(self._tools, [*baseline.dependencies, *linked, *libraries, *self._also])

    def also(self, files: Sequence[str]) -> None:
        """These may be read as well: what only the baseline's host code includes."""
        with self._lock:
            self._also = tuple(files)
            if self._read is not None:
                self._read = readable((), [*self._read, *files])

    @property
    def reads(self) -> tuple[str, ...] | None:
        """What builds may read besides the system; None where that is not known, or let free."""
        return self._read

    def around(self, folder: Path) -> Callable[[Sequence[str | Path]], Sequence[str | Path]]:
        """What puts the fence around a command that may write in `folder`."""
        confinement = Confinement((str(folder),), self._read, self._limits)
        return lambda command: _gently(confined(command, confinement))

    def shuts_out(self, compiles: Callable[[], bool]) -> bool:
        """Whether the fence keeps the baseline itself from being compiled; then reading is let free.

        `compiles` compiles the baseline inside the fence; it is called at most once.
        """
        with self._lock:
            if not self._doubted and self._read is not None:
                self._doubted = True
                if not compiles():
                    self._read = None
            return self._read is None

    def unknown(self) -> tuple[Unknown, ...]:
        """What candidates' builds are not held to here, by name."""
        free = Unknown(
            "builds that read only what the baseline does", "its tools lie where the fence does not know"
        )
        return (*abilities().unknown(), *([free] if self._doubted and self._read is None else []))
