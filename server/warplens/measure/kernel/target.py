# SPDX-License-Identifier: Apache-2.0
"""Which launch of the running program stands for a kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from warplens_tools.errors import InputError
from warplens_tools.evidence import CompiledKernel
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.toolchain.demangle import qualified_name
from warplens_tools.toolchain.symbols import unit_free_name


class KernelShare(msgspec.Struct, frozen=True):
    """One kernel of the running program."""

    mangled: str
    #: Name without template arguments, parameters or return type, e.g. "ns::scale".
    qualified_name: str
    launches: int
    total_ns: float
    #: Of the program's total kernel time, 0 to 1.
    share: float
    #: Distinct (grid, block, dynamic shared bytes).
    shapes: int
    #: The workload's source file defines it, so candidates for it can be judged.
    in_source: bool


class Target(msgspec.Struct, frozen=True):
    """The launch that is visited."""

    #: Name in the running program; local names carry another hash there than in a separate compilation.
    live: str
    compiled: CompiledKernel
    #: The heaviest shape of that instantiation.
    shape: SurveyedShape
    #: Over all shapes and instantiations of the kernel.
    launches: int
    share: float
    #: Its other shapes, heaviest first.
    others: tuple[SurveyedShape, ...] = ()


def shares(surveyed: Sequence[SurveyedShape], defined: set[str]) -> tuple[KernelShare, ...]:
    """Every kernel that ran, hottest first; `defined` are the qualified names in the source."""
    total = sum(s.total_ns for s in surveyed)
    by_name: defaultdict[str, list[SurveyedShape]] = defaultdict(list)
    for shape in surveyed:
        by_name[shape.mangled].append(shape)
    found = [
        KernelShare(
            mangled=name,
            qualified_name=qualified_name(name),
            launches=sum(s.runs for s in shapes),
            total_ns=sum(s.total_ns for s in shapes),
            share=sum(s.total_ns for s in shapes) / total if total else 0.0,
            shapes=len(shapes),
            in_source=qualified_name(name) in defined,
        )
        for name, shapes in by_name.items()
    ]
    return tuple(sorted(found, key=lambda k: -k.total_ns))


def choose(
    surveyed: Sequence[SurveyedShape],
    kernels: Sequence[KernelShare],
    compiled: Sequence[CompiledKernel],
    asked: str,
) -> Target:
    """The launch to visit: of the kernel asked for, else of the hottest that the source defines.

    Raises:
        InputError: it never ran, ran only where no visit reaches it, or the unit compiles no such kernel.
    """
    wanted = _wanted(kernels, asked)
    name = wanted[0].qualified_name
    mine = {k.mangled for k in wanted}
    shapes = [s for s in surveyed if s.mangled in mine]
    visitable = [s for s in shapes if s.visitable]
    if not visitable:
        why = next((s.obstacle for s in shapes if s.obstacle), "no launched graph has it as a node")
        raise InputError(
            f"{name} is launched only into graphs, where it cannot be visited: {why}",
            remedy="measure it in a program, or with an option, that launches it without a graph",
        )
    shape = max(visitable, key=lambda s: s.total_ns)
    twin = next((c for c in compiled if unit_free_name(c.mangled) == unit_free_name(shape.mangled)), None)
    if twin is None:
        raise InputError(
            f"the unit, compiled by itself, has no {shape.mangled} as the running program does",
            remedy="give the unit and the flags that the program is built with",
        )
    return Target(
        live=shape.mangled,
        compiled=twin,
        shape=shape,
        launches=sum(s.runs for s in shapes),
        share=sum(k.share for k in wanted),
        others=tuple(
            s
            for s in sorted(visitable, key=lambda s: -s.total_ns)
            if s is not shape and s.mangled == shape.mangled
        ),
    )


def _wanted(kernels: Sequence[KernelShare], asked: str) -> list[KernelShare]:
    if not kernels:
        raise InputError(
            "the program launches no kernel",
            remedy="give the arguments and files with which it does, as settings of the program",
        )
    if asked:
        found = [k for k in kernels if asked in (k.mangled, k.qualified_name)]
        found = found or [k for k in kernels if k.qualified_name.rsplit("::", 1)[-1] == asked]
    else:
        hottest = next((k for k in kernels if k.in_source), None)
        found = [k for k in kernels if hottest and k.qualified_name == hottest.qualified_name]
    if found:
        return found
    ran = ", ".join(dict.fromkeys(k.qualified_name for k in kernels[:5]))
    what = asked or "any kernel of this file"
    elsewhere = "" if asked else "open the file that defines one of those, with this one as its unit, or "
    raise InputError(
        f"the program never launches {what}; it ran {ran}",
        remedy=f"{elsewhere}give the arguments and files with which it does, as settings of the program",
    )
