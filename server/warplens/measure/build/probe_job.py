# SPDX-License-Identifier: Apache-2.0
"""What the probe is told of a candidate that compiled, and of the kernel as it is."""

from __future__ import annotations

from warplens.measure.build.unit import Unit
from warplens.measure.verdict import Candidate
from warplens_tools.evidence import CompiledKernel
from warplens_tools.run.probe.job import JobCandidate, JobVariable
from warplens_tools.toolchain.ptx_asks import asked
from warplens_tools.toolchain.symbols import unit_free_name, variables
from warplens_tools.tunable.grid_rule import GridRule

#: Names the kernel as it is among candidates.
_CONTROL = "as-it-is"


def control(unit: Unit, compiled: CompiledKernel, program: bytes) -> JobCandidate | None:
    """The kernel as it is, loaded as candidates are; None where the unit is whole by itself."""
    if unit.linked is None:
        return None
    return job_of(Candidate(_CONTROL, "", "", ()), compiled, unit, unit, program)


def job_of(
    candidate: Candidate,
    compiled: CompiledKernel,
    unit: Unit,
    baseline: Unit,
    program: bytes,
    *,
    rule: GridRule | None = None,
) -> JobCandidate:
    """A candidate's unit, with the running program's variables that its own stand for; `rule` is of its grid."""
    live = baseline.live(program)
    old = {unit_free_name(v.name): live.get(v.name, "") for v in variables(baseline.own)}
    names = {v.name: old.get(unit_free_name(v.name), "") for v in variables(unit.own)}
    if unit.linked is not None:
        # other units' variables have the same names in every link; those of the device runtime are its own
        elsewhere = {v.name for v in variables(unit.cubin)} - set(names)
        names |= {name: live[name] for name in sorted(elsewhere) if name in live}
    own, known = asked(unit.ptx, compiled.mangled), asked(baseline.ptx, compiled.mangled)
    return JobCandidate(
        id=candidate.id,
        cubin=unit.evidence.cubin_path,
        entry=compiled.mangled,
        grid=candidate.grid,
        block=candidate.block,
        shared=candidate.dynamic_shared_bytes,
        variables=tuple(JobVariable(name, twin) for name, twin in names.items()),
        rule=rule or (),
        by_rule=candidate.grid_by_rule,
        constants=tuple(c for c in own.constants if c not in known.constants),
        # at a threshold, and below it
        sentinels=tuple(s for f in own.floats if f not in known.floats for s in (f, f / 2)),
    )
