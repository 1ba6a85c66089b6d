# SPDX-License-Identifier: Apache-2.0
"""What an edit takes for granted that the program leaves to the run, by texts and PTX."""

from __future__ import annotations

from warplens.measure.build.unit import Unit
from warplens_tools.evidence import CompiledKernel
from warplens_tools.toolchain.ptx_vectors import accesses_of, axes_of
from warplens_tools.toolchain.symbols import unit_free_name
from warplens_tools.tunable.left_open import open_axes, placed
from warplens_tools.tunable.source import File


def why_not_general(before: File, after: File, baseline: Unit, unit: Unit) -> str:
    """What of an edited unit holds for one plane, or for aligned places alone, in words; "" if nothing is known to."""
    was = {unit_free_name(kernel.mangled): kernel for kernel in baseline.evidence.kernels}
    for kernel in unit.evidence.kernels:
        known = was.get(unit_free_name(kernel.mangled))
        if known is None:
            continue
        if why := _planes(before, after, baseline, unit, (known, kernel)):
            return why
        if why := _aligned(before, baseline, unit, (known, kernel)):
            return why
    return ""


def _planes(
    before: File, after: File, baseline: Unit, unit: Unit, pair: tuple[CompiledKernel, CompiledKernel]
) -> str:
    known = pair[0].qualified_name
    axes = open_axes(before, known) & open_axes(after, known)
    if not axes:
        return ""
    lost = axes & axes_of(baseline.ptx, pair[0].mangled) - axes_of(unit.ptx, pair[1].mangled)
    if not lost:
        return ""
    axis = min(lost)
    name = pair[0].qualified_name
    return f"{name} has as many blocks along {axis} as a run wants, and the edit does not ask for blockIdx.{axis}"


def _aligned(before: File, baseline: Unit, unit: Unit, pair: tuple[CompiledKernel, CompiledKernel]) -> str:
    given = placed(before, pair[0].qualified_name)
    if not given:
        return ""
    old, new = accesses_of(baseline.ptx, pair[0].mangled), accesses_of(unit.ptx, pair[1].mangled)
    for index in sorted(given - new.guarded):
        if new.widest.get(index, 0) > old.widest.get(index, new.widest.get(index, 0)):
            return (
                f"the edit reads or writes {new.widest[index]} bytes at once behind parameter {index + 1} of "
                f"{pair[0].qualified_name}, the kernel {old.widest[index]}, and is passed a place within its memory"
            )
    return ""
