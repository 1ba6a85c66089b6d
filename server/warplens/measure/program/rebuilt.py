# SPDX-License-Identifier: Apache-2.0
"""The whole program rebuilt with a candidate's text, and the original beside it: both run behind the fence alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from warplens.measure.kernel.survey import survey
from warplens.measure.program.program_sandbox import (
    Fenced,
    ProgramSandbox,
    build_in,
    fenced_command,
    keep_built,
    observe,
    open_yard,
    probe_folder,
    program_of,
    require_fence,
)
from warplens.measure.program.whole import ROUNDING, ProgramRun, difference
from warplens_tools.errors import CompileError, InputError
from warplens_tools.process.task import Task
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.probe.visit import Command
from warplens_tools.run.workload import Workload

_ORIGINAL, _REBUILT = "original", "rebuilt"


class Rebuilt:
    """One candidate's program. `folder` belongs to it alone."""

    def __init__(
        self, session: Fenced, folder: Path, library: Path, reads: tuple[str, ...] | None = None
    ) -> None:
        """`library`: the probe's, which runs may load. `reads`: what the baseline's compilation has read, and the
        tools: a build may read that and what it links alone. A build command of the user's own may read everything,
        as where `reads` is None.

        Raises:
            InputError: programs cannot be fenced in here, or this one cannot.
        """
        require_fence()
        self._session, self._folder, self._library = session, folder, library
        self._reads = (
            None if session.workload.build or reads is None else (*reads, *_linked(session.workload))
        )
        self._sandbox = self._yard(wide=False)

    def _yard(self, *, wide: bool) -> ProgramSandbox:
        sandbox = open_yard(self._session, self._folder, wide=wide, read=(str(self._library.parent),))
        return msgspec.structs.replace(sandbox, free_builds=self._reads is None, build_reads=self._reads)

    def build(self, text: str, task: Task, *, original: str = "") -> Path:
        """Build the program with the source's new text; its file, which nobody runs. Raises as `build_program`.

        Where the `original` text does not build within what may be read either, everything may be.
        """
        try:
            build_in(self._sandbox, _REBUILT, text, task)
        except CompileError:
            if not original or self._builds(original, task):
                raise
            self._reads = None
            self._sandbox = self._yard(wide=False)
            build_in(self._sandbox, _REBUILT, text, task)
        return program_of(self._sandbox, _REBUILT)

    @property
    def reads_freely(self) -> bool:
        """Whether the build could read whatever it liked."""
        return self._reads is None

    def _builds(self, original: str, task: Task) -> bool:
        if self._reads is None:
            return True
        try:
            build_in(self._sandbox, _ORIGINAL, original, task)
        except CompileError:
            return False
        return True

    def settle(self, program: Path, original: str, plain: ProgramRun, task: Task) -> None:
        """Take the original in: `program` as it was built, or built anew from its text where it is built by a
        command of its own; `plain` is how it ran outside.

        Raises:
            InputError: it does not do the same behind the fence.
            CompileError, TimeLimitError, MissingToolError, CancelledError: as named.
        """
        strange = ""
        if self._session.workload.build:
            build_in(self._sandbox, _ORIGINAL, original, task)
        else:
            keep_built(self._sandbox, _ORIGINAL, program)
        for wide in (False, True):
            self._sandbox = self._yard(wide=wide)
            # what differs from run to run, a time that is printed, is not compared
            inside = [self.run(task, original=True) for _ in range(2)]
            strange = difference(inside, [plain], rounding=ROUNDING)
            if not strange:
                return
        how = strange.replace("the rebuilt program", "outside it").replace("the original", "inside")
        raise InputError(
            f"the program does not do the same behind a fence: {how}",
            remedy="name the files it reads in its arguments or its environment, and have it write in its folder",
        )

    def run(self, task: Task, *, original: bool = False) -> ProgramRun:
        """One run in a fresh copy of the working directory. Raises as `observe`."""
        return observe(self._sandbox, _ORIGINAL if original else _REBUILT, task=task).run

    def launches(self, time_limit: float, task: Task) -> tuple[SurveyedShape, ...]:
        """What the rebuilt program launches. Raises as `survey`."""
        with self.command() as command:
            return survey(command, self._library, probe_folder(self._sandbox), time_limit, task)

    @contextmanager
    def command(self) -> Iterator[Command]:
        """How the rebuilt program is started, once, for a tool that looks at it."""
        with fenced_command(self._sandbox, _REBUILT) as command:
            yield command


def _linked(workload: Workload) -> tuple[str, ...]:
    """Folders and files that the flags have a program linked with."""
    named = [word[2:] if word.startswith("-L") else word for word in workload.flags]
    return tuple(str(Path(word)) for word in named if Path(word).is_absolute() and Path(word).exists())
