# SPDX-License-Identifier: Apache-2.0
"""What no run of a program can show of an edit, by its PTX and the baseline's."""

from __future__ import annotations

from warplens.measure.build.unit import Unit
from warplens_tools.toolchain.ptx_between import unseen
from warplens_tools.toolchain.ptx_drawn import undrawn
from warplens_tools.toolchain.ptx_ends import gives_up, holds_less
from warplens_tools.toolchain.ptx_exact import less_exact
from warplens_tools.toolchain.ptx_lanes import narrower_lanes
from warplens_tools.toolchain.ptx_rounds import rounds_unseen
from warplens_tools.toolchain.ptx_short import shortened
from warplens_tools.toolchain.ptx_sums import coarser
from warplens_tools.toolchain.ptx_widths import narrowed


def why_not_by_ptx(baseline: Unit, unit: Unit, judged: str, *, wide: bool, lower: bool) -> str:
    """Why an edited unit is not proven, in words; "" if nothing is known to speak against it.

    Args:
        baseline, unit: the unit as it is, and as it was edited.
        judged: the judged kernel's name, whatever the unit.
        wide: whether device code means to compute in 64 bits.
        lower: whether a lower precision is allowed.
    """
    if why := narrowed(baseline.widths, unit.widths) if wide else "":
        return f"{why}: larger arrays or numbers than this program's may overflow it"
    if why := narrower_lanes(baseline.lanes, unit.lanes):
        return f"{why}: larger numbers than this program's may overflow it"
    if why := shortened(baseline.short, unit.short):
        return f"{why}: larger numbers than this program's may not fit"
    if why := unseen(baseline.between, unit.between):
        return why
    if why := undrawn(baseline.drawn, baseline.ends, unit.drawn, unit.ends):
        return why
    if why := gives_up(baseline.ends, unit.ends):
        return f"{why}: other data may need more of them"
    if why := holds_less(baseline.ends, unit.ends):
        return f"{why}: other data may need more"
    if lower:
        return ""
    if why := coarser(baseline.sums, unit.sums):
        return f"{why}: terms that cancel would show it"
    if why := less_exact(baseline.exact, unit.exact, unit.sums):
        return f"{why}: terms that cancel, or values where it is least exact, would show it"
    if why := rounds_unseen(baseline.rounds, unit.rounds, judged):
        return f"{why}, which is not the instantiation that is compared"
    return ""
