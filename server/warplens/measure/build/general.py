# SPDX-License-Identifier: Apache-2.0
"""What an edit takes for granted that the program leaves to the run, by texts and PTX."""

from __future__ import annotations

import re

from warplens.measure.build.unit import Unit
from warplens_tools.evidence import CompiledKernel
from warplens_tools.toolchain.ptx_asks import asked
from warplens_tools.toolchain.ptx_flow import bodies_of
from warplens_tools.toolchain.ptx_vectors import accesses_of, axes_of
from warplens_tools.toolchain.symbols import unit_free_name
from warplens_tools.tunable.block_parts import why_parts_of_block
from warplens_tools.tunable.blocks_lost import why_block_lost
from warplens_tools.tunable.by_type import why_by_type
from warplens_tools.tunable.early_exits import why_left_early
from warplens_tools.tunable.held_short import why_held_short
from warplens_tools.tunable.left_open import open_axes
from warplens_tools.tunable.left_out import why_left_out
from warplens_tools.tunable.placed import placed
from warplens_tools.tunable.short_loops import why_cut_off
from warplens_tools.tunable.source import File
from warplens_tools.tunable.types_lost import why_types_lost
from warplens_tools.tunable.values_lost import why_values_lost

#: Numbers among a template's arguments, as they are demangled.
_NUMBERS = re.compile(r"\([\w ]+\)-?\d+|\b\d+\b")


def why_not_general(before: File, after: File, baseline: Unit, unit: Unit) -> str:
    """What of an edited unit holds for one plane, for aligned places or for constants alone, in words; "" if nothing is
    known to."""
    was = {unit_free_name(kernel.mangled): kernel for kernel in baseline.evidence.kernels}
    for kernel in unit.evidence.kernels:
        known = was.get(unit_free_name(kernel.mangled))
        if known is None:
            continue
        if why := _planes(before, after, baseline, unit, (known, kernel)):
            return why
        if why := _ignored(baseline, unit, (known, kernel)):
            return why
        if why := _aligned(before, baseline, unit, (known, kernel)):
            return why
    return (
        _by_type(before, after, baseline, unit)
        or _by_values(before, after, baseline, unit)
        or why_block_lost(before, after)
        or why_parts_of_block(before, after)
        or why_left_out(before, after)
        or why_left_early(before, after)
        or why_cut_off(before, after)
        or why_held_short(before, after)
    )


def _by_type(before: File, after: File, baseline: Unit, unit: Unit) -> str:
    """Where an edit goes by the types that a kernel is made for, or by numbers in their place, and changes it for
    several: a run may launch one."""
    old, new = (dict(bodies_of(side.ptx)) for side in (baseline, unit))
    made: dict[str, set[str]] = {}
    for kernel in unit.evidence.kernels:
        name = unit_free_name(kernel.mangled)
        if name in old and name in new and old[name] != new[name]:
            made.setdefault(kernel.qualified_name, set()).add(_NUMBERS.sub("", name))
    for kernel_name, kinds in made.items():
        if len(kinds) < 2:
            continue
        name = kernel_name.split("<")[0]
        if said := why_by_type(before, after, name):
            return f"the edit goes by what {kernel_name} is made for, by {said}, and changes it for {len(kinds)} types"
        if said := why_types_lost(before, after, name):
            return f"the edit has numbers of its own for {said}, which {kernel_name} has for each of {len(kinds)} types"
    return ""


def _by_values(before: File, after: File, baseline: Unit, unit: Unit) -> str:
    """What an edit takes for this build's of numbers that another build or instantiation has others for."""
    known = {unit_free_name(kernel.mangled) for kernel in baseline.evidence.kernels}
    names = {
        k.qualified_name.split("<")[0] for k in unit.evidence.kernels if unit_free_name(k.mangled) in known
    }
    return next((why for name in sorted(names) if (why := why_values_lost(before, after, name))), "")


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


def _ignored(baseline: Unit, unit: Unit, pair: tuple[CompiledKernel, CompiledKernel]) -> str:
    """An input that the edit never reads: whatever lies there, its results are the same."""
    between = baseline.between.get(unit_free_name(pair[0].mangled))
    if between is None:
        return ""
    inputs = {int(base) for base in (between.read | between.cached) - between.written}
    old, new = (asked(side.ptx, one.mangled).unread for side, one in zip((baseline, unit), pair, strict=True))
    for index in sorted(inputs & set(new) - set(old)):
        where = f"parameter {index + 1} of {pair[0].qualified_name}"
        return f"the edit never reads what lies behind {where}, the kernel does"
    return ""


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
