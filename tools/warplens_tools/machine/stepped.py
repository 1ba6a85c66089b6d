# SPDX-License-Identifier: Apache-2.0
"""Lanes that are a row apart in one launch, where the launches of a host loop go on between them: the anti-diagonals of
a table, the columns of a matrix that is eliminated."""

from __future__ import annotations

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.forms import Form, Symbol, add, subtract, variable
from warplens_tools.kernel_code import KernelCode
from warplens_tools.machine.coalescing import WarpAccess, accesses_in_calls

#: Axes of threads that go over a matrix.
_AXES = 2
#: Stands for the launches of a loop.
_LAUNCHES = Symbol("launches", "block")


def stepped_parameters(code: KernelCode) -> frozenset[str]:
    """Parameters that are passed the counter of a host loop around a launch, which goes on by one."""
    return frozenset(
        parameter.name
        for site in code.launches.sites
        for parameter, given in zip(code.kernel.parameters, site.arguments, strict=False)
        if given.strip() in site.counters
    )


def accesses_by_steps(code: KernelCode) -> tuple[WarpAccess, ...]:
    """Those that such a loop moves to the elements beside its lanes', each as a full warp makes it: the other launches
    go along between them, as blocks would."""
    names = stepped_parameters(code)
    moved = [a for a in code.global_accesses if not a.few and any(_goes_along(a.index, n) for n in names)]
    return accesses_in_calls(code, [_as_by_blocks(a) for a in moved])


def _goes_along(index: Form | None, step: str) -> bool:
    """Whether the next launch comes to the element beside one of this launch: by itself, as along a column, or at the
    next lane, as along anti-diagonals."""
    by_step = index.growth(step) if index is not None else None
    by_lane = index.growth("threadIdx.x") if index is not None else None
    if by_step is None or by_lane is None or by_step.value == 0:
        return False
    together = (by_step, add(by_step, by_lane), subtract(by_step, by_lane))
    return any(form is not None and form.value in (1, -1) for form in together)


def _as_by_blocks(access: ArrayAccess) -> ArrayAccess:
    index = add(access.index, variable(_LAUNCHES)) if access.index is not None else None
    return msgspec.structs.replace(access, index=index)


def is_line(index: Form) -> bool:
    """Whether one axis of the launch's threads at most, and parameters, are all that an index hangs on: a line of a
    matrix, or an element that is passed."""
    axes = {s.name[-1] for s in index.symbols if s.kind in ("thread", "block")}
    known = all(s.kind in ("thread", "block", "block size", "parameter") for s in index.symbols)
    return known and len(axes) < _AXES and any(s.kind == "parameter" for s in index.symbols)
