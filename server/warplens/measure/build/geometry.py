"""The launch geometry of candidates whose host code computes a new one: the rebuilt program is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.measure.build.allowed import sizes_of
from warplens.measure.build.candidates import Built
from warplens.measure.build.fence import around_program
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.survey import paired, survey
from warplens.measure.verdict import State, Verdict
from warplens_tools.errors import CompileError, InputError, TimeLimitError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.run.build import Overlay, build_program, start_command
from warplens_tools.run.probe.job import Shape
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.toolchain.symbols import unit_free_name


class NoGeometry(msgspec.Struct, frozen=True):
    """Why a candidate's geometry is not known, as its verdict says it."""

    state: State
    reason: str


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
    ) -> None:
        self._workload, self._toolchain, self._arch = workload, toolchain, arch
        self._library, self._folder, self._settings = library, folder, settings
        self._known: dict[object, tuple[SurveyedShape, ...] | NoGeometry] = {}

    def place(
        self, built: Built, text: SourceText, judged: Sequence[SurveyedShape], cancel: CancelToken | None
    ) -> Built | Verdict:
        """The candidate with its geometry, or why it has none; `judged` are the kernel's shapes in the program as it
        is, the judged one first. The GPU lock is held by the caller.

        Raises:
            CancelledError, MissingToolError: as named.
        """
        found = self.launched(text, cancel)
        name = unit_free_name(built.job.entry)
        said = found if isinstance(found, NoGeometry) else counterpart(judged, found, name)
        if isinstance(said, NoGeometry):
            return Verdict(built.candidate.id, said.state, said.reason, resources=built.compiled.resources)
        job = msgspec.structs.replace(built.job, grid=said.grid, block=said.block, shared=said.shared)
        return msgspec.structs.replace(built, job=job)

    def launched(
        self, text: SourceText, cancel: CancelToken | None
    ) -> tuple[SurveyedShape, ...] | NoGeometry:
        """All that the rebuilt program launches, or why that is not known. Asked once for each host code."""
        key = sizes_of(text, self._workload.source)
        if key not in self._known:
            self._known[key] = self._ask(text, cancel)
        return self._known[key]

    def _ask(self, text: SourceText, cancel: CancelToken | None) -> tuple[SurveyedShape, ...] | NoGeometry:
        folder = Path(tempfile.mkdtemp(dir=self._folder, prefix="geometry-"))
        try:
            program = build_program(
                self._workload,
                toolchain=self._toolchain,
                arch=self._arch,
                folder=folder,
                overlay=Overlay(self._workload.source, text.text),
                timeout=self._settings.compile_seconds,
                cancel=cancel,
                through=around_program(folder, self._settings),
            )
            command = start_command(self._workload, program)
            return survey(command, self._library, folder, self._workload.time_limit, cancel)
        except CompileError as error:
            return NoGeometry("not_built", str(error))
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
