# SPDX-License-Identifier: Apache-2.0
"""The kernel's twin that marks which of its blocks run, assembled beside candidates."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens.measure.build.unit import Unit
from warplens_tools.errors import WarplensError
from warplens_tools.evidence import CompiledKernel, Unknown
from warplens_tools.process.run import run
from warplens_tools.process.task import Task
from warplens_tools.run.probe.job import JobCandidate, JobVariable
from warplens_tools.toolchain.locate import Toolchain, tool_environment
from warplens_tools.toolchain.ptx_marks import Marks, marked
from warplens_tools.toolchain.symbols import unit_free_name, variables

#: What is not known where there is no twin, or it cannot be asked.
WHAT_RAN = "what of the kernel ran"


class Twin(msgspec.Struct, frozen=True):
    """What the probe loads, and what its marks stand for."""

    job: JobCandidate
    marks: Marks


class Marking:
    """A twin for the visits of one candidate, and the marks that it left there."""

    def __init__(self, twin: Twin | Unknown) -> None:
        #: None for visits without one.
        self.twin = twin if isinstance(twin, Twin) else None
        self.ran: list[str] = []


def twin_of(
    unit: Unit,
    compiled: CompiledKernel,
    program: bytes,
    *,
    toolchain: Toolchain,
    folder: Path,
    timeout: float | None,
    task: Task,
) -> Twin | Unknown:
    """The twin of a unit's kernel, or why there is none; `program` is the built program's file.

    Raises:
        CancelledError: as named.
    """
    if unit.linked is not None:
        return Unknown(WHAT_RAN, "its unit is linked with others' device code")
    found = marked(unit.ptx, compiled.mangled)
    if found is None:
        return Unknown(WHAT_RAN, "its PTX cannot be read")
    folder.mkdir(parents=True, exist_ok=True)
    text, cubin = folder / "twin.ptx", folder / "twin.cubin"
    text.write_text(found.text)
    try:
        ptxas = toolchain.require("ptxas")
        command = [ptxas.path, f"-arch={unit.evidence.arch}", str(text), "-o", str(cubin)]
        done = run(command, cwd=folder, env=tool_environment(folder), timeout=timeout, task=task)
    except WarplensError as error:
        return Unknown(WHAT_RAN, str(error))
    if done.status != 0 or not cubin.is_file():
        words = (done.stderr + done.stdout).strip().splitlines()
        return Unknown(WHAT_RAN, f"its twin is not assembled: {words[0] if words else done.status}")
    live = unit.live(program)
    known = {unit_free_name(v.name): live.get(v.name, "") for v in variables(unit.own)}
    named = variables(cubin.read_bytes())
    held = tuple(JobVariable(v.name, known.get(unit_free_name(v.name), "")) for v in named)
    return Twin(JobCandidate("twin", str(cubin), compiled.mangled, variables=held), found.marks)
