"""The launch geometry of candidates whose host code computes a new one: the rebuilt program is asked."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from warplens.measure.build.allowed import sizes_of
from warplens.measure.build.candidates import Built
from warplens.measure.build.fence import around_program
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.survey import survey
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
        self._known: dict[tuple[object, str], Shape | tuple[State, str]] = {}

    def place(self, built: Built, text: SourceText, cancel: CancelToken | None) -> Built | Verdict:
        """The candidate with its geometry, or why it has none. The GPU lock is held by the caller.

        Raises:
            CancelledError, MissingToolError: as named.
        """
        name = unit_free_name(built.job.entry)
        key = (sizes_of(text, self._workload.source), name)
        if key not in self._known:
            self._known[key] = self._ask(text, name, cancel)
        found = self._known[key]
        if isinstance(found, tuple):
            return Verdict(built.candidate.id, *found, resources=built.compiled.resources)
        job = msgspec.structs.replace(built.job, grid=found.grid, block=found.block, shared=found.shared)
        return msgspec.structs.replace(built, job=job)

    def _ask(self, text: SourceText, name: str, cancel: CancelToken | None) -> Shape | tuple[State, str]:
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
            surveyed = survey(command, self._library, folder, self._workload.time_limit, cancel)
        except CompileError as error:
            return "not_built", str(error)
        except TimeLimitError as error:
            return "hung", str(error)
        except InputError as error:
            return "unproven", f"its launch geometry could not be read: {error}"
        return only_shape(surveyed, name)


def only_shape(surveyed: tuple[SurveyedShape, ...], name: str) -> Shape | tuple[State, str]:
    """The one geometry a kernel is launched with; of several, which stands for the judged one is not known."""
    shapes = {Shape(s.grid, s.block, s.shared) for s in surveyed if unit_free_name(s.mangled) == name}
    if len(shapes) == 1:
        return shapes.pop()
    if not shapes:
        return "unproven", "the rebuilt program does not launch it"
    return "unproven", f"the rebuilt program launches it in {len(shapes)} geometries"
