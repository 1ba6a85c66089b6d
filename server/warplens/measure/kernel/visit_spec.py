# SPDX-License-Identifier: Apache-2.0
"""Where visits to a launch take place, and what they are told of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.measure.kernel.target import Target
from warplens.measure.kernel.twin import Twin
from warplens_tools.cuda.model import Parameter
from warplens_tools.cuda.values import layouts
from warplens_tools.evidence import CompiledKernel, Unknown
from warplens_tools.run.elements import probed_parameters
from warplens_tools.run.probe.job import Element, JobCandidate, JobParameter
from warplens_tools.run.probe.visit import Command
from warplens_tools.toolchain.ptx_records import records_in
from warplens_tools.toolchain.symbols import unit_free_name


class VisitSpec(msgspec.Struct, frozen=True):
    """Where visits take place."""

    command: Command
    target: Target
    #: The kernel's parameters in the source.
    parameters: tuple[Parameter, ...]
    #: Names of the running program's variables.
    variables: tuple[str, ...]
    library: Path
    helpers: Path
    time_limit: float
    #: Which launch of the shape, from 0; the last where there are fewer.
    launch: int
    #: Whether candidates are timed, or only compared.
    timed: bool = True
    #: Timed by events around a launch: a kernel that launches others has not ended when its own threads have.
    from_events: bool = False
    #: The kernel as it is in a module like a candidate's, where that is not simply its unit: what differs from the
    #: program's own is then the module's doing.
    control: JobCandidate | None = None
    #: The structures that the source defines, by name.
    records: dict[str, layouts.Record] = {}
    #: What the variables hold, of those where the source tells.
    held: dict[str, JobParameter] = {}
    #: Names that the source asks for whether they are null.
    optional: frozenset[str] = frozenset()
    #: An instantiation that the program launches nowhere, and the cubin that holds it: visited in the launched one's
    #: place, with its arguments.
    instead: tuple[str, str] = ("", "")
    #: Pointers whose memory has to hold its floats first, and which floats lie there.
    converted: tuple[tuple[int, Element], ...] = ()
    #: By kernel the parameters behind which no other one, and no host code, sees what a launch of it leaves.
    scratch: dict[str, frozenset[int]] = {}
    #: By kernel and parameter the largest integers that its own arrays have room for.
    most: dict[str, dict[int, int]] = {}
    #: The kernel's grid by the integers that host code passes; () where that is not known.
    rule: tuple[str, ...] = ()
    #: Whether host code chooses the length of its blocks as it runs (`left_open.any_block`).
    any_block: int = 0
    #: The unit's PTX, which says what the kernel compares its inputs with.
    ptx: str = ""
    #: What marks which of the kernel's blocks run; None where that is not asked.
    twin: Twin | None = None
    #: The same of the one candidate that is visited.
    own: Twin | None = None

    def probed(self, compiled: CompiledKernel, parameters: Sequence[Parameter]) -> tuple[JobParameter, ...]:
        """What the probe is told of the parameters of one of the unit's kernels."""
        return probed_parameters(
            compiled.demangled,
            parameters,
            self.records,
            self.scratch.get(compiled.qualified_name, ()),
            self.most.get(compiled.qualified_name),
            records_in(self.ptx).get(unit_free_name(compiled.mangled)),
        )

    def unseen(self) -> list[Unknown]:
        """What launches leave where only their own blocks read."""
        places = sorted(self.scratch.get(self.target.compiled.qualified_name, ()))
        named = [self.parameters[i].name if i < len(self.parameters) else str(i + 1) for i in places]
        why = "nothing but blocks of the same launch reads it, by the program's text"
        return [
            Unknown(f"what a launch leaves behind {name}, if it is a few numbers a block", why)
            for name in named
        ]
