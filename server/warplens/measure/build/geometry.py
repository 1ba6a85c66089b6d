# SPDX-License-Identifier: Apache-2.0
"""The launch geometry of candidates whose host code computes a new one: the rebuilt program is asked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from warplens.measure.build.allowed import host_text
from warplens.measure.build.candidates import Built
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.survey import paired, survey
from warplens.measure.program.program_sandbox import (
    ProgramSandbox,
    build_in,
    fenced_command,
    open_yard,
    probe_folder,
    require_fence,
)
from warplens.measure.verdict import State, Verdict
from warplens_tools.errors import CompileError, InputError, TimeLimitError
from warplens_tools.process.task import Task
from warplens_tools.run.probe.job import Shape
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.toolchain.symbols import unit_free_name

#: Rebuilt programs that run at once: each may take as much of the card's memory as the user's own. By judgement: few
#: programs take a quarter of a card, and what fails in company is asked again alone.
_AT_ONCE = 4
#: What the sandbox knows the build by.
_REBUILT = "rebuilt"


class NoGeometry(msgspec.Struct, frozen=True):
    """Why a candidate's geometry is not known, as its verdict says it."""

    state: State
    reason: str


class _Site(msgspec.Struct, frozen=True):
    workload: Workload
    toolchain: Toolchain
    arch: str
    settings: MeasureSettings


class Geometries:
    """Asks each distinct host code once: versions that differ in device code alone share the answer."""

    def __init__(
        self,
        workload: Workload,
        *,
        toolchain: Toolchain,
        arch: str,
        library: Path,
        folder: Path,
        settings: MeasureSettings,
        heavy: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
    ) -> None:
        """`heavy` is held while a text is compiled, as it is for candidates' own units."""
        self._heavy = heavy
        self._site = _Site(workload, toolchain, arch, settings)
        self._library, self._folder = library, folder
        self._known: dict[str, tuple[SurveyedShape, ...] | NoGeometry] = {}
        self._rebuilt: dict[str, ProgramSandbox] = {}

    def rebuild(self, texts: Sequence[SourceText], task: Task) -> dict[str, NoGeometry]:
        """Rebuild the programs of these texts side by side, so that nobody has the card while the compiler works; why
        there are none of some, by host code. That is not kept: another version with the same host code may build.

        Raises:
            CancelledError, MissingToolError: as named.
        """
        asked = {host_text(text): text for text in texts}
        asked = {key: text for key, text in asked.items() if key not in self._known | self._rebuilt}
        jobs = self._site.settings.build_jobs or os.cpu_count() or 1
        with ThreadPoolExecutor(jobs) as pool:
            made = dict(
                zip(asked, pool.map(lambda text: self._rebuild(text, task), asked.values()), strict=True)
            )
        lacking = {key: one for key, one in made.items() if isinstance(one, NoGeometry)}
        self._rebuilt |= {key: one for key, one in made.items() if not isinstance(one, NoGeometry)}
        return lacking

    def ask(self, texts: Sequence[SourceText], task: Task) -> None:
        """Run the rebuilt programs of these texts side by side: what they launch is asked, not how long it takes. One
        that fails in company, as where memory is short, is asked again alone. The GPU lock is held by the caller.

        Raises:
            CancelledError, MissingToolError: as named.
        """
        self._known |= self.rebuild(texts, task)
        asked = [key for key in dict.fromkeys(map(host_text, texts)) if key not in self._known]
        rebuilt = [self._rebuilt[key] for key in asked]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            said = list(pool.map(lambda program: self._ask(program, task), rebuilt))
        if len(asked) > 1:
            said = [
                self._ask(program, task) if isinstance(one, NoGeometry) else one
                for program, one in zip(rebuilt, said, strict=True)
            ]
        self._known |= dict(zip(asked, said, strict=True))
        for key in asked:
            del self._rebuilt[key]

    def place(
        self, built: Built, text: SourceText, judged: Sequence[SurveyedShape], task: Task
    ) -> Built | Verdict:
        """The candidate with its geometry, or why it has none; `judged` are the kernel's shapes in the program as it
        is, the judged one first. The GPU lock is held by the caller.

        Raises:
            CancelledError, MissingToolError: as named.
        """
        found = self.launched(text, task)
        name = unit_free_name(built.job.entry)
        said = found if isinstance(found, NoGeometry) else counterpart(judged, found, name)
        if isinstance(said, NoGeometry):
            return Verdict(built.candidate.id, said.state, said.reason, resources=built.compiled.resources)
        job = msgspec.structs.replace(built.job, grid=said.grid, block=said.block, shared=said.shared)
        return msgspec.structs.replace(built, job=job)

    def launched(self, text: SourceText, task: Task) -> tuple[SurveyedShape, ...] | NoGeometry:
        """All that the rebuilt program launches, or why that is not known. Asked once for each host code."""
        key = host_text(text)
        if key not in self._known:
            self.ask([text], task)
        return self._known[key]

    def _rebuild(self, text: SourceText, task: Task) -> ProgramSandbox | NoGeometry:
        folder = Path(tempfile.mkdtemp(dir=self._folder, prefix="geometry-"))
        try:
            require_fence()
            sandbox = open_yard(self._site, folder, read=(str(self._library.parent),))
            sandbox = msgspec.structs.replace(sandbox, free_builds=True)
            with self._heavy(text.text):
                build_in(sandbox, _REBUILT, text.text, task)
        except CompileError as error:
            return NoGeometry("not_built", str(error))
        except TimeLimitError as error:
            return NoGeometry("not_built", f"the rebuilt program takes too long to compile: {error}")
        except InputError as error:
            return NoGeometry("unproven", f"its launch geometry could not be read: {error}")
        return sandbox

    def _ask(self, rebuilt: ProgramSandbox, task: Task) -> tuple[SurveyedShape, ...] | NoGeometry:
        limit = self._site.workload.time_limit
        try:
            with fenced_command(rebuilt, _REBUILT) as command:
                return survey(command, self._library, probe_folder(rebuilt), limit, task)
        except TimeLimitError as error:
            return NoGeometry("hung", str(error))
        except InputError as error:
            return NoGeometry("unproven", f"its launch geometry could not be read: {error}")


def counterpart(
    judged: Sequence[SurveyedShape], launched: Sequence[SurveyedShape], name: str
) -> Shape | NoGeometry:
    """The geometry that stands for the first of `judged` in a rebuilt program that launches all of `launched`."""
    theirs = [shape for shape in launched if unit_free_name(shape.mangled) == name]
    shapes = {Shape(s.grid, s.block, s.shared) for s in theirs}
    if len(shapes) == 1:
        return shapes.pop()
    if not shapes:
        return NoGeometry("unproven", "the rebuilt program does not launch it")
    pairs = paired(judged, theirs)
    if pairs is not None:
        return next(now for was, now in pairs if was == judged[0])
    return NoGeometry("unproven", f"the rebuilt program launches it in {len(shapes)} geometries")
