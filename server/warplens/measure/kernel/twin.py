# SPDX-License-Identifier: Apache-2.0
"""The kernel's twin that marks which of its blocks run, assembled beside candidates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from warplens.measure.build.candidates import Built
from warplens.measure.build.unit import Unit
from warplens_tools.errors import WarplensError
from warplens_tools.evidence import CompiledKernel, Unknown
from warplens_tools.process.run import run
from warplens_tools.process.task import Task
from warplens_tools.run.probe.job import JobCandidate, JobVariable
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.ptx_marks import Marked, Marks, marked
from warplens_tools.toolchain.symbols import unit_free_name, variables

#: What is not known where there is no twin, or it cannot be asked.
WHAT_RAN = "what of the kernel ran"
_LINKED = "its unit is linked with others' device code"


class Twin(msgspec.Struct, frozen=True):
    """What the probe loads, and what its marks stand for."""

    job: JobCandidate
    marks: Marks


class Marking:
    """A twin for the visits of one candidate, and the marks that it left there."""

    def __init__(self, twin: Twin | Unknown, own: Twin | Unknown) -> None:
        #: None for visits without one; `own` is the candidate's.
        self.twin = twin if isinstance(twin, Twin) else None
        self.own = own if isinstance(own, Twin) else None
        self.ran: list[str] = []


class Assembling(msgspec.Struct, frozen=True):
    """How a twin becomes what the probe loads. Every method raises CancelledError where `task` was stopped."""

    toolchain: Toolchain
    folder: Path
    timeout: float | None
    task: Task

    def of_kernel(self, unit: Unit, compiled: CompiledKernel, program: bytes) -> Twin | Unknown:
        """The twin of a unit's kernel, or why there is none; `program` is the built program's file."""
        if unit.linked is not None:
            return Unknown(WHAT_RAN, _LINKED)
        live = unit.live(program)
        known = {unit_free_name(v.name): live.get(v.name, "") for v in variables(unit.own)}
        found = marked(unit.ptx, compiled.mangled)
        return self._twin(found, compiled.mangled, known, unit.evidence.arch)

    def of_edited(self, built: Built, unit: Unit) -> Twin | Unknown:
        """The same of a candidate; `unit` is its baseline's."""
        if unit.linked is not None or not built.ptx:
            return Unknown(WHAT_RAN, _LINKED)
        known = {unit_free_name(v.name): v.live for v in built.job.variables}
        found = marked(Path(built.ptx).read_text(errors="replace"), built.job.entry, choices=True)
        return self._twin(found, built.job.entry, known, unit.evidence.arch)

    def _twin(self, found: Marked | None, kernel: str, known: Mapping[str, str], arch: str) -> Twin | Unknown:
        """Of a kernel by its mangled name; `known`: the program's variables by their names whatever the unit."""
        if found is None:
            return Unknown(WHAT_RAN, "its PTX cannot be read")
        self.folder.mkdir(parents=True, exist_ok=True)
        text, cubin = self.folder / "twin.ptx", self.folder / "twin.cubin"
        text.write_text(found.text)
        try:
            ptxas = self.toolchain.require("ptxas")
            command = [ptxas.path, f"-arch={arch}", str(text), "-o", str(cubin)]
            env = tool_environment(self.folder)
            done = run(command, cwd=self.folder, env=env, timeout=self.timeout, task=self.task)
        except WarplensError as error:
            return Unknown(WHAT_RAN, str(error))
        if done.status != 0 or not cubin.is_file():
            words = (done.stderr + done.stdout).strip().splitlines()
            return Unknown(WHAT_RAN, f"its twin is not assembled: {words[0] if words else done.status}")
        named = variables(cubin.read_bytes())
        held = tuple(JobVariable(v.name, known.get(unit_free_name(v.name), "")) for v in named)
        return Twin(JobCandidate("twin", str(cubin), kernel, variables=held), found.marks)
