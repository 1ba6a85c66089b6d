# SPDX-License-Identifier: Apache-2.0
"""Compiles candidates alone, several at a time, and says of each what the judge shall load."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from warplens.measure.build.ahead import Ahead
from warplens.measure.build.allowed import HOST_EDITS, why_outside
from warplens.measure.build.both_sides import both_sides
from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gates import HostGates
from warplens.measure.build.host_split import HostSplit
from warplens.measure.build.includes import uses_cutlass
from warplens.measure.build.linking import (
    Linked,
    asks_linking,
    changed_companion,
    companions,
    loadable,
    relocatable,
    same_code,
    with_report,
)
from warplens.measure.build.not_shown import NotShown
from warplens.measure.build.probe_job import job_of
from warplens.measure.build.unit import Unit, counterpart, why_more
from warplens.measure.build.unit_alone import Through, compiled_alone
from warplens.measure.build.wide import means_wide
from warplens.measure.costs import BUILD
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import (
    CompileError,
    InputError,
    MissingToolError,
    TimeLimitError,
    ToolFailedError,
)
from warplens_tools.evidence import CompiledKernel, Unknown
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.build import Overlay, flags_of
from warplens_tools.run.probe.job import JobCandidate
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.link import carried_units, carries_relocatable, device_link
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.toolchain.symbols import code_digest
from warplens_tools.tunable.grid_rule import GridRule, grid_rule
from warplens_tools.tunable.source import File

#: What nvcc and ptxas say of code that only a device linker makes whole.
_NEEDS_LINKING = re.compile(r"separate compilation mode|Unresolved extern function|Undefined reference to")


class Built(msgspec.Struct, frozen=True):
    """A candidate that compiled."""

    candidate: Candidate
    compiled: CompiledKernel
    job: JobCandidate
    #: Its machine code is the baseline's.
    identical: bool
    seconds: float
    #: The file of its unit's PTX; "" where there is none.
    ptx: str = ""


class Builder:
    """Compiles one workload's unit, as it is and with candidates' texts."""

    def __init__(
        self,
        workload: Workload,
        *,
        toolchain: Toolchain,
        arch: str,
        folder: Path,
        settings: MeasureSettings,
        ahead: Ahead[Unit | str] | None = None,
    ) -> None:
        """`ahead`: candidates of it are compiled as soon as the baseline is."""
        self.workload, self._ahead = workload, ahead or Ahead()
        self._toolchain, self._arch, self._folder, self._settings = toolchain, arch, folder, settings
        self._flags = loadable(flags_of(workload))
        self._heavy = threading.Lock()
        self._linked: Linked | None = None
        self._unlike = False
        self._lacking: InputError | MissingToolError | ToolFailedError | None = None
        self.fence = Fence(toolchain, self._flags, settings)
        self.text = self.read(workload)
        self._not_shown = NotShown(
            self.text,
            workload.source,
            wide=means_wide(self.text),
            lower_precision=settings.lower_precision,
        )
        #: Candidates, by id, that are refused for their host side alone, which the compiler's split shows.
        self.changing_host: set[str] = set()
        split = HostSplit(
            Path(workload.unit),
            Path(workload.source),
            toolchain=toolchain,
            flags=flags_of(workload),
            arch=arch,
            timeout=settings.compile_seconds,
        )
        self._gates = HostGates(split, self.text.text, folder, self.fence)

    @staticmethod
    def read(workload: Workload) -> SourceText:
        """The text that candidates edit.

        Raises:
            InputError: it cannot be read.
        """
        return SourceText.read(Path(workload.source))

    def begin(self, task: Task = UNATTENDED) -> None:
        """Read the baseline's host side meanwhile, which the first candidates are held against."""
        self._gates.open(task)

    def baseline(self, task: Task = UNATTENDED, *, program: Path | None = None) -> Unit:
        """The unit as it is, linked with other units' device code as the built `program` is.

        Raises:
            InputError: its device code needs that of other units, and the program does not carry it.
            CompileError, ToolFailedError, MissingToolError, TimeLimitError, CancelledError: as named.
        """
        data = program.read_bytes() if program is not None else b""
        folder = self._folder / "baseline"
        self.begin(task)
        try:
            unit = self._linked_baseline(data, folder, task) if carries_relocatable(data) else None
            unit = unit or self._compile(None, folder, die_with_parent, task)
        except CompileError as error:
            if not _NEEDS_LINKING.search(error.output):
                raise
            raise self._lacking or InputError(
                f"{self.workload.unit} needs relocatable device code that the built program does not carry",
                remedy="build the program with -rdc=true from all units whose device code the kernel calls",
            ) from error
        self.fence.learn(unit.evidence, self._linked.others if self._linked is not None else ())
        self.build_ahead(task)
        return unit

    def build_ahead(self, task: Task = UNATTENDED) -> None:
        """Compile what is expected: the fence has learned what the baseline's unit reads."""

        def begins(candidate: Candidate) -> tuple[str, Callable[[], Unit | str]] | None:
            try:
                text = self.edited(candidate)
            except InputError:
                return None
            if why_outside(self.text, text, candidate.kernel, self.workload.source) != ("", ""):
                return None
            folder = self._folder / f"ahead-{hashlib.sha256(text.text.encode()).hexdigest()[:16]}"
            return text.text, lambda: self._sides(text, folder, task, at_once=True)

        self._ahead.begin(begins, self._jobs)

    @property
    def _jobs(self) -> int:
        return self._settings.build_jobs or os.cpu_count() or 1

    def _linked_baseline(self, program: bytes, folder: Path, task: Task) -> Unit | None:
        """The unit linked with what the program carries; None where it is whole by itself there."""
        flags = flags_of(self.workload)
        linking, whole, self._linked = relocatable(flags, program), self._flags, None
        try:
            carried = self._carried(program, self._folder, task)
        except (InputError, MissingToolError, ToolFailedError) as error:
            # a library may carry what this unit does not need
            if asks_linking(flags):
                raise
            self._lacking = error
            return None
        self._flags = linking
        unit = self._compile(None, folder, die_with_parent, task)
        self._linked = companions(unit.own, [k.mangled for k in unit.evidence.kernels], carried)
        if self._linked is None:
            self._flags = whole
            return None
        own = Path(self._linked.own).read_bytes()
        self._unlike = not same_code(own, unit.own)
        return self._link(unit, folder, die_with_parent, task)

    def unknown(self) -> tuple[Unknown, ...]:
        """What cannot be said of candidates' builds, by name."""
        unlike = Unknown(
            "the flags that the program is built with",
            "the unit, compiled by itself, is not the code that the program carries",
            "say them in compile_commands.json, or as `flags` in warplens.toml",
        )
        children = Unknown(
            "the baseline's time with the kernels that it launches",
            "CUPTI times a kernel by its own threads; candidates and baseline are compared by events around both",
        )
        launches = self._linked is not None and self._linked.launches
        found = [*([unlike] if self._unlike else []), *([children] if launches else [])]
        return (*self.fence.unknown(), *found)

    def differs(self, rebuilt: Path, task: Task = UNATTENDED) -> str:
        """How other units' code in a rebuilt program is not what its candidate was linked with; "" if it is.

        Raises:
            as `carried_units`.
        """
        if self._linked is None:
            return ""
        return changed_companion(self._linked, self._carried(rebuilt.read_bytes(), rebuilt.parent, task))

    def host_differs(self, text: str, folder: Path, task: Task = UNATTENDED) -> str:
        """How the host object of a winner's text is not the baseline's but for sizes; "" if it is.

        Raises:
            CompileError, ToolFailedError, InputError: it cannot be compiled, or read, to compare it.
            TimeLimitError, CancelledError: as named.
        """
        return self._gates.why_not_built(text, folder, task)

    def keeps_sizes(self, text: str) -> bool:
        """Whether a winner's text that `host_differs` has nothing against leaves launches and allocations alone."""
        return self._gates.keeps_sizes(text)

    def _carried(self, program: bytes, folder: Path, task: Task) -> tuple[Path, ...]:
        place = folder / "carried"
        return carried_units(program, toolchain=self._toolchain, arch=self._arch, folder=place, task=task)

    def heavy(self, text: str) -> contextlib.AbstractContextManager[object]:
        """Held while a text is compiled: two units of CUTLASS at once fill a machine's memory, others go on beside."""
        return self._heavy if uses_cutlass(text) else contextlib.nullcontext()

    def edited(self, candidate: Candidate) -> SourceText:
        """The candidate's text.

        Raises:
            InputError: its edits overlap.
        """
        return self.text.apply(list(candidate.edits))

    def build_all(
        self,
        candidates: Sequence[Candidate],
        baseline: Unit,
        target: CompiledKernel,
        program: bytes,
        *,
        task: Task = UNATTENDED,
        on_done: Callable[[Built | Verdict], None],
    ) -> None:
        """Check and compile candidates; `on_done` gets each, as built or as a verdict, in this thread.

        `program` is the built program's file, which knows its variables by their own names.
        """
        at_once = len(candidates) <= self._jobs
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [
                pool.submit(self._build, candidate, baseline, target, program, task, at_once)
                for candidate in candidates
            ]
            for future in as_completed(futures):
                on_done(future.result())

    def _build(
        self,
        candidate: Candidate,
        baseline: Unit,
        target: CompiledKernel,
        program: bytes,
        task: Task,
        at_once: bool,
    ) -> Built | Verdict:
        started = time.monotonic()
        try:
            text = self.edited(candidate)
            name, path = target.qualified_name, self.workload.source
            never, launches = why_outside(self.text, text, name, path)
            if never:
                return Verdict(candidate.id, "refused", never)
            if launches:
                self.changing_host.add(candidate.id)
                return Verdict(candidate.id, "refused", f"{launches} ({HOST_EDITS})")
            unit = self._ahead.take(text.text)
            if unit is None:
                # an id is anyone's text, a folder's name is not
                folder = self._folder / hashlib.sha256(candidate.id.encode()).hexdigest()[:16]
                unit = self._sides(text, folder, task, at_once=at_once)
            if isinstance(unit, str):
                self.changing_host.add(candidate.id)
                return Verdict(candidate.id, "refused", f"{unit} ({HOST_EDITS})")
        except InputError as error:
            return Verdict(candidate.id, "refused", str(error))
        except (ToolFailedError, MissingToolError, TimeLimitError) as error:
            # a text can make the compiler say anything, by #error: what was there for the baseline is there
            seconds = time.monotonic() - started
            return Verdict(candidate.id, "not_built", str(error), cost={BUILD: seconds})
        if why := why_more(unit, baseline, self.workload.source, self._toolchain):
            return Verdict(candidate.id, "refused", why)
        if why := self._not_shown.why(text, unit, baseline, target):
            return Verdict(candidate.id, "unproven", why)
        compiled = counterpart(target, unit.evidence.kernels)
        if compiled is None:
            return Verdict(candidate.id, "refused", f"the edited unit has no {target.demangled}")
        return Built(
            candidate=candidate,
            compiled=compiled,
            job=job_of(candidate, compiled, unit, baseline, program, rule=self._rule(candidate, text, name)),
            identical=unit.digest == baseline.digest and candidate.keeps_geometry,
            seconds=time.monotonic() - started,
            ptx=unit.evidence.ptx_path,
        )

    def _sides(self, text: SourceText, folder: Path, task: Task, *, at_once: bool) -> Unit | str:
        """What a text compiles to, or why its host side is another. Raises as `both_sides`."""
        with self.heavy(text.text):
            return both_sides(
                lambda: self._gates.why_not(text.text, folder, task),
                lambda: self._inside(Overlay(self.workload.source, text.text), folder, task),
                at_once=at_once,
            )

    def _rule(self, candidate: Candidate, text: SourceText, kernel: str) -> GridRule | None:
        """Of a candidate's grid, where it has one of its own."""
        if candidate.keeps_geometry:
            return None
        return grid_rule(File(text, parse(text, self.workload.source)), kernel)

    def _inside(self, overlay: Overlay | None, folder: Path, task: Task) -> Unit:
        """Compile within the fence; once more where the fence itself was in the way."""
        try:
            return self._compile(overlay, folder, self.fence.around(folder), task)
        except (CompileError, ToolFailedError, MissingToolError) as error:
            if _blames_the_text(error) or not self.fence.shuts_out(
                lambda: self._baseline_compiles_inside(task)
            ):
                raise
        return self._compile(overlay, folder, self.fence.around(folder), task)

    def _baseline_compiles_inside(self, task: Task) -> bool:
        folder = self._folder / "fence"
        try:
            self._compile(None, folder, self.fence.around(folder), task)
        except (CompileError, ToolFailedError, MissingToolError):
            return False
        return True

    def _compile(self, overlay: Overlay | None, folder: Path, through: Through, task: Task) -> Unit:
        alone = compiled_alone(
            self.workload,
            self._flags,
            overlay,
            toolchain=self._toolchain,
            arch=self._arch,
            folder=folder,
            timeout=self._settings.compile_seconds,
            through=through,
            task=task,
        )
        return alone if self._linked is None else self._link(alone, folder, through, task)

    def _link(self, unit: Unit, folder: Path, through: Through, task: Task) -> Unit:
        if self._linked is None:
            return unit
        report = device_link(
            self._linked.inputs(unit.evidence.cubin_path, first=self.workload.source != self.workload.unit),
            toolchain=self._toolchain,
            arch=self._arch,
            folder=folder,
            through=through,
            timeout=self._settings.compile_seconds,
            task=task,
        )
        linked = folder / "linked.cubin"
        kernels = with_report(unit.evidence.kernels, report)
        evidence = msgspec.structs.replace(unit.evidence, kernels=kernels, cubin_path=str(linked))
        cubin = linked.read_bytes()
        return Unit(evidence, cubin, code_digest(cubin), unit.own, self._linked)


def _blames_the_text(error: Exception) -> bool:
    """Whether the compiler found fault with the text, not with what it could not reach."""
    if not isinstance(error, CompileError) or "Permission denied" in error.output:
        return False
    return any(message.severity == "error" and message.line for message in error.messages)
